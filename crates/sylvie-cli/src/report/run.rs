//! A run folder, as far as a report needs it and whatever state it is in.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use sylvie::data::shown;
use toml::Table;

use super::figures::Figures;
use crate::console::counted;
use crate::metrics::unreadable;
use crate::run_folder::{self, METRICS, NEW, SETTINGS, SUMMARY, is_written_to};
use crate::{checkpoint, config, input};

/// A run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    pub(super) state: State,
    pub(super) settings: Table,
    pub(super) epochs: Vec<Epoch>,
    /// Its summary; of the epochs that are there where it is not over.
    pub(super) figures: Figures,
    /// What is to be known of it besides, without a full stop.
    pub(super) remarks: Vec<String>,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is over.
    Finished,
    /// It is being written to.
    Running,
    /// It ended before its time; epochs of its newest checkpoint, where there is one.
    Unfinished(Option<u32>),
}

/// A line of metrics.jsonl. What is missing or no number is `None`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Epoch {
    pub(super) epoch: u32,
    pub(super) loss: Option<f64>,
    pub(super) epoch_ms: Option<f64>,
    #[serde(flatten)]
    pub(super) times: Times,
    #[serde(default)]
    pub(super) ranks: Vec<Times>,
    pub(super) payload_bytes: Option<u64>,
    pub(super) metadata_bytes: Option<u64>,
    pub(super) messages: Option<u64>,
    pub(super) reduce_bytes: Option<u64>,
    pub(super) val: Option<f64>,
    pub(super) test: Option<f64>,
    /// Only an epoch that was evaluated has scores at all.
    #[serde(skip)]
    pub(super) is_evaluated: bool,
}

/// Where the time of an epoch went.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Times {
    pub(super) compute_ms: Option<f64>,
    pub(super) blocked_ms: Option<f64>,
    pub(super) reduce_ms: Option<f64>,
    pub(super) encode_ms: Option<f64>,
    pub(super) decode_ms: Option<f64>,
    pub(super) network_ms: Option<f64>,
    pub(super) hidden_ms: Option<f64>,
}

impl Run {
    /// Reads what there is.
    ///
    /// # Errors
    /// No run folder; a file that is not what a run writes.
    pub(super) fn read(folder: &Path, name: String) -> Result<Self> {
        let settings = read_settings(folder)?;
        let mut remarks = Vec::new();
        let epochs = read_epochs(&folder.join(METRICS), &mut remarks)?;
        let summary = read_summary(&folder.join(SUMMARY))?;
        if remarks.is_empty() {
            remarks.extend(few_epochs(&epochs, summary.as_ref()));
        }
        let state = match &summary {
            Some(_) => State::Finished,
            None if is_written_to(folder) => State::Running,
            None => State::Unfinished(checkpoint::newest(folder)),
        };
        if let State::Unfinished(Some(n_epochs)) = state {
            remarks.push(format!(
                "is not over and has a checkpoint after {}, from which `sylvie train --resume {}` goes on",
                counted(n_epochs, "epoch"),
                shown(folder)
            ));
        }
        if folder.join(NEW).join(METRICS).is_file() {
            remarks.push(format!(
                "a run that is to replace it lies in {}, and is shown when that is given to --run",
                shown(&folder.join(NEW))
            ));
        }
        remarks.extend(not_finite(&epochs));
        let figures = summary.unwrap_or_else(|| Figures::so_far(&epochs, &settings));
        Ok(Self { name, folder: folder.to_owned(), state, settings, epochs, figures, remarks })
    }

    /// Whether `path` is one of the files of the run.
    pub(super) fn is_file_of(&self, path: &Path) -> bool {
        run_folder::is_file_of(&self.folder, path)
    }

    /// A setting as text, if there is such.
    pub(super) fn setting(&self, key: &str) -> Option<String> {
        self.settings.get(key).map(|value| match value.as_str() {
            Some(word) => word.to_owned(),
            None => value.to_string(),
        })
    }

