//! A layer's passes in stages: what is kept, what is given again, and what is refused.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sylvie_gnn::{ColumnFactors, Context, Dropout, Input, ModelKind, Network, NormKind};
use sylvie_gnn::{Structure, Weights};
use sylvie_graph::{Direction, PartGraph};
use sylvie_tensor::{Backend, CpuBackend};

use crate::{KINDS, config, context, dropout, graph, reals, split};

pub(crate) const WIDTH_IN: usize = 6;

/// Output and gradients of a layer on a part, before dropout's masks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) y: Vec<f32>,
    pub(crate) own: Vec<f32>,
    pub(crate) halo: Vec<Vec<f32>>,
    pub(crate) weights: Vec<Vec<f32>>,
}

impl Outcome {
    pub(crate) fn bits(&self) -> Vec<u32> {
        let all = [&self.y, &self.own].into_iter().chain(&self.halo).chain(&self.weights);
        all.flatten().map(|value| value.to_bits()).collect()
    }
}

/// A second layer on a part, with what it reads.
pub(crate) struct Case<'a> {
    pub(crate) network: &'a Network,
    pub(crate) part: &'a PartGraph,
    pub(crate) own: Vec<f32>,
    /// Rows of each halo block.
    pub(crate) halo: Vec<Vec<f32>>,
    /// Factors of each halo block.
    pub(crate) factors: Vec<Option<Vec<f32>>>,
    pub(crate) dropout: Option<Dropout>,
    pub(crate) keeps_halo: bool,
}

impl<'a> Case<'a> {
    /// Random rows, all factors 1, halo rows kept.
    pub(crate) fn new(network: &'a Network, part: &'a PartGraph) -> Self {
        let halo = |(block, seed)| {
            let block: &sylvie_graph::Block = block;
            reals(seed, block.column_ids.len() * WIDTH_IN)
        };
        Self {
            network,
            part,
            own: reals(20, part.n_local() * WIDTH_IN),
            halo: part.halo_blocks().iter().zip(21..).map(halo).collect(),
            factors: vec![None; part.halo_blocks().len()],
            dropout: None,
            keeps_halo: true,
        }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        let (network, backend) = (self.network, CpuBackend::new(1));
        let structure = Structure::new(&backend, self.part);
        let ctx = context(&backend, &structure, self.dropout);
        let ctx = Context { keeps_halo: self.keeps_halo, ..ctx };
        let weights = Weights::glorot(&backend, network.config(), 4);
        let upload = |x: &Vec<f32>| {
            Input::<CpuBackend>::dense(backend.upload(x.len() / WIDTH_IN, WIDTH_IN, x))
        };
        let halo: Vec<_> = self.halo.iter().map(upload).collect();
        let factors = structure.halo.iter().zip(&self.factors).map(|(block, factors)| {
            let factors = factors.as_ref()?;
            Some(ColumnFactors::new(&backend, network.config(), block, factors))
        });
        let factors: Vec<_> = factors.collect();
        let blocks = || halo.iter().zip(&factors).map(|(h, f)| (h, f.as_ref())).enumerate();

        let mut partial = network.begin(1, ctx, &weights, &upload(&self.own));
        for (block, (halo, factors)) in blocks() {
            network.add_block(ctx, &weights, block, halo, factors, &mut partial);
        }
        let (y, saved) = network.finish(ctx, &weights, partial);
        let (n_rows, n_cols) = backend.shape(&y);
        let dy = backend.upload(n_rows, n_cols, &reals(30, n_rows * n_cols));
        let mut partial = network.begin_backward(ctx, &weights, saved, dy);
        let mut halo_gradients = Vec::new();
        for (block, (halo, factors)) in blocks() {
            let halo = (!self.keeps_halo).then_some(halo);
            let gradient =
                network.block_gradient(ctx, &weights, block, halo, factors, &mut partial);
            halo_gradients.push(backend.download(&gradient));
        }
        let grads = network.finish_backward(ctx, &weights, partial);
        Outcome {
            y: backend.download(&y),
            own: backend.download(&grads.own.expect("gradients of own rows")),
            halo: halo_gradients,
            weights: grads.weights.iter().map(|gradient| backend.download(gradient)).collect(),
        }
    }
}

/// Second layers, in the middle of a network and at its end.
pub(crate) fn networks(kind: ModelKind) -> [Network; 2] {
    [&[2, WIDTH_IN, 8, 3][..], &[2, WIDTH_IN, 3]]
        .map(|widths| Network::new(config(kind, widths, 0, NormKind::Layer)).expect("a network"))
}

