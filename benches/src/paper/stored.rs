//! The runs of a record, read back from its CSV files: what a measurement that was ended goes on from.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sylvie::comm::LinkModel;
use sylvie::gnn::ModelKind;
use sylvie::pipeline::RankTimes;

use super::runs::{Results, Shaped, Timed, Trained};
use super::training::{Curve, EpochPoint};
use crate::policies::report::Row;

/// The file of what a record's runs have in common.
pub(crate) const SETTINGS: &str = "settings.toml";

/// What all runs of a record have in common.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) quick: bool,
    pub(crate) scale: f64,
}

/// Reads what the runs of a record have in common.
///
/// # Errors
/// A file that is not there or not of settings.
pub(crate) fn settings(record: &Path) -> Result<Settings> {
    let path = record.join(SETTINGS);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    toml::from_str(&text).with_context(|| format!("{} is no file of settings", path.display()))
}

/// Reads all runs of a record. What each rank did in the last epoch is not among the files, so that runs have no
/// traces.
///
/// # Errors
/// A file that is not there or not of runs, with the line.
pub(crate) fn results(record: &Path) -> Result<Results> {
    let epochs: Vec<EpochLine> = lines(&record.join("epochs.csv"))?;
    let points: Vec<PointLine> = lines(&record.join("curves.csv"))?;
    let timed: Vec<TimedLine> = lines(&record.join("times.csv"))?;
    let trained: Vec<ScoreLine> = lines(&record.join("scores.csv"))?;
    Ok(Results {
        timed: timed.into_iter().map(|line| line.run(&epochs)).collect::<Result<_>>()?,
        trained: trained.into_iter().map(|line| line.run(&points)).collect::<Result<_>>()?,
        shaped: Shaped::stored(record)?,
        ..Results::default()
    })
}

/// The lines of a file with headings.
///
/// # Errors
/// A file that cannot be read, or has a line that is none of these.
pub(crate) fn lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    // The messages of the reader have line and field.
    let name = || path.display().to_string();
    let mut reader = csv::Reader::from_path(path).with_context(name)?;
    reader.deserialize().collect::<Result<_, csv::Error>>().with_context(name)
}

/// A line of times.csv, without what follows from the others.
#[derive(Debug, Deserialize)]
struct TimedLine {
    data: String,
    layout: String,
    parts: u32,
    model: String,
    hidden: usize,
    policy: String,
    computation_percent: f64,
    bits_per_second: f64,
    latency_us: f64,
    ranks_per_host: f64,
    epochs: f64,
    epoch_ms: f64,
    predicted_ms: f64,
    throughput: f64,
    compute_ms: f64,
    blocked_ms: f64,
    reduce_ms: f64,
    encode_ms: f64,
    decode_ms: f64,
    network_ms: f64,
    hidden_ms: f64,
    computation_ms: f64,
    transfer_ms: f64,
    all_reduce_ms: f64,
    linkless_epoch_ms: f64,
    halo_bytes: f64,
    reduce_bytes: f64,
    payload_bytes: f64,
    metadata_bytes: f64,
}

/// A line of epochs.csv.
#[derive(Debug, Deserialize)]
struct EpochLine {
    data: String,
    model: String,
    layout: String,
    policy: String,
    ms: f64,
}

/// A line of scores.csv.
#[derive(Debug, Deserialize)]
struct ScoreLine {
    data: String,
    model: String,
    parts: u32,
    policy: String,
    seed: u32,
    epochs: u32,
    eval_every: u32,
    best_epoch: u32,
    best_val: f64,
    test_at_best: f64,
    test_at_end: f64,
}

/// A line of curves.csv.
#[derive(Debug, Deserialize)]
struct PointLine {
    data: String,
    model: String,
    parts: u32,
    policy: String,
    seed: u32,
    epochs: u32,
    epoch: u32,
    loss: f64,
    val: Option<f64>,
}

fn kind(model: &str) -> Result<ModelKind> {
    model.parse().map_err(|error| anyhow!("{error}"))
}

impl TimedLine {
    fn run(self, epochs: &[EpochLine]) -> Result<Timed> {
        let is_mine = |epoch: &&EpochLine| {
            (&epoch.data, &epoch.model, &epoch.layout, &epoch.policy)
                == (&self.data, &self.model, &self.layout, &self.policy)
        };
        let epochs_s = epochs.iter().filter(is_mine).map(|epoch| epoch.ms / 1e3).collect();
        let model = kind(&self.model)?;
        let row = Row {
            kind: model,
            n_hidden: self.hidden,
            share: self.computation_percent / 100.0,
            link: LinkModel {
                bits_per_second: self.bits_per_second,
                latency: Duration::try_from_secs_f64(self.latency_us / 1e6)?,
                ranks_per_host: self.ranks_per_host as usize,
            },
            policy: self.policy,
            n_epochs: self.epochs as usize,
            predicted_s: self.predicted_ms / 1e3,
            measured_s: self.epoch_ms / 1e3,
            throughput: self.throughput,
            computation_s: self.computation_ms / 1e3,
            transfer_s: self.transfer_ms / 1e3,
            reduction_s: self.all_reduce_ms / 1e3,
            linkless_s: self.linkless_epoch_ms / 1e3,
            times: RankTimes {
                compute_ms: self.compute_ms,
                blocked_ms: self.blocked_ms,
                reduce_ms: self.reduce_ms,
                encode_ms: self.encode_ms,
                decode_ms: self.decode_ms,
                network_ms: self.network_ms,
                hidden_ms: self.hidden_ms,
            },
            payload_bytes: self.payload_bytes,
            metadata_bytes: self.metadata_bytes,
            halo_bytes: self.halo_bytes,
            reduce_bytes: self.reduce_bytes,
            epochs_s,
            last_epoch: Vec::new(),
        };
        let Self { data, layout, parts, .. } = self;
        Ok(Timed { data, model, layout, n_parts: parts, row })
    }
}

impl ScoreLine {
    fn run(self, points: &[PointLine]) -> Result<Trained> {
        let is_mine = |point: &&PointLine| {
            let Self { data, model, policy, .. } = &self;
            (&point.data, &point.model, &point.policy) == (data, model, policy)
                && (point.parts, point.seed, point.epochs) == (self.parts, self.seed, self.epochs)
        };
        let of = |&PointLine { epoch, loss, val, .. }: &PointLine| EpochPoint { epoch, loss, val };
        let curve = Curve {
            epochs: points.iter().filter(is_mine).map(of).collect(),
            best_epoch: self.best_epoch,
            best_val: self.best_val,
            test: self.test_at_best,
            last_test: self.test_at_end,
        };
        Ok(Trained {
            model: kind(&self.model)?,
            data: self.data,
            policy: self.policy,
            seed: self.seed,
            n_parts: self.parts,
            epochs: self.epochs,
            eval_every: self.eval_every,
            curve,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{EpochLine, lines, settings};

    #[test]
    fn what_is_no_file_of_runs_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("epochs.csv");
        std::fs::write(
            &path,
            "data,model,layout,policy,epoch,ms\na,sage,\"b, c\",d,0,1.5\na,sage,b,d,1,x\n",
        )
        .unwrap();
        let error = format!("{:#}", lines::<EpochLine>(&path).unwrap_err());
        assert!(error.contains("epochs.csv") && error.contains("line: 3"), "{error}");
        let error = format!("{:#}", settings(folder.path()).unwrap_err());
        assert!(error.contains("settings.toml"), "{error}");
    }
}
