//! Parts, threads and repetition leave a run what it is.

use sylvie_comm::{Communicator, ThreadOptions, Threads, run_ranks};
use sylvie_gnn::{ClassWeights, Metric, ModelKind};
use sylvie_graph::{Assignment, Dataset, Direction, Features, Role};
use sylvie_partition::{Metis, Partitioner, Random};
use sylvie_pipeline::{EpochRecord, Instruments, Preset, TrainSettings, train};
use sylvie_tensor::CpuBackend;

use crate::fixture::{
    NoClock, Setting, Shape, dataset, inputs, losses, random_parts, run, settings,
};

const KINDS: [ModelKind; 3] = [ModelKind::Gcn, ModelKind::Sage, ModelKind::Gat];
const N_EPOCHS: u32 = 20;

/// The loss agrees to 1e-5 up to epoch 4 and to 5e-4 up to epoch 20.
fn assert_close(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: epochs");
    for (epoch, (f, e)) in found.iter().zip(expected).enumerate() {
        let bound = if epoch < 5 { 1e-5 } else { 5e-4 };
        assert!((f - e).abs() <= bound * e.abs(), "{what}, epoch {epoch}: {f} instead of {e}");
    }
}

fn losses_of(
    data: &Dataset,
    assignment: &Assignment,
    setting: Setting,
    settings: &TrainSettings,
) -> Vec<f64> {
    let (records, _) = run(&inputs(data, assignment, setting), settings, 1).expect("a run");
    losses(&records)
}

fn one_part(data: &Dataset) -> Assignment {
    Assignment::new(1, vec![0; data.n_nodes()]).expect("one part")
}

fn is_train(data: &Dataset) -> Vec<bool> {
    data.split.roles().iter().map(|&role| role == Role::Train).collect()
}

/// METIS and random assignments to 2, 3 and 5 parts against one part.
fn check_parts(shape: Shape, kinds: &[ModelKind], setting: Setting) {
    let data = dataset(shape);
    let train = is_train(&data);
    for &kind in kinds {
        let settings = settings(kind, N_EPOCHS);
        let expected = losses_of(&data, &one_part(&data), setting, &settings);
        assert!(expected[19] < expected[0], "{kind} learns: {expected:?}");
        for n_parts in [2, 3, 5] {
            let partitioners: [&dyn Partitioner; 2] = [&Metis::default(), &Random { seed: 5 }];
            for partitioner in partitioners {
                let assignment =
                    partitioner.partition(&data.graph, &train, n_parts).expect("an assignment");
                let found = losses_of(&data, &assignment, setting, &settings);
                let what = format!("{kind}, {n_parts} parts by {}", partitioner.name());
                assert_close(&found, &expected, &format!("{what}, {shape:?}, {setting:?}"));
            }
        }
    }
}

#[test]
fn parts_equal_one_part_single_label() {
    check_parts(Shape::default(), &KINDS, Setting::Transductive);
}

#[test]
fn parts_equal_one_part_multi_label() {
    let shape = Shape { is_multi: true, ..Shape::default() };
    check_parts(shape, &KINDS, Setting::Transductive);
}

/// Classes are counted over the whole graph, whichever part their nodes are in.
#[test]
fn class_weights_are_the_same_on_any_parts() {
    for is_multi in [false, true] {
        let data = dataset(Shape { is_multi, ..Shape::default() });
        let losses = |weights: &ClassWeights, assignment: &Assignment| {
            let settings = TrainSettings {
                class_weights: weights.clone(),
                metric: Metric::MacroF1,
                ..settings(ModelKind::Sage, N_EPOCHS)
            };
            losses_of(&data, assignment, Setting::Transductive, &settings)
        };
        let alone = losses(&ClassWeights::None, &one_part(&data));
        let given = ClassWeights::Given(vec![0.5, 1.0, 2.0, 4.0]);
        for weights in [ClassWeights::Balanced, given] {
            let expected = losses(&weights, &one_part(&data));
            assert_ne!(expected, alone, "{weights}");
            for n_parts in [2, 3] {
                let found = losses(&weights, &random_parts(&data, n_parts));
                assert_close(&found, &expected, &format!("{weights} on {n_parts} parts"));
            }
        }
    }
}

/// An input that is given away is freed on the way, which changes nothing.
#[test]
fn inputs_may_be_given_away() {
    let data = dataset(Shape::default());
    let settings = settings(ModelKind::Sage, 7);
    let inputs = inputs(&data, &random_parts(&data, 2), Setting::Inductive);
    let (_, expected) = run(&inputs, &settings, 1).expect("a run");
    let ranks = run_ranks(2, &ThreadOptions::default(), |comm: &mut Threads<Vec<u8>>| {
        let (backend, input) = (CpuBackend::new(1), inputs[comm.rank()].clone());
        let mut observe = |_: &EpochRecord| Ok(());
        train(&backend, comm, input, &settings, Instruments::clock(&NoClock), &mut observe)
    });
    assert_eq!(ranks.expect("a run")[0], expected);
}

