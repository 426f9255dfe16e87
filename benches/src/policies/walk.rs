//! What an epoch should take: its schedule, walked with computations measured without a link and the
//! times that a link's bandwidth and latency imply.

use std::collections::VecDeque;

use anyhow::{Result, ensure};
use sylvie::pipeline::{Parts, Step};
use sylvie::random::Pass;

use super::traffic::{Matrix, Pipe, Volumes, zeros};

/// The steps of an epoch, and how long each rank computed and coded.
#[derive(Clone, Debug)]
pub(crate) struct EpochTimes {
    pub(crate) steps: Vec<Step>,
    pub(crate) ranks: Vec<RankSteps>,
}

/// One rank's computations in an epoch, in seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankSteps {
    /// What is in no step: drawing a sample, counting.
    pub(crate) rest: f64,
    /// One entry a step; of those that wait nothing is used.
    pub(crate) steps: Vec<f64>,
    /// One entry an exchange.
    pub(crate) encode: Vec<f64>,
    /// One entry an exchange.
    pub(crate) decode: Vec<f64>,
}

/// Whether a step stands still until others have done something.
pub(crate) fn waits(step: Step) -> bool {
    matches!(step, Step::Wait(..) | Step::Use(..) | Step::Drain(..) | Step::Collect)
}

/// Seconds of an epoch whose exchanges are waited for, on its slowest rank.
///
/// Each rank has a thread that computes and one that communicates. An exchange begins at a rank when
/// both are free, and goes through once all its senders have encoded and the exchange before it is
/// through: the slowest rank of each layer counts. A reduction begins when the last rank asks for it, on the thread that
/// communicates: it is hidden as far as the backward pass goes on meanwhile.
pub(crate) fn synchronous_s(epoch: &EpochTimes, volumes: Volumes<'_>, pipe: Pipe) -> f64 {
    let mut computed: Vec<f64> = epoch.ranks.iter().map(|rank| rank.rest).collect();
    let mut communicated = vec![0.0_f64; epoch.ranks.len()];
    let (mut n_exchanges, mut under_way) = (0, VecDeque::new());
    // When the link is free again.
    let mut through = 0.0;
    for (number, &step) in epoch.steps.iter().enumerate() {
        if !waits(step) {
            add(&mut computed, epoch.ranks.iter().map(|rank| rank.steps[number]));
        }
        match step {
            Step::Start(layer, pass, parts) => {
                raise(&mut communicated, &computed);
                let codes = epoch.ranks.iter().map(|rank| rank.encode[n_exchanges]);
                add(&mut communicated, codes);
                let bytes = volumes.exchange(layer, pass, parts);
                communicated = arrivals(&communicated, &mut through, &bytes, pipe);
                let codes = epoch.ranks.iter().map(|rank| rank.decode[n_exchanges]);
                add(&mut communicated, codes);
                under_way.push_back(communicated.clone());
                n_exchanges += 1;
            }
            Step::Wait(..) => {
                let arrived = under_way.pop_front().expect("an exchange for each wait");
                raise(&mut computed, &arrived);
            }
            Step::Reduce(layer) => {
                raise(&mut communicated, &computed);
                let end = most(&communicated) + pipe.reduction_s(&volumes.reduction(layer));
                communicated.fill(end);
            }
            Step::Collect => raise(&mut computed, &communicated),
            _ => {}
        }
    }
    most(&computed)
}

/// When each rank has what it waits for, given when each has sent: the last that sends anything decides
/// for all that get anything, and a rank that gets nothing waits for nobody.
fn arrivals(sent: &[f64], through: &mut f64, bytes: &Matrix, pipe: Pipe) -> Vec<f64> {
    let ranks = 0..sent.len();
    let senders = ranks.clone().filter(|&from| bytes[from].iter().any(|&n_bytes| n_bytes > 0.0));
    let begin = senders.map(|from| sent[from]).fold(*through, f64::max);
    *through = begin + pipe.transfer_s(bytes);
    let arrival = *through + pipe.latency_s;
    let gets = |to: usize| bytes.iter().any(|row| row[to] > 0.0);
    ranks.map(|to| if gets(to) { arrival.max(sent[to]) } else { sent[to] }).collect()
}

fn add(times: &mut [f64], more: impl Iterator<Item = f64>) {
    times.iter_mut().zip(more).for_each(|(time, more)| *time += more);
}

fn raise(times: &mut [f64], to: &[f64]) {
    times.iter_mut().zip(to).for_each(|(time, &to)| *time = time.max(to));
}

fn most(times: &[f64]) -> f64 {
    times.iter().copied().fold(0.0, f64::max)
}

/// What an epoch consists of, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Pieces {
    /// The slowest rank's computations, or its coding where that is more.
    pub(crate) computation_s: f64,
    /// The busiest direction of a link, over all exchanges.
    pub(crate) transfer_s: f64,
    /// All reductions, one after the other.
    pub(crate) reduction_s: f64,
}

