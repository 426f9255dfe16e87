//! Gradients go back for the rows that were read, whichever epoch sent them.

use std::collections::BTreeMap;

use sylvie_comm::{Communicator, Pass, Purpose, ThreadOptions, Threads, run_ranks};
use sylvie_gnn::ModelKind;
use sylvie_pipeline::{
    Directions, EpochRecord, ExchangePolicy, Instruments, Preset, TrainError, train,
};
use sylvie_tensor::CpuBackend;

use crate::fixture::{NoClock, Setting, Shape, dataset, inputs, random_parts, settings};
use crate::recording::Recording;

/// Bytes by epoch, layer, pass, owner and reader.
type Lengths = BTreeMap<(u32, u16, Pass, usize, usize), usize>;

fn lengths(exchange: ExchangePolicy) -> Lengths {
    let data = dataset(Shape::default());
    let inputs = inputs(&data, &random_parts(&data, 3), Setting::Transductive);
    let settings = sylvie_pipeline::TrainSettings { exchange, ..settings(ModelKind::Sage, 9) };
    let ranks = run_ranks(3, &ThreadOptions::default(), |comm: &mut Threads<Vec<u8>>| {
        let input = &inputs[comm.rank()];
        let mut comm = Recording::new(comm);
        let mut observe = |_: &EpochRecord| Ok(());
        let instruments = Instruments::clock(&NoClock);
        train(&CpuBackend::new(1), &mut comm, input, &settings, instruments, &mut observe)?;
        Ok::<_, TrainError>(comm.sent)
    });
    let mut lengths = Lengths::new();
    for (sender, sent) in ranks.expect("a run").into_iter().enumerate() {
        for (tag, peer, bytes) in sent {
            let (owner, reader) = match tag.pass {
                Pass::Forward => (sender, peer),
                Pass::Backward => (peer, sender),
            };
            if tag.purpose == Purpose::Training {
                lengths.insert((tag.epoch, tag.layer, tag.pass, owner, reader), bytes.len());
            }
        }
    }
    lengths
}

/// Rows are f32 and as wide both ways: as many bytes go back as came in the epoch whose rows were read,
/// which is the one before wherever the forward pass is stale.
#[test]
fn gradients_go_back_by_the_sample_that_was_read() {
    for scope in [Directions::Features, Directions::Gradients, Directions::Both] {
        let policy = ExchangePolicy {
            boundary_sampling: Some(0.4),
            staleness: 3,
            staleness_scope: scope,
            ..Preset::PipeGcn.policy()
        };
        let lengths = lengths(policy.clone());
        let (mut n_checked, mut n_differ) = (0, 0);
        for (&(epoch, layer, pass, owner, reader), &bytes) in &lengths {
            if pass == Pass::Forward {
                continue;
            }
            let is_fresh = policy.is_synchronous(epoch, Pass::Forward);
            let read = if is_fresh { epoch } else { epoch.saturating_sub(1) };
            let came = |epoch: u32| lengths.get(&(epoch, layer, Pass::Forward, owner, reader));
            assert_eq!(came(read), Some(&bytes), "{scope}, epoch {epoch}, {reader} to {owner}");
            n_checked += 1;
            n_differ += usize::from(epoch > 0 && came(epoch) != came(epoch - 1));
        }
        assert!(n_checked > 90 && n_differ > 30, "{scope}: {n_checked}, {n_differ}");
    }
}
