//! What is known of a run at its end.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use sylvie::data::shown;
use sylvie::gnn::Metric;
use sylvie::partition::Quality;
use sylvie::pipeline::{RankTimes, TrainOutcome};

use crate::console::{bytes, counted, every, score};
use crate::metrics::EpochLine;
use crate::settings::RunSettings;

/// What summary.json holds. Bytes are sums over the ranks.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    metric: String,
    best_val: Option<f64>,
    test_at_best_val: Option<f64>,
    final_test: Option<f64>,
    best_epoch: u32,
    epochs: u32,
    loss: f64,
    median_epoch_ms: f64,
    #[serde(flatten)]
    times: Times,
    payload_bytes_per_epoch: u64,
    metadata_bytes_per_epoch: u64,
    fp32_bytes_per_epoch: u64,
    reduce_bytes_per_epoch: u64,
    eval_bytes: u64,
    setup_bytes: u64,
    /// Of this process; of the largest where ranks are processes.
    peak_rss_mb: Option<f64>,
    parts: u32,
    cut_edges: u64,
    halo_rows: u64,
}

/// Where the time of an epoch went: means over epochs and ranks.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Times {
    mean_epoch_ms: f64,
    mean_compute_ms: f64,
    mean_blocked_ms: f64,
    mean_reduce_ms: f64,
    mean_encode_ms: f64,
    mean_decode_ms: f64,
    mean_network_ms: f64,
    mean_hidden_ms: f64,
    /// Of encoding, decoding and network; `None` where nothing was exchanged.
    hidden_share: Option<f64>,
}

impl Times {
    /// `epoch_ms` is the sum over `n_epochs` epochs, and `sum` that of their parts.
    fn mean(epoch_ms: f64, sum: &RankTimes, n_epochs: usize) -> Self {
        let mean = |sum: f64| sum / n_epochs.max(1) as f64;
        let exchange_ms = sum.encode_ms + sum.decode_ms + sum.network_ms;
        Self {
            mean_epoch_ms: mean(epoch_ms),
            mean_compute_ms: mean(sum.compute_ms),
            mean_blocked_ms: mean(sum.blocked_ms),
            mean_reduce_ms: mean(sum.reduce_ms),
            mean_encode_ms: mean(sum.encode_ms),
            mean_decode_ms: mean(sum.decode_ms),
            mean_network_ms: mean(sum.network_ms),
            mean_hidden_ms: mean(sum.hidden_ms),
            hidden_share: (exchange_ms > 0.0).then(|| sum.hidden_ms / exchange_ms),
        }
    }

    /// What the computing threads did, in a line, and what happened beside them, in another.
    fn to_text(self, n_parts: u32) -> String {
        let mut text =
            format!("mean {:.1} ms: {:.1} computing", self.mean_epoch_ms, self.mean_compute_ms);
        if n_parts > 1 {
            let _ = write!(
                text,
                ", {:.1} waiting for rows of other parts, {:.1} for the all-reduce",
                self.mean_blocked_ms, self.mean_reduce_ms,
            );
        }
        if let Some(share) = self.hidden_share {
            let _ = write!(
                text,
                "\nbeside it {:.1} ms encoding, {:.1} decoding, {:.1} on the network, of which {:.0} % \
                 hidden behind computing",
                self.mean_encode_ms,
                self.mean_decode_ms,
                self.mean_network_ms,
                share * 100.0,
            );
        }
        text
    }
}

/// What the summary needs of the epochs.
#[derive(Clone, Debug, Default)]
pub(crate) struct EpochFigures {
    epoch_ms: Vec<f64>,
    /// Sums over the epochs.
    times: RankTimes,
    loss: f64,
    payload_bytes: u64,
    metadata_bytes: u64,
    reduce_bytes: u64,
}

impl EpochFigures {
    /// Takes note of an epoch.
    pub(crate) fn push(&mut self, record: &EpochLine) {
        self.epoch_ms.push(record.epoch_ms);
        let (sum, times) = (&mut self.times, record.times());
        sum.compute_ms += times.compute_ms;
        sum.blocked_ms += times.blocked_ms;
        sum.reduce_ms += times.reduce_ms;
        sum.encode_ms += times.encode_ms;
        sum.decode_ms += times.decode_ms;
        sum.network_ms += times.network_ms;
        sum.hidden_ms += times.hidden_ms;
        self.loss = record.loss;
        self.payload_bytes += record.payload_bytes;
        self.metadata_bytes += record.metadata_bytes;
        self.reduce_bytes += record.reduce_bytes;
    }

