//! When a figure agrees with the paper: pure functions, so that each can say no.

use sylvie::lowbit::{RowCodec, Width};

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Agrees,
    Disagrees,
    /// Its runs are missing.
    NotMeasured,
}

impl Outcome {
    pub(crate) fn of(holds: Option<bool>) -> Self {
        match holds {
            Some(true) => Self::Agrees,
            Some(false) => Self::Disagrees,
            None => Self::NotMeasured,
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Disagrees => "does not agree",
            Self::NotMeasured => "not measured",
        }
    }
}

/// Bytes of a row in full precision over those of a codec, metadata included: `4d / (d/8 + 4)` at one bit.
pub(crate) fn row_ratio(codec: RowCodec, n_cols: usize) -> f64 {
    let full = RowCodec::new(Width::F32);
    full.message_bytes(1, n_cols) as f64 / codec.message_bytes(1, n_cols) as f64
}

/// Times of an epoch in full precision, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fp32 {
    /// The whole epoch, as measured.
    pub(crate) epoch_s: f64,
    /// Computation alone.
    pub(crate) computation_s: f64,
    /// Rows on the link.
    pub(crate) rows_s: f64,
    /// Sums of weight gradients on the link: the same at any precision.
    pub(crate) reduction_s: f64,
}

impl Fp32 {
    /// The throughput that the link allows at one bit, over that of full precision, where exchanges are
    /// waited for: `T / (T_c + C/r)`.
    pub(crate) fn allowed_waiting(self, ratio: f64) -> f64 {
        self.epoch_s / (self.computation_s + self.rows_s / ratio)
    }

    /// The same where they are hidden: `T / max(T_c, C/r)`.
    pub(crate) fn allowed_hidden(self, ratio: f64) -> f64 {
        self.epoch_s / self.computation_s.max(self.rows_s / ratio)
    }

    /// As [`Fp32::allowed_waiting`], with the sums of weight gradients added.
    pub(crate) fn allowed_waiting_with_sums(self, ratio: f64) -> f64 {
        self.epoch_s / (self.computation_s + self.rows_s / ratio + self.reduction_s)
    }

    /// As [`Fp32::allowed_hidden`], with them.
    pub(crate) fn allowed_hidden_with_sums(self, ratio: f64) -> f64 {
        self.epoch_s / (self.computation_s.max(self.rows_s / ratio) + self.reduction_s)
    }
}

/// How much of what the link allows has to be reached.
pub(crate) const SHARE_OF_ALLOWED: f64 = 0.85;

/// Whether a throughput is [`SHARE_OF_ALLOWED`] of what is allowed.
pub(crate) fn is_near_allowed(throughput: f64, allowed: f64) -> bool {
    throughput >= SHARE_OF_ALLOWED * allowed
}

/// Whether a figure is above all others.
pub(crate) fn is_above_all(figure: f64, others: &[f64]) -> bool {
    others.iter().all(|&other| figure > other)
}

/// Whether each figure is below the one before.
pub(crate) fn is_falling(figures: &[f64]) -> bool {
    figures.windows(2).all(|pair| pair[1] < pair[0])
}

/// How far a ratio may be from what it should be.
pub(crate) const TOLERANCE: f64 = 0.02;

/// Whether a ratio is what it should be, within [`TOLERANCE`] of it.
pub(crate) fn is_close(ratio: f64, expected: f64) -> bool {
    is_within(ratio, expected, TOLERANCE)
}

/// How far an epoch over shaped links may be from one over a modelled link.
pub(crate) const LINK_TOLERANCE: f64 = 0.2;

