//! Initial weights, gradients as one vector, and the optimiser.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sylvie_gnn::{Adam, Gradients, ModelConfig, ModelKind, Moments, NormKind, Weights};
use sylvie_tensor::{AdamStep, Backend, CpuBackend};

use crate::{KINDS, Matrix, config, reals};

type CpuWeights = Weights<CpuBackend>;

fn network(kind: ModelKind) -> ModelConfig {
    config(kind, &[40, 30, 20, 3], 1, NormKind::Layer)
}

fn glorot(config: &ModelConfig, seed: u64) -> Vec<Vec<f32>> {
    let backend = CpuBackend::new(1);
    CpuWeights::glorot(&backend, config, seed).to_host(&backend)
}

#[test]
fn glorot_bounds() {
    for kind in KINDS {
        let config = network(kind);
        let specs = CpuWeights::specs(&config);
        let tensors = glorot(&config, 3);
        assert_eq!(tensors.len(), specs.len());
        for ((name, spec), values) in specs.iter().zip(&tensors) {
            assert_eq!(values.len(), spec.n_rows * spec.n_cols, "{name}");
            let constant = match spec.name {
                "b" | "ln_b" => Some(0.0),
                "ln_w" => Some(1.0),
                _ => None,
            };
            if let Some(constant) = constant {
                assert!(values.iter().all(|&value| value == constant), "{kind} {name}");
                continue;
            }
            let fans = match spec.name {
                "a_src" | "a_dst" => spec.n_cols + 1,
                _ => spec.n_rows + spec.n_cols,
            };
            let bound = (6.0 / fans as f64).sqrt();
            let largest = values.iter().fold(0.0_f64, |max, &v| max.max(f64::from(v).abs()));
            assert!(largest <= bound * 1.000_001, "{kind} {name}: {largest} beyond {bound}");
            // The largest of n falls below half the bound once in 2^n.
            assert!(largest > bound / 2.0, "{kind} {name}: {largest} far from {bound}");
            let n = values.len() as f64;
            let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
            // Six deviations of a uniform's mean.
            assert!(mean.abs() <= 6.0 * bound / (3.0 * n).sqrt(), "{kind} {name}: mean {mean}");
        }
    }
}

#[test]
fn a_function_of_the_seed() {
    for kind in KINDS {
        let config = network(kind);
        assert_eq!(glorot(&config, 3), glorot(&config, 3));
        let (three, four) = (glorot(&config, 3), glorot(&config, 4));
        for (place, (name, spec)) in CpuWeights::specs(&config).iter().enumerate() {
            let is_drawn = !matches!(spec.name, "b" | "ln_w" | "ln_b");
            assert_eq!(three[place] != four[place], is_drawn, "{kind} {name}");
            // No tensor repeats another's draws.
            let is_repeated = |other: &Vec<f32>| other.first() == three[place].first();
            assert!(!is_drawn || !three[..place].iter().any(is_repeated), "{kind} {name}");
        }
    }
}

