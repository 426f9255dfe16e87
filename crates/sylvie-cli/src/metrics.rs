//! What is recorded of every epoch.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use sylvie::data::shown;
use sylvie::gnn::Metric;
use sylvie::pipeline::{EpochRecord, RankTimes, Scores};

use crate::console::counted;

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

/// The epochs that a checkpoint comes after, as metrics.jsonl has them.
#[derive(Debug)]
pub(crate) struct EpochsBefore {
    pub(crate) lines: Vec<EpochLine>,
    /// What the lines take in the file.
    pub(crate) n_bytes: u64,
    /// Whether the last of them ends as a line does.
    pub(crate) is_ended: bool,
}

impl EpochsBefore {
    /// Reads the first `n_epochs` lines.
    ///
    /// # Errors
    /// A file that cannot be read; fewer lines, or lines that are not those of the first epochs, with what may be done.
    pub(crate) fn read(path: &Path, n_epochs: u32) -> Result<Self> {
        let bytes = fs::read(path).with_context(|| shown(path))?;
        let settings = path.with_file_name(crate::run_folder::SETTINGS);
        let remedy = format!(
            "the checkpoint needs the lines of the {} before it: put them back as they were, or begin again with \
             `sylvie train --config {} --out DIR`",
            counted(n_epochs, "epoch"),
            shown(&settings)
        );
        let mut before = Self { lines: Vec::new(), n_bytes: 0, is_ended: true };
        let lines = bytes.split_inclusive(|&byte| byte == b'\n').take(n_epochs as usize);
        for (epoch, line) in (0_u32..).zip(lines) {
            let place = || format!("{}: line {}", shown(path), u64::from(epoch) + 1);
            let found: EpochLine = match serde_json::from_slice(line) {
                Ok(found) => found,
                Err(error) => bail!("{} is {}; {remedy}", place(), unreadable(&error)),
            };
            ensure!(found.epoch == epoch, "{} is of epoch {}; {remedy}", place(), found.epoch);
            before.lines.push(found);
            before.n_bytes += line.len() as u64;
            before.is_ended = line.ends_with(b"\n");
        }
        let n_found = before.lines.len() as u64;
        ensure!(
            n_found == u64::from(n_epochs),
            "{}: {}, but the checkpoint comes after {n_epochs}; {remedy}",
            shown(path),
            counted(n_found, "epoch")
        );
        Ok(before)
    }
}

/// What a line is that cannot be read, with the place in it: a line of JSON has no lines of its own.
pub(crate) fn unreadable(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or_default();
    let kind = if error.is_eof() { "cut" } else { "not what a run writes" };
    match error.column() {
        0 => format!("{kind} ({what})"),
        column => format!("{kind} ({what}, column {column})"),
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

/// A line of an epoch, for tests.
#[cfg(test)]
pub(crate) fn sample(epoch: u32) -> String {
    let times = ["compute", "blocked", "reduce", "encode", "decode", "network", "hidden"];
    let times = times.map(|name| format!("\"{name}_ms\":0.5,")).concat();
    let bytes = ["payload_bytes", "metadata_bytes", "messages", "reduce_bytes"];
    let bytes = bytes.map(|name| format!(",\"{name}\":1")).concat();
    format!("{{\"epoch\":{epoch},\"loss\":2.5,\"epoch_ms\":1.5,{times}\"ranks\":[]{bytes}}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_before_a_checkpoint_are_read_or_refused_with_what_may_be_done() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let read = |text: &str, n_epochs| {
            fs::write(&path, text).unwrap();
            EpochsBefore::read(&path, n_epochs)
        };
        let [zero, one] = [0, 1].map(sample);
        let before = read(&format!("{zero}{one}{{\"epoch\": half"), 2).unwrap();
        let n_bytes = (zero.len() + one.len()) as u64;
        assert_eq!((before.lines.len(), before.n_bytes, before.is_ended), (2, n_bytes, true));
        assert!(!read(zero.trim_end(), 1).unwrap().is_ended);

        for (text, said) in [
            (format!("{zero}{}", &one[..30]), "line 2 is cut ("),
            (format!("{zero}not JSON\n"), "line 2 is not what a run writes (expected"),
            (format!("{zero}{zero}"), "line 2 is of epoch 0;"),
            (zero.clone(), ": 1 epoch, but the checkpoint comes after 2;"),
        ] {
            let error = format!("{:#}", read(&text, 2).unwrap_err());
            let remedy = ["lines of the 2 epochs before it", "run.toml --out DIR"];
            assert!(
                error.contains(said) && remedy.iter().all(|words| error.contains(words)),
                "{error}"
            );
            assert!(error.matches("line ").count() <= 1, "one place: {error}");
        }
    }
}