/// Whether a ratio is what it should be, within a share of it.
pub(crate) fn is_within(ratio: f64, expected: f64, tolerance: f64) -> bool {
    (ratio / expected - 1.0).abs() <= tolerance
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Standard deviation of a sample; 0 of a single value.
pub(crate) fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

/// The largest loss of accuracy that the paper reports of Sylvie, in shares of 1.
pub(crate) const PAPER_LOSS: f64 = 0.0125;

/// Whether scores lie, in the mean, no further below a baseline's than the larger of the paper's largest loss and both
/// standard deviations over the seeds together.
pub(crate) fn is_as_good(scores: &[f64], baseline: &[f64]) -> bool {
    let spread = deviation(scores) + deviation(baseline);
    mean(scores) >= mean(baseline) - spread.max(PAPER_LOSS)
}

/// Whether scores lie, in the mean, below others by more than both standard deviations together.
pub(crate) fn is_visibly_worse(scores: &[f64], others: &[f64]) -> bool {
    mean(scores) < mean(others) - deviation(scores) - deviation(others)
}

/// Whether a policy is nearer to the baseline than another is.
pub(crate) fn closes_gap(policy: f64, other: f64, baseline: f64) -> bool {
    baseline - policy < baseline - other
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9 * b.abs(), "{a} is not {b}");
    }

    #[test]
    fn the_paper_s_example_gives_the_paper_s_bounds() {
        // Reddit, SAGE: 256 columns, computation 1.06 % of the epoch, the rest taken for rows.
        let one_bit = |n_cols| row_ratio(RowCodec::new(Width::One), n_cols);
        close(one_bit(256), 1024.0 / 36.0);
        // 33 columns take five bytes.
        close(one_bit(33), 132.0 / 9.0);
        assert_eq!(row_ratio(RowCodec::new(Width::F32), 33), 1.0);
        let fp32 = Fp32 { epoch_s: 100.0, computation_s: 1.06, rows_s: 98.94, reduction_s: 0.5 };
        let ratio = one_bit(256);
        assert_eq!((10.0 * fp32.allowed_waiting(ratio)).round(), 220.0);
        assert_eq!((10.0 * fp32.allowed_hidden(ratio)).round(), 287.0);
        close(fp32.allowed_waiting_with_sums(ratio), 100.0 / (1.06 + 98.94 * 36.0 / 1024.0 + 0.5));
        close(fp32.allowed_hidden_with_sums(ratio), 100.0 / (98.94 * 36.0 / 1024.0 + 0.5));
        // Where computation is the longer, it decides.
        let busy = Fp32 { computation_s: 20.0, ..fp32 };
        close(busy.allowed_hidden(ratio), 5.0);
        close(busy.allowed_hidden_with_sums(ratio), 100.0 / 20.5);
    }

    #[test]
    fn comparisons_can_say_no() {
        assert!(is_near_allowed(8.5, 10.0) && !is_near_allowed(8.4, 10.0));
        assert!(is_above_all(3.0, &[1.0, 2.9]) && !is_above_all(3.0, &[1.0, 3.0]));
        assert!(is_falling(&[3.0, 2.0, 1.0]) && !is_falling(&[3.0, 1.0, 1.0]));
        assert!(is_close(31.5, 32.0) && !is_close(31.0, 32.0) && !is_close(33.0, 32.0));
        assert!(
            is_within(1.19, 1.0, 0.2) && !is_within(1.21, 1.0, 0.2) && !is_within(0.7, 1.0, 0.2)
        );
        assert!(closes_gap(0.94, 0.93, 0.95) && !closes_gap(0.93, 0.94, 0.95));
    }

    #[test]
    fn scores_are_judged_by_their_spread() {
        close(deviation(&[1.0, 2.0, 3.0]), 1.0);
        assert_eq!(deviation(&[1.0]), 0.0);
        // 2 points below with 0.7 of spread: more than the paper's 1.25 points.
        let (low, high) = ([0.775, 0.780, 0.785], [0.798, 0.800, 0.802]);
        close(deviation(&low), 0.005);
        assert!(!is_as_good(&low, &high) && is_visibly_worse(&low, &high));
        // 1 point below: within the paper's loss, though more than the spread.
        let near = [0.785, 0.790, 0.795];
        assert!(is_as_good(&near, &high) && is_visibly_worse(&near, &high));
        // 4 points below, but seeds differ by as much.
        let wide = [0.72, 0.76, 0.80];
        assert!(is_as_good(&wide, &high) && !is_visibly_worse(&wide, &high));
        assert!(is_as_good(&high, &low) && !is_visibly_worse(&high, &low));
    }

    #[test]
    fn what_was_not_measured_is_said() {
        let texts = [Some(true), Some(false), None].map(|holds| Outcome::of(holds).text());
        assert_eq!(texts, ["agrees", "does not agree", "not measured"]);
    }
}