    /// The metric that its scores are of.
    pub(super) fn metric(&self) -> String {
        self.figures.metric.clone().unwrap_or_else(|| "score".to_owned())
    }

    /// The mean over the epochs that have it.
    pub(super) fn mean(&self, figure: impl Fn(&Epoch) -> Option<f64>) -> Option<f64> {
        mean(self.epochs.iter().filter_map(figure))
    }
}

/// The mean of numbers; `None` without any.
pub(super) fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n_numbers) = numbers.fold((0.0, 0_u32), |(sum, n), number| (sum + number, n + 1));
    (n_numbers > 0).then(|| sum / f64::from(n_numbers))
}

fn read_settings(folder: &Path) -> Result<Table> {
    ensure!(folder.exists(), "{}: no such folder; --run is that of a `train --out`", shown(folder));
    ensure!(folder.is_dir(), "{}: is no folder; --run is that of a `train --out`", shown(folder));
    let path = folder.join(SETTINGS);
    ensure!(
        path.exists(),
        "{}: no folder of a run: it has no {SETTINGS}; --run is that of a `train --out`",
        shown(folder)
    );
    let settings = config::read_table(&path)?;
    let is_of_a_run = ["model", "epochs"].iter().all(|key| settings.contains_key(*key));
    ensure!(
        is_of_a_run,
        "{}: not the settings of a run; --run is the folder of a `train --out`",
        shown(&path)
    );
    Ok(settings)
}

fn read_epochs(path: &Path, remarks: &mut Vec<String>) -> Result<Vec<Epoch>> {
    if !path.exists() {
        remarks.push(format!("has no {METRICS}, so that nothing is known of its epochs"));
        return Ok(Vec::new());
    }
    let bytes = input::read(path).with_context(|| shown(path))?;
    // A line may end within a character, and then it is left out.
    let text = String::from_utf8_lossy(&bytes);
    let n_lines = text.lines().count();
    let mut epochs = Vec::with_capacity(n_lines);
    for (number, line) in text.lines().enumerate() {
        match parse(line) {
            Ok(epoch) => epochs.push(epoch),
            Err(_) if number + 1 == n_lines && !text.ends_with('\n') => {
                remarks.push(format!("the last line of {METRICS} is cut and left out"));
            }
            Err(error) => bail!(
                "{}: line {} is {}; take the line out to see the others",
                shown(path),
                number + 1,
                unreadable(&error)
            ),
        }
    }
    Ok(epochs)
}

/// What to say where there are fewer lines of epochs than a summary tells of, or none.
fn few_epochs(epochs: &[Epoch], summary: Option<&Figures>) -> Option<String> {
    let n_lines = epochs.len() as u64;
    match summary.map(|summary| summary.epochs.map_or(n_lines, u64::from)) {
        None if n_lines == 0 => Some("has no epoch that is done".to_owned()),
        Some(n_epochs) if n_epochs != n_lines => Some(format!(
            "its {SUMMARY} tells of {}, and {METRICS} has {}: curves, and what an epoch is made of, are of those lines",
            counted(n_epochs, "epoch"),
            counted(n_lines, "line")
        )),
        _ => None,
    }
}

fn parse(line: &str) -> serde_json::Result<Epoch> {
    let value: serde_json::Value = serde_json::from_str(line)?;
    let is_evaluated = value.get("val").is_some();
    let epoch: Epoch = serde_json::from_value(value)?;
    Ok(Epoch { is_evaluated, ..epoch })
}

fn read_summary(path: &Path) -> Result<Option<Figures>> {
    if !path.exists() {
        return Ok(None);
    }
    let bytes = input::read(path).with_context(|| shown(path))?;
    let summary = serde_json::from_slice(&bytes).with_context(|| {
        format!(
            "{}: not the summary of a run; without the file, what is known of epochs is shown",
            shown(path)
        )
    });
    summary.map(Some)
}

