//! What is recorded of every epoch.

use serde::Serialize;
use sylvie::gnn::Metric;
use sylvie::pipeline::{EpochRecord, Scores};

/// A line of metrics.jsonl.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct EpochLine {
    epoch: u32,
    loss: f64,
    epoch_ms: f64,
    compute_ms: f64,
    encode_ms: f64,
    wait_ms: f64,
    decode_ms: f64,
    reduce_ms: f64,
    payload_bytes: u64,
    metadata_bytes: u64,
    messages: u64,
    #[serde(flatten)]
    scores: Option<ScoreLine>,
}

/// Scores on the three sets; null where the metric is not defined.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
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
        Metric::MicroF1 => "no label there is true or predicted to be",
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
            compute_ms: record.compute_ms,
            encode_ms: record.encode_ms,
            wait_ms: record.wait_ms,
            decode_ms: record.decode_ms,
            reduce_ms: record.reduce_ms,
            payload_bytes: record.payload_bytes,
            metadata_bytes: record.metadata_bytes,
            messages: record.messages,
            scores: record.scores.map(ScoreLine::from),
        }
    }
}