    /// The mean of a sum over the epochs: epochs that sample rows do not all send the same.
    fn mean(&self, sum: u64) -> u64 {
        (sum as f64 / self.epoch_ms.len().max(1) as f64).round() as u64
    }

    fn times(&self) -> Times {
        Times::mean(self.epoch_ms.iter().sum(), &self.times, self.epoch_ms.len())
    }

    /// Median time of an epoch; 0 without epochs.
    fn median_epoch_ms(&self) -> f64 {
        median(&self.epoch_ms).unwrap_or(0.0)
    }
}

/// The middle of the numbers, or what lies between the two middle ones; `None` without numbers.
pub(crate) fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { f64::midpoint(sorted[middle - 1], upper) })
}

impl Summary {
    /// Puts together what the ranks, the epochs and the split say.
    pub(crate) fn new(
        metric: Metric,
        outcome: &TrainOutcome,
        epochs: &EpochFigures,
        (quality, peak_rss_mb): (&Quality, Option<f64>),
    ) -> Self {
        let mut times = epochs.times();
        if outcome.fp32_bytes_per_epoch == 0 {
            // Nobody had anything to send: what little was timed is no exchange.
            times.hidden_share = None;
        }
        Self {
            metric: metric.to_string(),
            best_val: outcome.best.val,
            test_at_best_val: outcome.best.test,
            final_test: outcome.last.test,
            best_epoch: outcome.best_epoch,
            epochs: outcome.n_epochs,
            loss: epochs.loss,
            median_epoch_ms: epochs.median_epoch_ms(),
            times,
            payload_bytes_per_epoch: epochs.mean(epochs.payload_bytes),
            metadata_bytes_per_epoch: epochs.mean(epochs.metadata_bytes),
            fp32_bytes_per_epoch: outcome.fp32_bytes_per_epoch,
            reduce_bytes_per_epoch: epochs.mean(epochs.reduce_bytes),
            eval_bytes: outcome.eval_bytes,
            setup_bytes: outcome.setup_bytes,
            peak_rss_mb,
            parts: quality.n_parts,
            cut_edges: quality.cut_edges,
            halo_rows: quality.communication_volume,
        }
    }

    /// The last lines that a run prints.
    pub(crate) fn to_text(&self, settings: &RunSettings, folder: Option<&Path>) -> String {
        let mut text = format!(
            "{} at the best validation: validation {}, test {} (epoch {}); test at the end {}\n\
             {}, median {:.1} ms, {}\n{}",
            self.metric,
            score(self.best_val),
            score(self.test_at_best_val),
            self.best_epoch,
            score(self.final_test),
            counted(self.epochs, "epoch"),
            self.median_epoch_ms,
            self.times.to_text(self.parts),
            self.savings(settings),
        );
        if let Some(folder) = folder {
            let _ = write!(text, "\nresults in {}", shown(folder));
        }
        text
    }

    /// How much less was sent than fp32 would have.
    fn savings(&self, settings: &RunSettings) -> String {
        if self.parts == 1 {
            return "nothing was exchanged: there is one part".to_owned();
        }
        let sent = (self.payload_bytes_per_epoch + self.metadata_bytes_per_epoch) as f64;
        let fp32 = self.fp32_bytes_per_epoch as f64;
        if fp32 == 0.0 {
            return "nothing was exchanged in training: no layer after the first reads across parts"
                .to_owned();
        }
        let n_epochs = f64::from(self.epochs);
        let reduced = self.reduce_bytes_per_epoch as f64;
        let apart = (self.eval_bytes + self.setup_bytes) as f64 + reduced * n_epochs;
        let (run_sent, run_fp32) = (sent * n_epochs + apart, fp32 * n_epochs + apart);
        if sent == fp32 {
            return format!(
                "halo rows took {} an epoch, as many bytes as fp32; the whole run, with the all-reduce \
                 of weight gradients ({} an epoch), raw features once and evaluation {}, \
                 sent {}",
                bytes(sent),
                bytes(reduced),
                every(settings.eval_every, "epoch"),
                bytes(run_sent),
            );
        }
        format!(
            "halo rows took {} ({} instead of {} an epoch, metadata included)\n\
             the whole run, with the all-reduce of weight gradients ({} an epoch), raw features once \
             and evaluation in fp32 {}, sent {} ({} instead of {})",
            compared(sent, fp32),
            bytes(sent),
            bytes(fp32),
            bytes(reduced),
            every(settings.eval_every, "epoch"),
            compared(run_sent, run_fp32),
            bytes(run_sent),
            bytes(run_fp32),
        )
    }
}

