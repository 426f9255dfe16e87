//! Runs that go on from a checkpoint, and runs that are stopped.

use std::sync::atomic::{AtomicBool, Ordering};

use sylvie_comm::{Communicator, RankError, ThreadOptions, Threads, run_ranks};
use sylvie_gnn::ModelKind;
use sylvie_pipeline::{
    CheckpointSink, Checkpoints, End, EpochRecord, ExchangePolicy, HaloRows, Instruments, KeptRows,
    ObserverError, Preset, RankInput, RankState, TrainError, TrainOutcome, TrainSettings,
    train_with_checkpoints,
};
use sylvie_tensor::CpuBackend;

use crate::fixture::{
    NoClock, Setting, Shape, dataset, inputs, losses, random_parts, run, settings,
};
use crate::policies::{KINDS, various};

const N_RANKS: u32 = 3;

/// Keeps every state, and knows which is the newest that all ranks have.
#[derive(Default)]
struct Kept {
    states: Vec<RankState>,
    newest: Option<u32>,
    /// Refuses the state after so many epochs.
    full_at: Option<u32>,
}

impl CheckpointSink for Kept {
    fn store(&mut self, state: &RankState) -> Result<(), ObserverError> {
        if self.full_at == Some(state.shared.n_epochs) {
            return Err("no space left".into());
        }
        self.states.push(state.clone());
        Ok(())
    }

    fn commit(&mut self, n_epochs: u32) -> Result<(), ObserverError> {
        assert_eq!(self.states.last().map(|state| state.shared.n_epochs), Some(n_epochs));
        self.newest = Some(n_epochs);
        Ok(())
    }
}

/// What one rank of a run leaves.
struct Rank {
    records: Vec<EpochRecord>,
    outcome: TrainOutcome,
    kept: Kept,
}

/// How a run is kept, resumed and stopped.
#[derive(Clone, Copy, Default)]
struct Plan<'a> {
    every: Option<u32>,
    /// States of all ranks.
    resume: Option<&'a [RankState]>,
    /// A rank, and the epoch in which it alone is asked to stop.
    stop: Option<(usize, u32)>,
    /// A rank, and the number of epochs after which it cannot keep its state.
    full: Option<(usize, u32)>,
}

fn run_kept(
    inputs: &[RankInput],
    settings: &TrainSettings,
    plan: Plan<'_>,
) -> Result<Vec<Rank>, RankError<TrainError>> {
    run_ranks(inputs.len(), &ThreadOptions::default(), |comm: &mut Threads<Vec<u8>>| {
        let rank = comm.rank();
        let mut records = Vec::new();
        let is_stopped = AtomicBool::new(false);
        let mut observe = |record: &EpochRecord| {
            // It is asked while the epoch after this one is trained, at the earliest.
            if plan.stop.is_some_and(|stop| stop == (rank, record.epoch + 1)) {
                is_stopped.store(true, Ordering::Relaxed);
            }
            records.push(record.clone());
            Ok(())
        };
        let full_at = plan.full.filter(|full| full.0 == rank).map(|full| full.1);
        let mut kept = Kept { full_at, ..Kept::default() };
        let checkpoints = Checkpoints {
            resume: plan.resume.map(|states| states[rank].clone()),
            sink: Some(&mut kept),
            every: plan.every,
            stop: Some(&is_stopped),
        };
        let outcome = train_with_checkpoints(
            &CpuBackend::new(1),
            comm,
            &inputs[rank],
            settings,
            Instruments::clock(&NoClock),
            &mut observe,
            checkpoints,
        )?;
        Ok(Rank { records, outcome, kept })
    })
}

fn parts(setting: Setting) -> Vec<RankInput> {
    let data = dataset(Shape::default());
    inputs(&data, &random_parts(&data, N_RANKS), setting)
}

/// The states of all ranks after `n_epochs`.
fn states(ranks: &[Rank], n_epochs: u32) -> Vec<RankState> {
    let of = |rank: &Rank| {
        let mut states = rank.kept.states.iter();
        states.find(|state| state.shared.n_epochs == n_epochs).cloned().expect("a state")
    };
    ranks.iter().map(of).collect()
}