#[test]
fn parts_equal_one_part_on_a_directed_graph() {
    let shape = Shape { direction: Direction::Directed, ..Shape::default() };
    check_parts(shape, &[ModelKind::Sage, ModelKind::Gat], Setting::Transductive);
}

#[test]
fn parts_equal_one_part_with_sparse_features() {
    let shape = Shape { is_sparse: true, ..Shape::default() };
    check_parts(shape, &KINDS, Setting::Transductive);
}

#[test]
fn parts_equal_one_part_in_inductive_training() {
    check_parts(Shape::default(), &KINDS, Setting::Inductive);
}

/// A part of its own for the isolated node; a part without training nodes; two parts that share no
/// edge; a part that owns nothing.
#[test]
fn parts_equal_one_part_in_odd_assignments() {
    let data = dataset(Shape::default());
    let n_nodes = data.n_nodes();
    let train = is_train(&data);
    let isolated = (0..n_nodes).map(|v| u32::from(v == n_nodes - 1)).collect();
    let untrained: Vec<u32> = train.iter().map(|&t| if t { 0 } else { 1 }).collect();
    let mut strangers = untrained.clone();
    strangers[n_nodes - 1] = 2;
    let empty = untrained.iter().map(|&part| 2 * part).collect();
    for kind in KINDS {
        let settings = settings(kind, N_EPOCHS);
        for setting in [Setting::Transductive, Setting::Inductive] {
            let expected = losses_of(&data, &one_part(&data), setting, &settings);
            let cases = [
                ("isolated", 2, &isolated),
                ("untrained", 2, &untrained),
                ("strangers", 3, &strangers),
                ("empty", 4, &empty),
            ];
            for (name, n_parts, parts) in cases {
                let assignment = Assignment::new(n_parts, Vec::clone(parts)).expect("parts");
                let found = losses_of(&data, &assignment, setting, &settings);
                assert_close(&found, &expected, &format!("{kind}, {name}, {setting:?}"));
            }
        }
    }
}

#[test]
fn linear_layers_follow_graph_layers() {
    let data = dataset(Shape::default());
    for kind in KINDS {
        let mut settings = settings(kind, N_EPOCHS);
        settings.model.n_linear = 1;
        settings.weight_decay = 1e-3;
        let expected = losses_of(&data, &one_part(&data), Setting::Transductive, &settings);
        let assignment = random_parts(&data, 3);
        let found = losses_of(&data, &assignment, Setting::Transductive, &settings);
        assert_close(&found, &expected, &format!("{kind} with a linear layer"));
    }
}

/// Sparse and dense features are the same numbers: the first product and the kept aggregate agree.
#[test]
fn sparse_features_equal_dense_features() {
    let data = dataset(Shape { is_sparse: true, ..Shape::default() });
    let mut dense = data.clone();
    if let Features::Sparse(matrix) = &data.features {
        dense.features = Features::Dense(matrix.to_dense());
    }
    for kind in KINDS {
        let settings = settings(kind, N_EPOCHS);
        let expected = losses_of(&dense, &one_part(&data), Setting::Transductive, &settings);
        let found = losses_of(&data, &one_part(&data), Setting::Transductive, &settings);
        assert_close(&found, &expected, &format!("{kind}"));
    }
}

/// Bit for bit: losses, scores and weights on 1, 2 and 4 threads, and once more; one-bit exchange
/// included. The graph is larger than a chunk of the threads' work.
#[test]
fn threads_do_not_change_a_bit() {
    for is_multi in [false, true] {
        let data = dataset(Shape { n_nodes: 1500, is_multi, ..Shape::default() });
        let assignment = Metis::default().partition(&data.graph, &is_train(&data), 2);
        let inputs = inputs(&data, &assignment.expect("parts"), Setting::Transductive);
        for kind in KINDS {
            let mut settings = settings(kind, 4);
            settings.exchange = Preset::SylvieS.policy();
            settings.metric = if is_multi { Metric::RocAuc } else { Metric::Accuracy };
            let expected = run(&inputs, &settings, 1).expect("a run");
            for n_threads in [1, 2, 4] {
                let found = run(&inputs, &settings, n_threads).expect("a run");
                assert_eq!(found, expected, "{kind} on {n_threads} threads");
            }
        }
    }
}

#[test]
fn one_bit_learns_and_seeds_differ() {
    let data = dataset(Shape::default());
    let assignment = Metis::default().partition(&data.graph, &is_train(&data), 3);
    let inputs = inputs(&data, &assignment.expect("parts"), Setting::Transductive);
    for kind in KINDS {
        let mut settings = settings(kind, 100);
        settings.exchange = Preset::SylvieS.policy();
        settings.model.dropout = 0.0;
        let (records, outcome) = run(&inputs, &settings, 1).expect("a run");
        // Chance is 0.25.
        let test = outcome.best.test.expect("a test score");
        assert!(test > 0.5, "{kind}: test accuracy {test}, losses {:?}", losses(&records));
        settings.seed += 1;
        let (others, _) = run(&inputs, &settings, 1).expect("a run");
        assert_ne!(losses(&records), losses(&others), "{kind}: another seed, another run");
    }
}
