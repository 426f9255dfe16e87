//! What ends a run, and what it says.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sylvie_comm::{Communicator, RankError, ThreadOptions, Threads, run_ranks};
use sylvie_gnn::{ModelKind, NormKind, Weights};
use sylvie_graph::{Assignment, DenseMatrix, Features, PartGraph, Role};
use sylvie_partition::build_parts;
use sylvie_pipeline::{EpochRecord, Instruments, Preset, TrainError, evaluate, predict, train};
use sylvie_tensor::CpuBackend;

use crate::fixture::{
    N_FEATURES, NoClock, Setting, Shape, dataset, inputs, random_parts, run, settings,
};

fn failed(error: RankError<TrainError>) -> TrainError {
    match error {
        RankError::Failed { source, .. } => source,
        other => panic!("not a failed rank: {other}"),
    }
}

/// All weights NaN: the first exchanged row cannot be encoded, and the error says which.
#[test]
fn rows_that_are_not_numbers_are_named() {
    let data = dataset(Shape::default());
    let assignment = random_parts(&data, 3);
    let inputs = inputs(&data, &assignment, Setting::Transductive);
    for preset in [Preset::Vanilla, Preset::SylvieS] {
        let mut settings = settings(ModelKind::Sage, 3);
        settings.exchange = preset.policy();
        let specs = Weights::<CpuBackend>::specs(&settings.model);
        let nan = specs.iter().map(|(_, spec)| vec![f32::NAN; spec.n_rows * spec.n_cols]);
        settings.initial_weights = Some(nan.collect());
        match failed(run(&inputs, &settings, 1).unwrap_err()) {
            TrainError::Encode { epoch: 0, layer: 1, node, rank, source, .. } => {
                assert!(assignment.parts()[node as usize] as usize == rank, "{source}");
            }
            other => panic!("{preset}: {other}"),
        }
    }
}

/// One row overflows in the first layer: it is named, though its place in the message is not that in the boundary.
#[test]
fn the_one_row_that_is_not_finite_is_named() {
    let mut data = dataset(Shape::default());
    let assignment = random_parts(&data, 3);
    let parts = build_parts(&data.graph, &assignment, None);
    let is_elsewhere = |part: &&PartGraph, place: usize| {
        part.plan.boundary[place] != part.plan.sends[0].rows[place]
    };
    let found = parts.iter().find_map(|part| {
        let place = (0..part.plan.sends[0].rows.len()).find(|&place| is_elsewhere(&part, place))?;
        Some(part.own_ids[part.plan.sends[0].rows[place] as usize])
    });
    let bad = found.expect("a row that the first reader has at another place");
    let values = (0..data.n_nodes())
        .flat_map(|node| [if node == bad as usize { 1e30 } else { 0.01 }; N_FEATURES]);
    let features = DenseMatrix::new(data.n_nodes(), N_FEATURES, values.collect());
    data.features = Features::Dense(features.expect("a matrix"));
    let inputs = inputs(&data, &assignment, Setting::Transductive);
    for preset in [Preset::Vanilla, Preset::SylvieS] {
        let mut settings = settings(ModelKind::Sage, 1);
        settings.exchange = preset.policy();
        (settings.model.norm, settings.model.dropout) = (NormKind::None, 0.0);
        let specs = Weights::<CpuBackend>::specs(&settings.model);
        let weights = specs.iter().map(|(name, spec)| {
            let value = if name == "layers.0.w_self" { 1e10 } else { 0.0 };
            vec![value; spec.n_rows * spec.n_cols]
        });
        settings.initial_weights = Some(weights.collect());
        match failed(run(&inputs, &settings, 1).unwrap_err()) {
            TrainError::Encode { layer: 1, node, .. } => assert_eq!(node, bad, "{preset}"),
            other => panic!("{preset}: {other}"),
        }
    }
}

#[test]
fn a_loss_that_is_not_a_number_ends_the_run() {
    let data = dataset(Shape::default());
    let assignment = Assignment::new(1, vec![0; data.n_nodes()]).expect("one part");
    let mut settings = settings(ModelKind::Gcn, 3);
    settings.learning_rate = f32::MAX;
    settings.model.norm = sylvie_gnn::NormKind::None;
    let inputs = inputs(&data, &assignment, Setting::Transductive);
    let error = failed(run(&inputs, &settings, 1).unwrap_err());
    assert!(matches!(error, TrainError::NotFinite { epoch: 1.., .. }), "{error}");
}

/// The last update leaves weights that no later loss would show: the last evaluation does.
#[test]
fn a_model_that_is_not_a_number_is_not_returned() {
    let data = dataset(Shape::default());
    let assignment = Assignment::new(1, vec![0; data.n_nodes()]).expect("one part");
    let inputs = inputs(&data, &assignment, Setting::Transductive);
    for kind in [ModelKind::Gcn, ModelKind::Sage, ModelKind::Gat] {
        let mut settings = settings(kind, 1);
        settings.learning_rate = f32::MAX;
        let error = failed(run(&inputs, &settings, 1).unwrap_err());
        assert!(matches!(error, TrainError::OutputNotFinite { epoch: 0, rank: 0, .. }), "{error}");
    }
}