/// A part that reads two others.
pub(crate) fn part(seed: u64) -> PartGraph {
    let graph = graph(seed, 30, 80, Direction::Symmetric);
    let part = split(seed + 1, &graph, 4).remove(0);
    assert_eq!(part.halo_blocks().len(), 2, "halo blocks");
    part
}

/// Every other row dropped, the rest with `factor`.
pub(crate) fn alternate(n_rows: usize, factor: f32) -> Option<Vec<f32>> {
    Some((0..n_rows).map(|row| if row % 2 == 0 { factor } else { 0.0 }).collect())
}

#[test]
fn halo_rows_given_again_give_the_same_bits_as_halo_rows_kept() {
    for kind in KINDS {
        for network in &networks(kind) {
            for (seed, dropout) in [(1, None), (2, Some(dropout(0.4, 1)))] {
                let part = part(seed);
                let mut case = Case { dropout, ..Case::new(network, &part) };
                for factors in [None, alternate(part.blocks[1].column_ids.len(), 4.0)] {
                    case.factors[0] = factors;
                    case.keeps_halo = true;
                    let kept = case.outcome();
                    case.keeps_halo = false;
                    assert_eq!(case.outcome().bits(), kept.bits(), "{kind}");
                }
            }
        }
    }
}

#[test]
fn factors_of_one_change_no_bit() {
    for kind in KINDS {
        for network in &networks(kind) {
            let part = part(3);
            let mut case = Case::new(network, &part);
            let plain = case.outcome();
            let ones = part.halo_blocks().iter().map(|b| Some(vec![1.0; b.column_ids.len()]));
            case.factors = ones.collect();
            assert_eq!(case.outcome().bits(), plain.bits(), "{kind}");
        }
    }
}

#[test]
fn the_whole_backward_pass_is_its_stages() {
    let backend = CpuBackend::new(1);
    for kind in KINDS {
        for network in &networks(kind) {
            let part = part(5);
            let case = Case { dropout: Some(dropout(0.4, 1)), ..Case::new(network, &part) };
            let structure = Structure::new(&backend, &part);
            let ctx = context(&backend, &structure, case.dropout);
            let weights = Weights::glorot(&backend, network.config(), 4);
            let upload = |x: &[f32]| Input::dense(backend.upload(x.len() / WIDTH_IN, WIDTH_IN, x));
            let mut partial = network.begin(1, ctx, &weights, &upload(&case.own));
            for (block, halo) in case.halo.iter().enumerate() {
                network.add_block(ctx, &weights, block, &upload(halo), None, &mut partial);
            }
            let (y, saved) = network.finish(ctx, &weights, partial);
            let (n_rows, n_cols) = backend.shape(&y);
            let dy = backend.upload(n_rows, n_cols, &reals(30, n_rows * n_cols));
            let (grads, halo) = network.backward(ctx, &weights, saved, dy);
            let outcome = Outcome {
                y: backend.download(&y),
                own: backend.download(&grads.own.expect("gradients of own rows")),
                halo: halo.iter().map(|gradient| backend.download(gradient)).collect(),
                weights: grads.weights.iter().map(|g| backend.download(g)).collect(),
            };
            assert_eq!(outcome.bits(), case.outcome().bits(), "{kind}");
        }
    }
}

/// What a caller does with a layer's blocks on its way back.
#[derive(Clone, Copy, Debug)]
enum Call {
    Gradient(usize),
    GradientWithFactors(usize),
    WeightGradients(usize),
    Finish,
}

/// Whether the calls, after a forward pass without factors, are refused.
fn is_refused(kind: ModelKind, layer: usize, keeps_halo: bool, calls: &[Call]) -> bool {
    let widths = [WIDTH_IN, WIDTH_IN, 3];
    let network = Network::new(config(kind, &widths, 0, NormKind::None)).expect("a network");
    let (backend, part) = (CpuBackend::new(1), part(6));
    let structure = Structure::new(&backend, &part);
    let ctx = Context { keeps_halo, ..context(&backend, &structure, None) };
    let weights = Weights::glorot(&backend, network.config(), 4);
    let rows = |n: usize| Input::dense(backend.zeros(n, WIDTH_IN));
    let mut partial = network.begin(layer, ctx, &weights, &rows(part.n_local()));
    for (block, read) in structure.halo.iter().enumerate() {
        network.add_block(ctx, &weights, block, &rows(read.n_rows), None, &mut partial);
    }
    let saved = network.finish(ctx, &weights, partial).1;
    let dy = backend.zeros(part.n_local(), widths[layer + 1]);
    let mut partial = Some(network.begin_backward(ctx, &weights, saved, dy));
    let attempt = catch_unwind(AssertUnwindSafe(|| {
        for &call in calls {
            let open = partial.as_mut().expect("calls before the end");
            match call {
                Call::Gradient(block) => {
                    network.block_gradient(ctx, &weights, block, None, None, open);
                }
                Call::GradientWithFactors(block) => {
                    let (read, config) = (&structure.halo[block], network.config());
                    let ones = vec![1.0; read.n_rows];
                    let factors = ColumnFactors::new(&backend, config, read, &ones);
                    network.block_gradient(ctx, &weights, block, None, Some(&factors), open);
                }
                Call::WeightGradients(block) => {
                    network.block_weight_gradients(ctx, &weights, block, None, None, open);
                }
                Call::Finish => {
                    let partial = partial.take().expect("an open pass");
                    network.finish_backward(ctx, &weights, partial);
                }
            }
        }
    }));
    attempt.is_err()
}

