//! Theorem 2: low-bit exchange leaves the gradient's expectation, and its variance falls as 1 / B^2.
//!
//! The theorem is about a linear network: here no ReLU is ever off, since biases lift all rows far above
//! zero, and the loss is as good as linear, since the last weights are so small that a sigmoid is a line.
//! Weights stay, so every epoch is another draw of the same gradient.

use sylvie_comm::{Communicator, ThreadOptions, Threads, run_ranks};
use sylvie_gnn::{Metric, ModelConfig, ModelKind, NormKind, Weights};
use sylvie_lowbit::{RowCodec, Width};
use sylvie_pipeline::{EpochRecord, ExchangePolicy, Instruments, TrainError, TrainSettings, train};
use sylvie_random::{Coordinates, Sequence, Stream};
use sylvie_tensor::CpuBackend;

use crate::fixture::{
    N_CLASSES, N_FEATURES, NoClock, Setting, Shape, dataset, inputs, random_parts, settings,
};
use crate::recording::Recording;

const N_DRAWS: u32 = 600;
const N_HIDDEN: usize = 12;

fn linear_network(exchange: ExchangePolicy, n_epochs: u32) -> TrainSettings {
    let model = ModelConfig {
        kind: ModelKind::Sage,
        widths: vec![N_FEATURES, N_HIDDEN, N_HIDDEN, N_CLASSES as usize],
        n_linear: 0,
        n_heads: 1,
        dropout: 0.0,
        norm: NormKind::None,
    };
    let mut sequence = Sequence::new(Coordinates::new(5, Stream::Weights).family(), 1);
    let tensors = Weights::<CpuBackend>::specs(&model).into_iter().map(|(name, spec)| {
        let scale = if name.starts_with("layers.2") { 1e-4 } else { 0.2 };
        let lift = if name.ends_with(".b") && !name.starts_with("layers.2") { 20.0 } else { 0.0 };
        let draw = |_| ((sequence.next_f64() as f32 - 0.5) * scale) + lift;
        (0..spec.n_rows * spec.n_cols).map(draw).collect()
    });
    let initial_weights = Some(tensors.collect());
    TrainSettings {
        model,
        exchange,
        n_epochs,
        learning_rate: 0.0,
        eval_every: n_epochs,
        metric: Metric::MicroF1,
        initial_weights,
        ..settings(ModelKind::Sage, n_epochs)
    }
}

/// The sum over ranks of the weight gradients, an epoch an entry, all tensors in a row.
fn gradients(settings: &TrainSettings) -> Vec<Vec<f64>> {
    let data = dataset(Shape { n_nodes: 60, is_multi: true, ..Shape::default() });
    let inputs = inputs(&data, &random_parts(&data, 3), Setting::Transductive);
    let ranks = run_ranks(3, &ThreadOptions::default(), |comm: &mut Threads<Vec<u8>>| {
        let input = &inputs[comm.rank()];
        let mut comm = Recording::new(comm);
        let mut observe = |_: &EpochRecord| Ok(());
        let instruments = Instruments::clock(&NoClock);
        train(&CpuBackend::new(1), &mut comm, input, settings, instruments, &mut observe)?;
        Ok::<_, TrainError>(comm.reduced)
    });
    let ranks = ranks.expect("a run");
    let n_layers = settings.model.n_layers();
    let epoch = |epoch: usize| -> Vec<f64> {
        let layers = (0..n_layers).map(|layer| epoch * n_layers + (n_layers - 1 - layer));
        let sum = |call: usize| {
            let n_values = ranks[0][call].len();
            let ranks = &ranks;
            (0..n_values).map(move |at| ranks.iter().map(|rank| f64::from(rank[call][at])).sum())
        };
        layers.flat_map(sum).collect()
    };
    (0..settings.n_epochs as usize).map(epoch).collect()
}

/// Mean and variance of the mean, entry by entry.
fn mean_and_variance(draws: &[Vec<f64>]) -> (Vec<f64>, Vec<f64>) {
    let n = draws.len() as f64;
    let entries = 0..draws[0].len();
    let mean: Vec<f64> =
        entries.clone().map(|at| draws.iter().map(|draw| draw[at]).sum::<f64>() / n).collect();
    let variance =
        |at: usize| draws.iter().map(|draw| (draw[at] - mean[at]).powi(2)).sum::<f64>() / (n - 1.0);
    let variance = entries.map(variance).collect();
    (mean, variance)
}

fn coded(width: Width) -> ExchangePolicy {
    ExchangePolicy::uniform(RowCodec::new(width))
}

#[test]
fn gradients_keep_their_mean_and_their_variance_falls_with_the_levels() {
    let exact = gradients(&linear_network(ExchangePolicy::full_precision(), 1)).remove(0);
    let mut variances = Vec::new();
    for width in [Width::One, Width::Two, Width::Four, Width::Eight] {
        let draws = gradients(&linear_network(coded(width), N_DRAWS));
        let (mean, variance) = mean_and_variance(&draws);
        for (at, exact) in exact.iter().enumerate() {
            // Normal to good approximation: seven deviations come by chance once in 4e11. What is left of
            // the sigmoid's curve, and the rounding of f32, are far below a deviation.
            let deviation = (variance[at] / f64::from(N_DRAWS)).sqrt();
            let bound = 7.0 * deviation + 1e-5 * exact.abs() + 1e-9;
            let error = (mean[at] - exact).abs();
            assert!(error <= bound, "{width:?}, entry {at}: {} instead of {exact}", mean[at]);
        }
        variances.push(variance.iter().sum::<f64>());
    }
    // B is 1, 3, 15 and 255. Between two levels a value's place is as good as uniform when there are
    // many of them; at one bit it is that of the values between a row's ends.
    let ratio = |coarse: usize, fine: usize| variances[coarse] / variances[fine];
    assert!((6.0..14.0).contains(&ratio(0, 1)), "{variances:?}");
    assert!((20.0..30.0).contains(&ratio(1, 2)), "{variances:?}");
    assert!((230.0..350.0).contains(&ratio(2, 3)), "{variances:?}");
}

/// The test above has power: one draw used in every epoch, which is rounding with a bias, is seen.
#[test]
fn a_bias_would_show() {
    let exact = gradients(&linear_network(ExchangePolicy::full_precision(), 1)).remove(0);
    let draws = gradients(&linear_network(coded(Width::One), N_DRAWS));
    let (_, variance) = mean_and_variance(&draws);
    let is_off = |(at, exact): (usize, &f64)| {
        let bound = 7.0 * (variance[at] / f64::from(N_DRAWS)).sqrt() + 1e-5 * exact.abs() + 1e-9;
        (draws[0][at] - exact).abs() > bound
    };
    let n_off = exact.iter().enumerate().filter(|&entry| is_off(entry)).count();
    assert!(n_off > exact.len() / 4, "{n_off} of {}", exact.len());
}
