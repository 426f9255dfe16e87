//! How evenly the ranks of a run were busy.

use super::run::{Epoch, Run, Times, mean};

/// Milliseconds an epoch of one rank, means over the epochs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RankMeans {
    pub(super) compute_ms: Option<f64>,
    pub(super) blocked_ms: Option<f64>,
    pub(super) reduce_ms: Option<f64>,
}

impl Run {
    /// The means of each rank; none where the run tells of no ranks.
    pub(super) fn rank_means(&self) -> Vec<RankMeans> {
        let n_ranks = self.epochs.iter().map(|epoch| epoch.ranks.len()).max().unwrap_or(0);
        let of_rank = |rank: usize| {
            let mean_of = |figure: fn(&Times) -> Option<f64>| {
                let of_epoch = |epoch: &Epoch| epoch.ranks.get(rank).and_then(figure);
                mean(self.epochs.iter().filter_map(of_epoch))
            };
            RankMeans {
                compute_ms: mean_of(|times| times.compute_ms),
                blocked_ms: mean_of(|times| times.blocked_ms),
                reduce_ms: mean_of(|times| times.reduce_ms),
            }
        };
        (0..n_ranks).map(of_rank).collect()
    }

    /// The longest computing of a rank over the mean of all: 1 is even.
    pub(super) fn balance(&self) -> Option<f64> {
        let ranks = self.rank_means();
        let computing = || ranks.iter().filter_map(|rank| rank.compute_ms);
        let (longest, mean) = (computing().reduce(f64::max)?, mean(computing())?);
        (mean > 0.0).then(|| longest / mean)
    }
}