#[test]
fn gcn_is_refused_on_directed_graphs() {
    let direction = sylvie_graph::Direction::Directed;
    let data = dataset(Shape { direction, ..Shape::default() });
    let assignment = random_parts(&data, 2);
    let inputs = inputs(&data, &assignment, Setting::Transductive);
    let error = failed(run(&inputs, &settings(ModelKind::Gcn, 1), 1).unwrap_err());
    assert!(matches!(error, TrainError::DirectedGcn), "{error}");
}

#[test]
fn nobody_to_train_on() {
    let mut data = dataset(Shape::default());
    data.split = sylvie_graph::Split::new(vec![Role::Val; data.n_nodes()]);
    let assignment = random_parts(&data, 2);
    let inputs = inputs(&data, &assignment, Setting::Transductive);
    let error = failed(run(&inputs, &settings(ModelKind::Sage, 1), 1).unwrap_err());
    assert!(matches!(error, TrainError::NoTrainingNodes), "{error}");
}

/// An observer on one rank refuses: all ranks end, and the cause is the observer's.
#[test]
fn an_observer_can_end_the_run() {
    let data = dataset(Shape::default());
    let assignment = random_parts(&data, 3);
    let inputs = inputs(&data, &assignment, Setting::Transductive);
    let settings = settings(ModelKind::Gat, 50);
    let error = run_ranks(3, &ThreadOptions::default(), |comm: &mut Threads<Vec<u8>>| {
        let rank = comm.rank();
        let mut observe = |record: &EpochRecord| match (rank, record.epoch) {
            (1, 4) => Err("the disk is full".into()),
            _ => Ok(()),
        };
        train(
            &CpuBackend::new(1),
            comm,
            &inputs[rank],
            &settings,
            Instruments::clock(&NoClock),
            &mut observe,
        )
    });
    let RankError::Failed { rank: 1, source } = error.unwrap_err() else {
        panic!("rank 1 failed");
    };
    assert_eq!(source.to_string(), "epoch 4 could not be recorded");
    let cause = source.source().expect("a cause");
    assert_eq!(cause.to_string(), "the disk is full");
}

/// A rank that stands still ends the run of all: the error names rank, epoch, layer and pass. All threads
/// of all ranks have ended when this returns, or it would not.
#[test]
fn a_rank_that_stands_still_ends_the_run() {
    let data = dataset(Shape::default());
    let inputs = inputs(&data, &random_parts(&data, 3), Setting::Transductive);
    for preset in [Preset::SylvieS, Preset::SylvieA, Preset::Sar] {
        let mut settings = settings(ModelKind::Sage, 50);
        settings.exchange = preset.policy();
        let options =
            ThreadOptions { deadline: Duration::from_secs(2), ..ThreadOptions::default() };
        let has_failed = AtomicBool::new(false);
        let error = run_ranks(3, &options, |comm: &mut Threads<Vec<u8>>| {
            let rank = comm.rank();
            let mut observe = |record: &EpochRecord| {
                // Until another rank has given up.
                while (rank, record.epoch) == (1, 2) && !has_failed.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Ok(())
            };
            let instruments = Instruments::clock(&NoClock);
            let backend = CpuBackend::new(1);
            let result = train(&backend, comm, &inputs[rank], &settings, instruments, &mut observe);
            has_failed.fetch_or(result.is_err(), Ordering::Relaxed);
            result
        });
        let RankError::Failed { rank, source } = error.unwrap_err() else {
            panic!("{preset}: a rank failed");
        };
        assert!(rank != 1, "{preset}: those that wait see it first");
        let text = format!("{source}: {}", source.source().expect("a cause"));
        assert!(text.contains("epoch 3") && text.contains("rank 1"), "{preset}: {text}");
        assert!(text.contains("layer 1 forward") || text.contains("layer 2, backward"), "{text}");
    }
}

/// Patience counts evaluations, and the best model is the one that is returned.
#[test]
fn patience_ends_training_and_the_best_model_is_kept() {
    let data = dataset(Shape::default());
    let assignment = random_parts(&data, 2);
    let inputs = inputs(&data, &assignment, Setting::Transductive);
    let mut settings = settings(ModelKind::Sage, 400);
    settings.eval_every = 2;
    settings.patience = Some(3);
    let (records, outcome) = run(&inputs, &settings, 1).expect("a run");
    assert!(outcome.n_epochs < 400, "no improvement lasts 400 epochs on 90 nodes");
    assert_eq!(outcome.n_epochs, outcome.best_epoch + 1 + 2 * 3);
    assert_eq!(records.len(), outcome.n_epochs as usize);
    let scored = records.iter().filter_map(|r| r.scores.map(|s| (r.epoch, s)));
    let best = scored.clone().fold((0, f64::NEG_INFINITY), |best, (epoch, s)| {
        let val = s.val.expect("a validation score");
        if val > best.1 { (epoch, val) } else { best }
    });
    assert_eq!((outcome.best_epoch, outcome.best.val), (best.0, Some(best.1)));

    let scores = run_ranks(2, &ThreadOptions::default(), |comm: &mut Threads<Vec<u8>>| {
        let (backend, data) = (CpuBackend::new(1), &inputs[comm.rank()].training);
        let model = (&settings.model, &outcome.weights[..]);
        let logits = predict(&backend, comm, model, data, Instruments::clock(&NoClock))?.logits;
        assert_eq!(logits.len(), data.graph.n_local() * 4);
        evaluate(&backend, comm, model, data, settings.metric, Instruments::clock(&NoClock))
    });
    assert_eq!(scores.expect("scores")[0], outcome.best);
}