#[test]
fn blocks_that_go_back_wrongly_are_refused() {
    use Call::{Finish, Gradient, GradientWithFactors, WeightGradients};
    for kind in KINDS {
        let right = [Gradient(0), WeightGradients(1), Finish];
        assert!(!is_refused(kind, 1, true, &right), "{kind} refused {right:?}");
        let needs_halo = kind == ModelKind::Gat;
        assert_eq!(is_refused(kind, 1, false, &right), needs_halo, "{kind} without halo rows");
        let wrong: [&[Call]; 6] = [
            &[Gradient(1)],
            &[Gradient(0), Gradient(0)],
            &[Gradient(0), Finish],
            &[Finish],
            &[WeightGradients(1)],
            &[GradientWithFactors(0)],
        ];
        for calls in wrong {
            assert!(is_refused(kind, 1, true, calls), "{kind} took {calls:?}");
        }
        // Raw features have no gradients; only attention's weights need their blocks.
        assert!(is_refused(kind, 0, true, &[Gradient(0)]), "{kind}: gradient of features");
        let right = [WeightGradients(0), WeightGradients(1), Finish];
        assert!(!is_refused(kind, 0, true, &right), "{kind} refused {right:?}");
        assert_eq!(is_refused(kind, 0, true, &[Finish]), kind == ModelKind::Gat, "{kind}");
    }
}

#[test]
fn factors_that_do_not_fit_are_refused() {
    let (backend, part) = (CpuBackend::new(1), part(6));
    let structure = Structure::new(&backend, &part);
    let block = &structure.halo[0];
    assert!(block.n_rows >= 2);
    let is_refused = |kind: ModelKind, factors: &[f32]| {
        let config = config(kind, &[WIDTH_IN, 4], 0, NormKind::None);
        let attempt = || ColumnFactors::new(&backend, &config, block, factors);
        catch_unwind(AssertUnwindSafe(|| drop(attempt()))).is_err()
    };
    for kind in KINDS {
        for value in [-1.0, f32::NAN, f32::INFINITY] {
            let mut factors = vec![1.0; block.n_rows];
            factors[1] = value;
            assert!(is_refused(kind, &factors), "{kind} took a factor of {value}");
        }
        assert!(is_refused(kind, &vec![1.0; block.n_rows + 1]), "{kind} took a factor too many");
        assert!(!is_refused(kind, &vec![0.0; block.n_rows]), "{kind} refused to drop all rows");
        let mut uneven = vec![2.0; block.n_rows];
        uneven[1] = 3.0;
        assert_eq!(is_refused(kind, &uneven), kind == ModelKind::Gat, "{kind}, two factors");
    }
}

#[test]
fn factors_of_another_model_are_refused() {
    let (backend, part) = (CpuBackend::new(1), part(6));
    let structure = Structure::new(&backend, &part);
    for (kind, other) in [
        (ModelKind::Gat, ModelKind::Sage),
        (ModelKind::Sage, ModelKind::Gat),
        (ModelKind::Gcn, ModelKind::Gat),
    ] {
        let network = &networks(kind)[0];
        let (ctx, read) = (context(&backend, &structure, None), &structure.halo[0]);
        let config = config(other, &[WIDTH_IN, 4], 0, NormKind::None);
        let factors = ColumnFactors::new(&backend, &config, read, &vec![1.0; read.n_rows]);
        let weights = Weights::glorot(&backend, network.config(), 4);
        let rows = |n: usize| Input::dense(backend.zeros(n, WIDTH_IN));
        let mut partial = network.begin(1, ctx, &weights, &rows(part.n_local()));
        let halo = rows(read.n_rows);
        let attempt = catch_unwind(AssertUnwindSafe(|| {
            network.add_block(ctx, &weights, 0, &halo, Some(&factors), &mut partial);
        }));
        assert!(attempt.is_err(), "{kind} took factors of {other}");
    }
}