/// What to say of losses that are no numbers.
fn not_finite(epochs: &[Epoch]) -> Option<String> {
    let mut without = epochs.iter().filter(|epoch| epoch.loss.is_none());
    let first = without.next()?.epoch;
    let epochs = counted(1 + without.count() as u64, "epoch");
    Some(format!("the loss of {epochs} is no number, of epoch {first} first"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LINE: &str = r#"{"epoch":0,"loss":2.5,"epoch_ms":4.0,"compute_ms":3.0,"ranks":[{"compute_ms":3.0}],"val":null}"#;

    fn folder(metrics: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(SETTINGS), "model = \"sage\"\nepochs = 9\n").unwrap();
        fs::write(folder.path().join(METRICS), metrics).unwrap();
        folder
    }

    fn read(folder: &tempfile::TempDir) -> Result<Run> {
        Run::read(folder.path(), "run".to_owned())
    }

    #[test]
    fn what_is_missing_or_cut_is_left_out() {
        let whole = read(&folder(&format!("{LINE}\n"))).unwrap();
        assert_eq!((whole.epochs.len(), whole.state), (1, State::Unfinished(None)));
        let epoch = &whole.epochs[0];
        assert_eq!(
            (epoch.loss, epoch.times.compute_ms, epoch.times.reduce_ms),
            (Some(2.5), Some(3.0), None)
        );
        assert!(epoch.is_evaluated && epoch.ranks.len() == 1 && whole.remarks.is_empty());

        let cut = read(&folder(&format!("{LINE}\n{}", &LINE[..30]))).unwrap();
        assert_eq!(cut.epochs.len(), 1);
        assert!(cut.remarks[0].contains("cut"), "{:?}", cut.remarks);
        let unended = read(&folder(LINE)).unwrap();
        assert!(unended.epochs.len() == 1 && unended.remarks.is_empty());

        let damaged = format!("{:#}", read(&folder(&format!("{{}}\n{LINE}\n"))).unwrap_err());
        assert!(damaged.contains("metrics.jsonl: line 1 "), "{damaged}");
    }

    #[test]
    fn a_loss_that_is_no_number_is_told_of() {
        let lost = "{\"epoch\":1,\"loss\":null}\n{\"epoch\":2,\"loss\":null}\n";
        let run = read(&folder(&format!("{LINE}\n{lost}"))).unwrap();
        assert_eq!(run.remarks, ["the loss of 2 epochs is no number, of epoch 1 first"]);
        assert_eq!(run.mean(|epoch| epoch.loss), Some(2.5));
    }

    #[test]
    fn folders_that_are_no_runs_are_refused_and_those_without_epochs_shown() {
        let empty = tempfile::tempdir().unwrap();
        assert!(read(&empty).unwrap_err().to_string().contains("no run.toml"));
        fs::write(empty.path().join(SETTINGS), "[package]\n").unwrap();
        assert!(read(&empty).unwrap_err().to_string().contains("not the settings of a run"));
        let run = folder("");
        assert!(read(&run).unwrap().remarks[0].contains("no epoch"));
        for (epochs, lines) in [(3, "3 epochs, and metrics.jsonl has 0 lines"), (1, "1 epoch, and")]
        {
            fs::write(run.path().join(SUMMARY), format!("{{\"epochs\":{epochs}}}")).unwrap();
            let read = read(&run).unwrap();
            assert_eq!((read.state, read.remarks.len()), (State::Finished, 1));
            assert!(read.remarks[0].contains(lines), "{:?}", read.remarks);
        }
        fs::write(run.path().join(METRICS), format!("{LINE}\n")).unwrap();
        assert!(read(&run).unwrap().remarks.is_empty(), "as many lines as epochs");
        fs::remove_file(run.path().join(SUMMARY)).unwrap();
        fs::remove_file(run.path().join(METRICS)).unwrap();
        assert!(read(&run).unwrap().remarks[0].contains("has no metrics.jsonl"));
        fs::write(run.path().join(SUMMARY), "{\"epochs\":").unwrap();
        assert!(format!("{:#}", read(&run).unwrap_err()).contains("summary.json"));
    }
}