#[test]
fn a_resumed_run_is_the_run_that_never_stopped() {
    for (number, policy) in various().into_iter().enumerate() {
        for (offset, setting) in [Setting::Transductive, Setting::Inductive].into_iter().enumerate()
        {
            let inputs = parts(setting);
            let kind = KINDS[(number + offset) % 3];
            let settings =
                TrainSettings { exchange: policy.clone(), eval_every: 2, ..settings(kind, 8) };
            let (records, outcome) = run(&inputs, &settings, 1).expect("a run");
            let plan = Plan { every: Some(1), ..Plan::default() };
            let whole = run_kept(&inputs, &settings, plan).expect("a run");
            assert_eq!(whole[0].records, records, "checkpoints change nothing: {policy:?}");
            assert_eq!(whole[0].outcome, outcome, "checkpoints change nothing: {policy:?}");
            for n_epochs in [1, 3, 4, 5] {
                let states = states(&whole, n_epochs);
                let plan = Plan { every: Some(2), resume: Some(&states), ..Plan::default() };
                let resumed = run_kept(&inputs, &settings, plan).expect("a run");
                for (rank, resumed) in resumed.iter().enumerate() {
                    let rest = &records[n_epochs as usize..];
                    assert_eq!(resumed.records, rest, "after {n_epochs}, rank {rank}: {policy:?}");
                    assert_eq!(resumed.outcome, outcome, "after {n_epochs}: {policy:?}");
                    assert_eq!(resumed.kept.states.last(), whole[rank].kept.states.last());
                    assert_eq!(resumed.kept.newest, Some(8));
                }
            }
        }
    }
}

#[test]
fn what_is_under_way_is_part_of_the_state() {
    let inputs = parts(Setting::Transductive);
    let policy = Preset::SylvieA.policy();
    let settings = TrainSettings { exchange: policy, ..settings(ModelKind::Sage, 6) };
    let plan = Plan { every: Some(3), ..Plan::default() };
    let whole = run_kept(&inputs, &settings, plan).expect("a run");
    let good = states(&whole, 3);
    let rows = good.iter().flat_map(|state| &state.halo.kept).flatten().count();
    assert_eq!(rows, 4 * N_RANKS as usize, "two layers exchange rows both ways");

    let mut forgetful = good;
    forgetful.iter_mut().for_each(|state| state.halo.kept.iter_mut().for_each(|kept| *kept = None));
    let plan = Plan { resume: Some(&forgetful), ..Plan::default() };
    let resumed = run_kept(&inputs, &settings, plan).expect("a run");
    assert_ne!(losses(&resumed[0].records), losses(&whole[0].records[3..]), "they matter");
}

#[test]
fn packed_rows_are_kept_as_the_rows_that_they_stand_for() {
    let inputs = parts(Setting::Transductive);
    let halo = HaloRows::F32;
    let policy = ExchangePolicy { staleness: 3, halo, ..Preset::SylvieA.policy() };
    let mut settings = TrainSettings { exchange: policy, ..settings(ModelKind::Sage, 8) };
    let plan = Plan { every: Some(1), ..Plan::default() };
    let decoded = run_kept(&inputs, &settings, plan).expect("a run");
    settings.exchange.halo = HaloRows::Packed;
    let packed = run_kept(&inputs, &settings, plan).expect("a run");
    for n_epochs in [2, 3, 5] {
        let states = states(&packed, n_epochs);
        assert_eq!(states, self::states(&decoded, n_epochs));
        let plan = Plan { resume: Some(&states), ..Plan::default() };
        let resumed = run_kept(&inputs, &settings, plan).expect("a run");
        assert_eq!(resumed[1].records, decoded[1].records[n_epochs as usize..]);
        assert_eq!(resumed[1].outcome, decoded[1].outcome);
    }
}