impl Pieces {
    pub(crate) fn of(epoch: &EpochTimes, volumes: Volumes<'_>, pipe: Pipe) -> Self {
        let computation = epoch.ranks.iter().map(|rank| {
            let steps = epoch.steps.iter().zip(&rank.steps);
            let computing: f64 = steps.filter(|(step, _)| !waits(**step)).map(|(_, s)| s).sum();
            let coding: f64 = rank.encode.iter().chain(&rank.decode).sum();
            (rank.rest + computing).max(coding)
        });
        let mut bytes = zeros(epoch.ranks.len());
        let mut reduction_s = 0.0;
        for &step in &epoch.steps {
            match step {
                Step::Start(layer, pass, parts) => {
                    let sent = volumes.exchange(layer, pass, parts);
                    bytes.iter_mut().zip(&sent).for_each(|(all, sent)| {
                        add(all, sent.iter().copied());
                    });
                }
                Step::Leave(layer) => {
                    let sent = volumes.exchange(layer, Pass::Backward, Parts::All);
                    bytes.iter_mut().zip(&sent).for_each(|(all, sent)| {
                        add(all, sent.iter().copied());
                    });
                }
                Step::Reduce(layer) => reduction_s += pipe.reduction_s(&volumes.reduction(layer)),
                _ => {}
            }
        }
        let computation_s = computation.fold(0.0, f64::max);
        Self { computation_s, transfer_s: pipe.transfer_s(&bytes), reduction_s }
    }

    /// An epoch that hides its exchanges: the larger of computation and transfer, and the reductions.
    /// The last of these have nothing left to hide behind, and share the link with the exchanges.
    pub(crate) fn hidden_s(&self) -> f64 {
        self.computation_s.max(self.transfer_s) + self.reduction_s
    }
}

/// The bytes of all exchanges and reductions of an epoch through the busiest direction of a link, each
/// on its own, and how many latencies they take: what a bandwidth is chosen by.
pub(crate) fn bytes_and_latencies(
    steps: &[Step],
    volumes: Volumes<'_>,
    ranks_per_host: usize,
) -> (f64, usize) {
    let unit = Pipe { bytes_per_s: 1.0, latency_s: 0.0, ranks_per_host };
    let of = |step: &Step| match *step {
        Step::Start(layer, pass, parts) => {
            (unit.transfer_s(&volumes.exchange(layer, pass, parts)), 1)
        }
        Step::Leave(layer) => {
            (unit.transfer_s(&volumes.exchange(layer, Pass::Backward, Parts::All)), 1)
        }
        Step::Reduce(layer) => (unit.reduction_s(&volumes.reduction(layer)), 2),
        _ => (0.0, 0),
    };
    steps
        .iter()
        .map(of)
        .fold((0.0, 0), |(bytes, n), (more, latencies)| (bytes + more, n + latencies))
}

/// The bandwidth, in bytes a second, at which `computation_s` is `share` of the epoch.
///
/// # Errors
/// Latencies that alone take longer than the epoch would.
pub(crate) fn rate_for_share(
    computation_s: f64,
    share: f64,
    (bytes, n_latencies): (f64, usize),
    latency_s: f64,
) -> Result<f64> {
    let left_s = computation_s * (1.0 / share - 1.0) - n_latencies as f64 * latency_s;
    ensure!(
        left_s > 0.0,
        "no epoch is that short: {n_latencies} latencies of {latency_s} s are in it"
    );
    Ok(bytes / left_s)
}

#[cfg(test)]
mod tests {
    use sylvie::gnn::{ModelConfig, ModelKind, NormKind};
    use sylvie::pipeline::{ExchangePolicy, Preset, Step, plan_epoch};

    use super::{EpochTimes, Pieces, Pipe, RankSteps, Volumes, bytes_and_latencies};
    use super::{rate_for_share, synchronous_s, waits};

    /// Two layers: one exchange a pass. 64 columns are 256 bytes a row.
    fn model() -> ModelConfig {
        let widths = vec![10, 64, 3];
        let (kind, norm) = (ModelKind::Gcn, NormKind::None);
        ModelConfig { kind, widths, n_linear: 0, n_heads: 1, dropout: 0.0, norm }
    }

    const ROWS: [[usize; 2]; 2] = [[0, 5], [7, 0]];

    /// Every step that computes takes 1 s on rank 0 and 2 s on rank 1; codes take 0.25 s.
    fn epoch(policy: &ExchangePolicy) -> EpochTimes {
        let steps = plan_epoch(&model(), policy, 2, 1);
        let n_exchanges =
            steps.iter().filter(|step| matches!(step, Step::Start(..) | Step::Leave(_))).count();
        let of_rank = |seconds: f64| RankSteps {
            rest: 0.0,
            steps: steps
                .iter()
                .map(|step| match step {
                    Step::Compute(..) => seconds,
                    step if waits(*step) => 1000.0,
                    _ => 0.0,
                })
                .collect(),
            encode: vec![0.25; n_exchanges],
            decode: vec![0.25; n_exchanges],
        };
        EpochTimes { ranks: vec![of_rank(1.0), of_rank(2.0)], steps }
    }