fn compared(sent: f64, fp32: f64) -> String {
    if sent == 0.0 {
        "none of fp32's bytes".to_owned()
    } else if sent < fp32 {
        format!("{:.1} times fewer bytes than fp32", fp32 / sent)
    } else {
        format!("{:.1} times as many bytes as fp32", sent / fp32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        Summary {
            metric: "accuracy".to_owned(),
            best_val: Some(0.5),
            test_at_best_val: Some(0.25),
            final_test: None,
            best_epoch: 4,
            epochs: 10,
            loss: 1.0,
            median_epoch_ms: 2.0,
            times: Times::default(),
            payload_bytes_per_epoch: 90,
            metadata_bytes_per_epoch: 10,
            fp32_bytes_per_epoch: 3000,
            reduce_bytes_per_epoch: 50,
            eval_bytes: 1500,
            setup_bytes: 500,
            peak_rss_mb: None,
            parts: 2,
            cut_edges: 8,
            halo_rows: 6,
        }
    }

    #[test]
    fn the_last_lines_tell_scores_and_savings() {
        let text = summary().to_text(&RunSettings::default(), Some(Path::new("there")));
        for words in [
            "validation 0.5000, test 0.2500 (epoch 4)",
            "test at the end -",
            "30.0 times fewer bytes than fp32 (100 B instead of 3.00 kB an epoch, metadata included)",
            "(50 B an epoch), raw features once",
            "every 5 epochs, sent 9.3 times fewer bytes than fp32 (3.50 kB instead of 32.50 kB)",
            "results in there",
        ] {
            assert!(text.contains(words), "{words} in\n{text}");
        }
    }

    #[test]
    fn the_time_of_an_epoch_is_told_by_its_parts() {
        let sum = RankTimes {
            compute_ms: 10.0,
            blocked_ms: 4.0,
            reduce_ms: 2.0,
            encode_ms: 1.0,
            decode_ms: 3.0,
            network_ms: 12.0,
            hidden_ms: 12.0,
        };
        let times = Times::mean(16.0, &sum, 2);
        assert_eq!((times.mean_blocked_ms, times.hidden_share), (2.0, Some(0.75)));
        assert_eq!(
            times.to_text(2),
            "mean 8.0 ms: 5.0 computing, 2.0 waiting for rows of other parts, 1.0 for the all-reduce\n\
             beside it 0.5 ms encoding, 1.5 decoding, 6.0 on the network, of which 75 % hidden behind \
             computing"
        );
        let nothing = Times::mean(0.0, &RankTimes::default(), 0);
        assert_eq!(nothing.hidden_share, None);
        assert!(!nothing.to_text(2).contains("beside"));
        assert_eq!(nothing.to_text(1), "mean 0.0 ms: 0.0 computing");
    }

    #[test]
    fn no_saving_is_claimed_where_there_is_none() {
        let settings = RunSettings::default();
        let one = Summary { parts: 1, ..summary() };
        assert!(one.savings(&settings).contains("one part"));
        let linear = Summary { fp32_bytes_per_epoch: 0, ..summary() };
        assert!(linear.savings(&settings).contains("nothing was exchanged"));
        let same = Summary { fp32_bytes_per_epoch: 100, ..summary() };
        assert!(same.savings(&settings).starts_with("halo rows took 100 B an epoch, as many"));
        let more = Summary { fp32_bytes_per_epoch: 50, ..summary() };
        assert!(more.savings(&settings).starts_with("halo rows took 2.0 times as many bytes"));
    }

    #[test]
    fn the_median_is_the_middle_or_between_the_two() {
        let figures = |epoch_ms: &[f64]| EpochFigures {
            epoch_ms: epoch_ms.to_vec(),
            ..EpochFigures::default()
        };
        assert_eq!(figures(&[]).median_epoch_ms(), 0.0);
        assert_eq!(figures(&[9.0, 1.0, 2.0]).median_epoch_ms(), 2.0);
        assert_eq!(figures(&[9.0, 1.0, 2.0, 4.0]).median_epoch_ms(), 3.0);
    }
}
