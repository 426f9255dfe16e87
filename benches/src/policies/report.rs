//! The table, as text and as CSV.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use sylvie::comm::LinkModel;
use sylvie::gnn::ModelKind;
use sylvie::pipeline::{EpochRecord, RankTimes, Span};

use super::paper;
use super::run::Outcome;
use crate::rounds::median;

/// One policy over one link.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) kind: ModelKind,
    pub(crate) n_hidden: usize,
    /// Share of computation in vanilla's epoch, by which the link was chosen.
    pub(crate) share: f64,
    pub(crate) link: LinkModel,
    pub(crate) policy: String,
    pub(crate) n_epochs: usize,
    pub(crate) predicted_s: f64,
    pub(crate) measured_s: f64,
    /// Vanilla's time over this one's.
    pub(crate) throughput: f64,
    /// Computation, codec included, in a run without a link.
    pub(crate) computation_s: f64,
    /// What the link alone takes: exchanges through its busiest direction, and reductions.
    pub(crate) transfer_s: f64,
    pub(crate) reduction_s: f64,
    /// A whole epoch of the run without a link.
    pub(crate) linkless_s: f64,
    /// Medians over the epochs measured, of means over the ranks.
    pub(crate) times: RankTimes,
    pub(crate) payload_bytes: f64,
    pub(crate) metadata_bytes: f64,
    /// Both together.
    pub(crate) halo_bytes: f64,
    pub(crate) reduce_bytes: f64,
    /// Each epoch measured.
    pub(crate) epochs_s: Vec<f64>,
    /// What each rank did in the last of them.
    pub(crate) last_epoch: Vec<Vec<Span>>,
}

/// Medians of each figure over the epochs of a run.
pub(crate) fn median_times(outcome: &Outcome) -> RankTimes {
    let of = |figure: fn(&RankTimes) -> f64| {
        median(outcome.records.iter().map(|record| figure(&record.times)).collect())
    };
    RankTimes {
        compute_ms: of(|times| times.compute_ms),
        blocked_ms: of(|times| times.blocked_ms),
        reduce_ms: of(|times| times.reduce_ms),
        encode_ms: of(|times| times.encode_ms),
        decode_ms: of(|times| times.decode_ms),
        network_ms: of(|times| times.network_ms),
        hidden_ms: of(|times| times.hidden_ms),
    }
}

/// The median of a count over the epochs of a run.
pub(crate) fn median_bytes(outcome: &Outcome, figure: fn(&EpochRecord) -> u64) -> f64 {
    median(outcome.records.iter().map(|record| figure(record) as f64).collect())
}

/// What heads the rows of one network and link.
pub(crate) fn heading(row: &Row) -> String {
    let Row { kind, n_hidden, share, link, .. } = row;
    format!(
        "\n{kind}, 3 layers of {n_hidden}; computation {:.1} % of vanilla's epoch: {:.1} Mbps, {} us, \
         {} ranks a host\n\n\
         | policy | epoch ms | predicted | ratio | throughput | paper | compute | blocked | reduce | \
         codec | network | hidden | computation ms | transfer ms | all-reduce ms |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
        100.0 * share,
        link.bits_per_second / 1e6,
        link.latency.as_micros(),
        link.ranks_per_host,
    )
}

impl Row {
    /// A row of the text table. Shares are of the epoch as the ranks measure it: the first three add
    /// up to it, the other three lie beside them.
    pub(crate) fn text(&self) -> String {
        let times = &self.times;
        let epoch_ms = times.compute_ms + times.blocked_ms + times.reduce_ms;
        let share = |ms: f64| format!("{:.1} %", 100.0 * ms / epoch_ms);
        let paper = paper::throughput(&self.policy, self.kind).map_or_else(
            || "-".to_owned(),
            |(least, most)| {
                if least < most { format!("{least}..{most}") } else { format!("{least}") }
            },
        );
        format!(
            "| {} | {:.1} | {:.1} | {:.3} | {:.2} | {paper} | {} | {} | {} | {} | {} | {} | {:.1} | {:.1} | {:.1} |",
            self.policy,
            1e3 * self.measured_s,
            1e3 * self.predicted_s,
            self.measured_s / self.predicted_s,
            self.throughput,
            share(times.compute_ms),
            share(times.blocked_ms),
            share(times.reduce_ms),
            share(times.encode_ms + times.decode_ms),
            share(times.network_ms),
            share(times.hidden_ms),
            1e3 * self.computation_s,
            1e3 * self.transfer_s,
            1e3 * self.reduction_s,
        )
    }

    /// A line of [`COLUMNS`].
    pub(crate) fn csv(&self) -> String {
        let RankTimes { compute_ms, blocked_ms, reduce_ms, .. } = self.times;
        let RankTimes { encode_ms, decode_ms, network_ms, hidden_ms, .. } = self.times;
        let (least, most) =
            paper::throughput(&self.policy, self.kind).unwrap_or((f64::NAN, f64::NAN));
        let numbers = [
            100.0 * self.share,
            self.link.bits_per_second,
            self.link.latency.as_secs_f64() * 1e6,
            self.link.ranks_per_host as f64,
            self.n_epochs as f64,
            1e3 * self.measured_s,
            1e3 * self.predicted_s,
            self.throughput,
            least,
            most,
            compute_ms,
            blocked_ms,
            reduce_ms,
            encode_ms,
            decode_ms,
            network_ms,
            hidden_ms,
            1e3 * self.computation_s,
            1e3 * self.transfer_s,
            1e3 * self.reduction_s,
            1e3 * self.linkless_s,
            self.halo_bytes,
            self.reduce_bytes,
        ];
        let mut line = format!("{},{},{}", self.kind, self.n_hidden, self.policy);
        for number in numbers {
            line.push(',');
            // What the paper does not report stays empty.
            if number.is_finite() {
                write!(line, "{number:.3}").expect("text takes text");
            }
        }
        line
    }
}

/// What [`Row::csv`] gives.
pub(crate) const COLUMNS: &str = "model,hidden,policy,computation_percent,bits_per_second,latency_us,\
    ranks_per_host,epochs,epoch_ms,predicted_ms,throughput,paper_least,paper_most,compute_ms,\
    blocked_ms,reduce_ms,encode_ms,decode_ms,network_ms,hidden_ms,computation_ms,transfer_ms,\
    all_reduce_ms,linkless_epoch_ms,halo_bytes,reduce_bytes";

/// Writes all rows, below the header as comments.
///
/// # Errors
/// A file that cannot be written.
pub(crate) fn write_csv(path: &Path, header: &str, rows: &[Row]) -> Result<()> {
    let mut text = String::new();
    for line in header.lines() {
        writeln!(text, "# {line}").expect("text takes text");
    }
    writeln!(text, "{COLUMNS}").expect("text takes text");
    for row in rows {
        writeln!(text, "{}", row.csv()).expect("text takes text");
    }
    fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}
