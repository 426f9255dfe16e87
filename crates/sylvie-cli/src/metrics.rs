//! What is recorded of every epoch.

use serde::{Deserialize, Serialize};
use sylvie::gnn::Metric;
use sylvie::pipeline::{EpochRecord, RankTimes, Scores};

/// A line of metrics.jsonl.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EpochLine {
    epoch: u32,
    pub(crate) loss: f64,
    pub(crate) epoch_ms: f64,
    #[serde(flatten)]
    times: TimesLine,
    ranks: Vec<TimesLine>,
    pub(crate) payload_bytes: u64,
    pub(crate) metadata_bytes: u64,
    messages: u64,
    pub(crate) reduce_bytes: u64,
    #[serde(flatten)]
    scores: Option<ScoreLine>,
}

impl EpochLine {
    /// Epoch, from 0.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Where the time went: mean over the ranks.
    pub(crate) fn times(&self) -> RankTimes {
        let TimesLine { compute_ms, blocked_ms, reduce_ms, encode_ms, .. } = self.times;
        let TimesLine { decode_ms, network_ms, hidden_ms, .. } = self.times;
        RankTimes { compute_ms, blocked_ms, reduce_ms, encode_ms, decode_ms, network_ms, hidden_ms }
    }
}

/// Where the time of an epoch went, on one rank or in the mean over ranks.
///
/// The first three add up to the epoch; the others are what happened beside it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct TimesLine {
    compute_ms: f64,
    blocked_ms: f64,
    reduce_ms: f64,
    encode_ms: f64,
    decode_ms: f64,
    network_ms: f64,
    hidden_ms: f64,
}

impl From<&RankTimes> for TimesLine {
    fn from(times: &RankTimes) -> Self {
        let RankTimes { compute_ms, blocked_ms, reduce_ms, encode_ms, .. } = *times;
        let RankTimes { decode_ms, network_ms, hidden_ms, .. } = *times;
        Self { compute_ms, blocked_ms, reduce_ms, encode_ms, decode_ms, network_ms, hidden_ms }
    }
}

/// Scores on the three sets; null where the metric is not defined.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ScoreLine {
    pub(crate) train: Option<f64>,
    pub(crate) val: Option<f64>,
    pub(crate) test: Option<f64>,
}

impl From<Scores> for ScoreLine {
    fn from(scores: Scores) -> Self {
        Self { train: scores.train, val: scores.val, test: scores.test }
    }
}

/// What to say where the metric is not defined on a set.
pub(crate) fn score_warning(metric: Metric, scores: &Scores) -> Option<String> {
    let Scores { train, val, test } = *scores;
    let sets = [("training", train), ("validation", val), ("test", test)].into_iter();
    let sets: Vec<&str> = sets.filter(|(_, score)| score.is_none()).map(|(set, _)| set).collect();
    let why = match metric {
        Metric::RocAuc => "no class has nodes both in it and not in it there",
        Metric::MicroF1 | Metric::MacroF1 => "no label there is true or predicted to be",
        Metric::Accuracy => "no node there has a label",
    };
    let is_many = sets.len() > 1;
    let named = format!("{} set{}", sets.join(" and "), if is_many { "s" } else { "" });
    (!sets.is_empty()).then(|| format!("{metric} is not defined on the {named}: {why}"))
}

impl From<&EpochRecord> for EpochLine {
    fn from(record: &EpochRecord) -> Self {
        Self {
            epoch: record.epoch,
            loss: record.loss,
            epoch_ms: record.epoch_ms,
            times: TimesLine::from(&record.times),
            ranks: record.ranks.iter().map(TimesLine::from).collect(),
            payload_bytes: record.payload_bytes,
            metadata_bytes: record.metadata_bytes,
            messages: record.messages,
            reduce_bytes: record.reduce_bytes,
            scores: record.scores.map(ScoreLine::from),
        }
    }
}