#[test]
fn all_ranks_stop_where_one_is_asked_to() {
    let inputs = parts(Setting::Transductive);
    let policy = Preset::SylvieA.policy();
    let settings = TrainSettings { exchange: policy, ..settings(ModelKind::Gcn, 9) };
    let (records, outcome) = run(&inputs, &settings, 1).expect("a run");
    let stop = Plan { stop: Some((1, 4)), ..Plan::default() };
    let stopped = run_kept(&inputs, &settings, stop).expect("a run");
    for rank in &stopped {
        assert_eq!((rank.outcome.end, rank.outcome.n_epochs), (End::Stopped, 5));
        assert_eq!(losses(&rank.records), losses(&records[..5]));
        assert!(rank.records[4].is_stopping && !rank.records[3].is_stopping);
        assert_eq!(rank.kept.newest, Some(5), "the last state is kept whatever `every` is");
    }
    let states = states(&stopped, 5);
    let plan = Plan { resume: Some(&states), ..Plan::default() };
    let resumed = run_kept(&inputs, &settings, plan).expect("a run");
    assert_eq!(resumed[2].records, records[5..]);
    assert_eq!(resumed[2].outcome, outcome);
    assert_eq!(outcome.end, End::Complete);
}

#[test]
fn patience_goes_on_counting() {
    let inputs = parts(Setting::Transductive);
    let patient = TrainSettings {
        patience: Some(2),
        eval_every: 1,
        learning_rate: 0.0,
        ..settings(ModelKind::Sage, 20)
    };
    let plan = Plan { every: Some(1), ..Plan::default() };
    let whole = run_kept(&inputs, &patient, plan).expect("a run");
    assert_eq!((whole[0].outcome.end, whole[0].outcome.n_epochs), (End::Patience, 3));
    let states = states(&whole, 2);
    let plan = Plan { resume: Some(&states), ..Plan::default() };
    let resumed = run_kept(&inputs, &patient, plan).expect("a run");
    assert_eq!(resumed[0].outcome, whole[0].outcome);
}

#[test]
fn a_state_that_cannot_be_kept_ends_the_run_and_the_one_before_stays() {
    let inputs = parts(Setting::Transductive);
    let settings = settings(ModelKind::Sage, 8);
    let plan = Plan { every: Some(2), full: Some((2, 4)), ..Plan::default() };
    let Err(RankError::Failed { rank: 2, source, .. }) = run_kept(&inputs, &settings, plan) else {
        panic!("rank 2 cannot keep its state");
    };
    let is_named = matches!(source, TrainError::Checkpoint { epoch: 3, rank: 2, .. });
    assert!(is_named, "{source}");
}

#[test]
fn states_of_other_runs_are_refused() {
    let inputs = parts(Setting::Transductive);
    let policy = Preset::SylvieA.policy();
    let settings = TrainSettings { exchange: policy, ..settings(ModelKind::Sage, 6) };
    let plan = Plan { every: Some(3), ..Plan::default() };
    let good = states(&run_kept(&inputs, &settings, plan).expect("a run"), 3);
    let refused = |change: &dyn Fn(&mut RankState)| {
        let mut states = good.clone();
        change(&mut states[1]);
        let plan = Plan { resume: Some(&states), ..Plan::default() };
        match run_kept(&inputs, &settings, plan) {
            Err(RankError::Failed {
                rank: 1, source: TrainError::OtherState { what, .. }, ..
            }) => what,
            other => panic!("not refused: {:?}", other.map(|ranks| ranks.len())),
        }
    };
    let rows = |state: &mut RankState, change: &dyn Fn(&mut KeptRows)| {
        state.halo.kept.iter_mut().flatten().for_each(change);
    };
    assert_eq!(refused(&|state| drop(state.shared.weights.pop())), "weights");
    assert_eq!(refused(&|state| state.shared.weights[0].push(0.0)), "weights");
    assert_eq!(
        refused(&|state| drop(state.shared.moments.second.pop())),
        "the optimiser's moments"
    );
    let halo = "rows kept for the next epoch";
    assert_eq!(refused(&|state| drop(state.halo.kept.pop())), halo);
    assert_eq!(refused(&|state| state.halo.kept.swap(3, 4)), halo);
    assert_eq!(
        refused(&|state| rows(state, &|rows| if let KeptRows::Boundary(rows) = rows {
            rows.n_rows += 1;
        })),
        halo
    );
    assert_eq!(
        refused(&|state| rows(state, &|rows| if let KeptRows::Halo { blocks, .. } = rows {
            blocks[0].0 = 9;
        })),
        halo
    );
}