    fn with_volumes<T>(policy: &ExchangePolicy, body: impl FnOnce(Volumes<'_>) -> T) -> T {
        let rows = ROWS.map(Vec::from);
        body(Volumes { rows: &rows, model: &model(), policy })
    }

    fn pipe() -> Pipe {
        Pipe { bytes_per_s: 1792.0, latency_s: 0.5, ranks_per_host: 1 }
    }

    fn predicted(policy: &ExchangePolicy) -> f64 {
        with_volumes(policy, |volumes| synchronous_s(&epoch(policy), volumes, pipe()))
    }

    #[test]
    fn a_synchronous_epoch_adds_up() {
        // Forward: layer 0 begin and finish, exchange, layer 1 begin, halo, finish. Backward: layer 1
        // begin, halo, finish, exchange, layer 0 begin, finish: 10 computations of 2 s on rank 1. Each
        // exchange sends 7 rows, 1792 bytes, one way: 1 s, 0.5 s of latency, 0.5 s of codes.
        let exchanges = 2.0 * 2.0;
        // Layer 0: 10 * 64 + 64 weights, two rounds of 352 values. Layer 1's reduction is hidden behind
        // layer 0's backward pass.
        let last = 2.0 * (352.0 * 4.0 / 1792.0 + 0.5);
        let found = predicted(&Preset::Vanilla.policy());
        assert!((found - (20.0 + exchanges + last)).abs() < 1e-9, "{found}");
    }

    #[test]
    fn what_overlaps_is_hidden() {
        // Forward, 2 s of exchange travel beside `begin`, 2 s; backward beside `finish`, 2 s.
        let overlap = ExchangePolicy { overlap: true, ..Preset::Vanilla.policy() };
        let hidden = predicted(&Preset::Vanilla.policy()) - predicted(&overlap);
        assert!((hidden - 4.0).abs() < 1e-12, "{hidden}");
    }

    #[test]
    fn one_part_at_a_time_goes_round_by_round() {
        // Rank 0 sends 5 rows at 3.25, before rank 1 is ready for them, and rank 1 sends 7 at 8.75: rank
        // 0 has them at 10.25 and leaves the forward pass at 12.5, rank 1 at 13. Backward, rank 1 sends
        // 5 rows at 17.25, which takes 5/7 + 0.5, rank 0 sends 7 at 19.25 + 5/7, which takes 1.5, and
        // rank 1 comes to its last three computations at 21 + 5/7. Then layer 0's reduction is left.
        let total = predicted(&Preset::Sar.policy());
        assert!((total - (27.0 + 5.0 / 7.0 + 18.0 / 7.0)).abs() < 1e-9, "{total}");
    }

    #[test]
    fn no_round_begins_before_the_link_is_free() {
        // Where nothing takes time to compute, rank 1 sends gradients to rank 0 as soon as it has sent
        // it the rows of the round before: they go through after those.
        let policy = Preset::Sar.policy();
        let mut idle = epoch(&policy);
        for rank in &mut idle.ranks {
            for times in [&mut rank.steps, &mut rank.encode, &mut rank.decode] {
                times.fill(0.0);
            }
        }
        let total = with_volumes(&policy, |volumes| synchronous_s(&idle, volumes, pipe()));
        // Four rounds, three of which are waited for, and both layers' reductions.
        let rounds = (5.0 + 7.0 + 5.0 + 7.0) / 7.0 + 3.0 * 0.5;
        assert!((total - (rounds + 1.4375 + 18.0 / 7.0)).abs() < 1e-9, "{total}");
    }

    #[test]
    fn without_a_link_only_computations_are_left() {
        let policy = Preset::SylvieS.policy();
        let total = with_volumes(&policy, |volumes| {
            synchronous_s(&epoch(&policy), volumes, Pipe::of(None))
        });
        assert_eq!(total, 20.0 + 1.0);
    }

    #[test]
    fn a_hidden_epoch_is_the_larger_of_computation_and_transfer() {
        let policy = Preset::PipeGcn.policy();
        let hidden = with_volumes(&policy, |volumes| Pieces::of(&epoch(&policy), volumes, pipe()));
        assert_eq!(hidden.computation_s, 20.0);
        // Forward 5 and 7 rows, backward 7 and 5: 12 each way.
        assert_eq!(hidden.transfer_s, 12.0 / 7.0);
        let of_layer = |n_values: f64| 2.0 * (n_values * 4.0 / 1792.0 + 0.5);
        assert!((hidden.reduction_s - of_layer(352.0) - of_layer(98.0)).abs() < 1e-2);
        assert_eq!(hidden.hidden_s(), 20.0 + hidden.reduction_s);
    }

    #[test]
    fn the_rate_leaves_the_share_to_computation() {
        let policy = Preset::Vanilla.policy();
        let steps = plan_epoch(&model(), &policy, 2, 1);
        let sizes = with_volumes(&policy, |volumes| bytes_and_latencies(&steps, volumes, 1));
        assert_eq!(sizes.1, 2 + 4);
        // 1 s of 100 s, of which 6 pass in latencies.
        let rate = rate_for_share(1.0, 0.01, sizes, 1.0).unwrap();
        assert!((sizes.0 / rate - 93.0).abs() < 1e-9);
    }
}
