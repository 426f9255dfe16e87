//! Where the time of an epoch goes.

use crate::policies::report::Row;

/// Shares of an epoch, of the thread that computes: they add up to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Breakdown {
    /// Standing still for rows of other ranks, codec apart.
    pub(super) communication: f64,
    pub(super) computing: f64,
    /// Standing still for sums of weight gradients.
    pub(super) sums: f64,
    pub(super) encode: f64,
    pub(super) decode: f64,
}

impl Breakdown {
    /// Of an epoch whose exchanges are waited for: rows are encoded and decoded while it stands still.
    pub(super) fn of(row: &Row) -> Self {
        let times = row.times;
        let epoch_ms = times.compute_ms + times.blocked_ms + times.reduce_ms;
        let share = |ms: f64| ms / epoch_ms;
        let coding_ms = times.encode_ms + times.decode_ms;
        Self {
            communication: share((times.blocked_ms - coding_ms).max(0.0)),
            computing: share(times.compute_ms),
            sums: share(times.reduce_ms),
            encode: share(times.encode_ms),
            decode: share(times.decode_ms),
        }
    }

    pub(super) const NAMES: [&str; 5] =
        ["communication", "computing", "all-reduce", "quantise", "dequantise"];

    /// The shares, as [`Breakdown::NAMES`] names them.
    pub(super) fn shares(self) -> [f64; 5] {
        [self.communication, self.computing, self.sums, self.encode, self.decode]
    }

    /// Quantising and dequantising.
    pub(super) fn codec(self) -> f64 {
        self.encode + self.decode
    }
}