#[test]
fn names_in_order() {
    let names = |kind| -> Vec<String> {
        let config = config(kind, &[4, 4, 2], 0, NormKind::Layer);
        CpuWeights::specs(&config).into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(
        names(ModelKind::Sage),
        [
            "layers.0.w_self",
            "layers.0.w_neigh",
            "layers.0.b",
            "layers.0.ln_w",
            "layers.0.ln_b",
            "layers.1.w_self",
            "layers.1.w_neigh",
            "layers.1.b"
        ]
    );
    assert_eq!(
        names(ModelKind::Gat)[..4],
        ["layers.0.w", "layers.0.a_src", "layers.0.a_dst", "layers.0.b"]
    );
}

#[test]
fn host_and_back() {
    let backend = CpuBackend::new(1);
    for kind in KINDS {
        let config = network(kind);
        let tensors: Vec<Vec<f32>> = (0..)
            .zip(CpuWeights::specs(&config))
            .map(|(seed, (_, spec))| reals(seed, spec.n_rows * spec.n_cols))
            .collect();
        let weights = CpuWeights::from_host(&backend, &config, &tensors);
        assert_eq!(weights.to_host(&backend), tensors);

        let mut longer = tensors.clone();
        longer.push(vec![0.0]);
        let mut wrong = tensors.clone();
        wrong[1].push(0.0);
        for tensors in [&tensors[1..], &tensors[..0], &longer, &wrong] {
            let attempt = AssertUnwindSafe(|| CpuWeights::from_host(&backend, &config, tensors));
            assert!(catch_unwind(attempt).is_err(), "{kind}, {} tensors", tensors.len());
        }
    }
}

/// Gradients shaped like the weights, drawn from `seed`.
fn gradients(backend: &CpuBackend, config: &ModelConfig, seed: u64) -> Gradients<CpuBackend> {
    let layer = |layer: usize| -> Vec<Matrix> {
        let specs = config.tensors(layer).into_iter().zip(0..);
        let matrix = |(spec, slot): (sylvie_gnn::TensorSpec, u64)| {
            let seed = seed + 10 * layer as u64 + slot;
            backend.upload(spec.n_rows, spec.n_cols, &reals(seed, spec.n_rows * spec.n_cols))
        };
        specs.map(matrix).collect()
    };
    Gradients::new((0..config.n_layers()).map(layer).collect())
}

#[test]
fn a_layers_gradients_as_one_vector() {
    let backend = CpuBackend::new(1);
    let tensor =
        |seed, (n_rows, n_cols)| backend.upload(n_rows, n_cols, &reals(seed, n_rows * n_cols));
    let layer = |seed| [tensor(seed, (3, 4)), tensor(seed + 1, (1, 4)), tensor(seed + 2, (2, 2))];
    let flat = |layer: &[Matrix]| {
        let mut values = vec![7.0];
        Gradients::append_layer(&backend, layer, &mut values);
        assert_eq!(values.remove(0), 7.0, "appended");
        values
    };
    let (one, mut other) = (layer(100), layer(500));
    let flat_one = flat(&one);
    assert_eq!(flat_one.len(), 12 + 4 + 4);
    assert_ne!(flat(&other), flat_one);
    Gradients::assign_layer(&backend, &mut other, &flat_one);
    assert_eq!(other, one);
    assert_eq!(
        Gradients::new(vec![one.into(), other.clone().into()]).flatten(&backend),
        [&flat_one[..], &flat_one[..]].concat()
    );
    for wrong in [&flat_one[1..], &[&flat_one[..], &[0.0]].concat()] {
        let attempt = AssertUnwindSafe(|| Gradients::assign_layer(&backend, &mut other, wrong));
        assert!(catch_unwind(attempt).is_err(), "{} values", wrong.len());
    }
}

#[test]
fn adam_counts_its_steps_and_keeps_its_moments() {
    let backend = CpuBackend::new(1);
    let config = network(ModelKind::Sage);
    let mut weights = CpuWeights::glorot(&backend, &config, 3);
    let mut expected: Vec<Matrix> = CpuWeights::specs(&config)
        .iter()
        .zip(weights.to_host(&backend))
        .map(|((_, spec), values)| backend.upload(spec.n_rows, spec.n_cols, &values))
        .collect();
    let zeros = |x: &Matrix| backend.zeros(x.n_rows(), x.n_cols());
    let (mut first, mut second): (Vec<Matrix>, Vec<Matrix>) =
        (expected.iter().map(zeros).collect(), expected.iter().map(zeros).collect());
    let mut adam = Adam::new(&backend, &config, 0.02, 0.1);
    for number in 1..=3 {
        let gradients = gradients(&backend, &config, 1000 * u64::from(number));
        adam.step(&backend, &gradients, &mut weights);
        let mut flat = &gradients.flatten(&backend)[..];
        let (learning_rate, beta1, beta2, epsilon) = (0.02, 0.9, 0.999, 1e-8);
        let step =
            AdamStep { learning_rate, beta1, beta2, epsilon, weight_decay: 0.1, step: number };
        for (place, tensor) in expected.iter_mut().enumerate() {
            let (own, rest) = flat.split_at(tensor.values().len());
            flat = rest;
            let gradient = backend.upload(tensor.n_rows(), tensor.n_cols(), own);
            backend.adam(&step, &gradient, (&mut first[place], &mut second[place]), tensor);
        }
        for (found, expected) in weights.to_host(&backend).iter().zip(&expected) {
            assert_eq!(found, expected.values(), "step {number}");
        }
    }
}

#[test]
fn an_optimiser_goes_on_from_its_moments() {
    let backend = CpuBackend::new(1);
    let config = network(ModelKind::Sage);
    let gradients = || Gradients::<CpuBackend>::new(upload(&backend, &config));
    let mut weights = CpuWeights::glorot(&backend, &config, 3);
    let mut adam = Adam::new(&backend, &config, 0.01, 0.1);
    (0..3).for_each(|_| adam.step(&backend, &gradients(), &mut weights));

    let moments = adam.moments(&backend);
    assert!(moments.fit(&config) && moments.n_steps == 3);
    assert!(!moments.fit(&network(ModelKind::Gat)));
    let mut other = Adam::resumed(&backend, &config, (0.01, 0.1), &moments);
    let host = weights.to_host(&backend);
    let mut others = CpuWeights::from_host(&backend, &config, &host);
    adam.step(&backend, &gradients(), &mut weights);
    other.step(&backend, &gradients(), &mut others);
    assert_eq!(others.to_host(&backend), weights.to_host(&backend));
    assert_eq!(other.moments(&backend), adam.moments(&backend));

    let mut fresh =
        Adam::resumed(&backend, &config, (0.01, 0.1), &Moments { n_steps: 0, ..moments });
    let mut third = CpuWeights::from_host(&backend, &config, &host);
    fresh.step(&backend, &gradients(), &mut third);
    assert_ne!(third.to_host(&backend), weights.to_host(&backend), "the count of steps matters");
}

/// A gradient of other values for every tensor.
fn upload(backend: &CpuBackend, config: &ModelConfig) -> Vec<Vec<<CpuBackend as Backend>::Matrix>> {
    let layer = |layer: usize| {
        let tensors = config.tensors(layer).into_iter();
        let values = |n: usize| (0..n).map(|at| (at % 7) as f32 - 2.5).collect::<Vec<_>>();
        let tensors = tensors.map(|spec| (spec.n_rows, spec.n_cols));
        tensors.map(|(rows, cols)| backend.upload(rows, cols, &values(rows * cols))).collect()
    };
    (0..config.n_layers()).map(layer).collect()
}
