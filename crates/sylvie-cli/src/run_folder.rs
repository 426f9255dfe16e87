//! The folder that a run leaves behind.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use sylvie::gnn::ModelConfig;

use crate::aside::{self, AsideFile};
use crate::metrics::EpochLine;
use crate::model_file;
use crate::settings::RunSettings;
use crate::summary::Summary;

/// Effective settings.
pub(crate) const SETTINGS: &str = "run.toml";
/// One JSON object an epoch.
const METRICS: &str = "metrics.jsonl";
/// One JSON object about the run.
const SUMMARY: &str = "summary.json";
/// The model with the best validation score.
pub(crate) const MODEL: &str = "model.safetensors";

/// A run folder in which nothing has been written yet.
///
/// Dropped before [`RunFolder::begin`], it removes the folder that it made.
#[derive(Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
    is_new: bool,
}

impl RunFolder {
    /// Makes the folder and makes sure that it can be written to.
    ///
    /// # Errors
    /// A folder that cannot be made or written to, or that holds something already unless
    /// `may_overwrite`.
    pub(crate) fn prepare(path: &Path, may_overwrite: bool) -> Result<Self> {
        let named = || path.display().to_string();
        let is_new = !path.exists();
        if is_new {
            fs::create_dir_all(path).with_context(named)?;
        }
        let folder = Self { path: path.to_owned(), is_new };
        let is_empty = fs::read_dir(path).with_context(named)?.next().is_none();
        ensure!(
            is_empty || may_overwrite,
            "{} is not empty; --overwrite replaces the run in it",
            path.display()
        );
        drop(AsideFile::create(&path.join(SETTINGS))?);
        Ok(folder)
    }

    /// Removes what an earlier run left, writes the settings and opens the metrics.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn begin(mut self, settings: &RunSettings) -> Result<OpenFolder> {
        for name in [SETTINGS, METRICS, SUMMARY, MODEL] {
            let path = self.path.join(name);
            if path.symlink_metadata().is_ok() {
                fs::remove_file(&path).with_context(|| path.display().to_string())?;
            }
        }
        aside::write(&self.path.join(SETTINGS), settings.to_toml()?.as_bytes())?;
        let metrics_path = self.path.join(METRICS);
        let metrics =
            File::create(&metrics_path).with_context(|| metrics_path.display().to_string())?;
        self.is_new = false;
        Ok(OpenFolder { path: self.path.clone(), metrics })
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if self.is_new {
            // Only an empty folder goes, and one that stays does no harm.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// The run folder of a run that is under way.
#[derive(Debug)]
pub(crate) struct OpenFolder {
    path: PathBuf,
    metrics: File,
}

impl OpenFolder {
    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds an epoch; it is in the file when this returns.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn epoch(&mut self, line: &EpochLine) -> Result<()> {
        let text = serde_json::to_string(line)? + "\n";
        let written = self.metrics.write_all(text.as_bytes());
        written.with_context(|| self.path.join(METRICS).display().to_string())
    }

    /// Writes what is known at the end.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn finish(
        &self,
        summary: &Summary,
        model: &ModelConfig,
        weights: &[Vec<f32>],
    ) -> Result<()> {
        let bytes = model_file::to_bytes(model, weights)?;
        aside::write(&self.path.join(MODEL), &bytes)?;
        let text = serde_json::to_string_pretty(summary)? + "\n";
        aside::write(&self.path.join(SUMMARY), text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_was_made_in_vain_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("runs/first");
        drop(RunFolder::prepare(&path, false).unwrap());
        assert!(!path.exists());

        fs::create_dir_all(&path).unwrap();
        drop(RunFolder::prepare(&path, false).unwrap());
        assert!(path.exists());
    }

    #[test]
    fn only_what_a_run_leaves_is_overwritten_and_only_when_it_may_be() {
        let folder = tempfile::tempdir().unwrap();
        let (note, summary) = (folder.path().join("note"), folder.path().join(SUMMARY));
        fs::write(&note, "mine").unwrap();
        fs::write(&summary, "old").unwrap();
        let error = RunFolder::prepare(folder.path(), false).unwrap_err().to_string();
        assert!(error.contains("--overwrite"), "{error}");
        assert!(summary.exists());

        let prepared = RunFolder::prepare(folder.path(), true).unwrap();
        assert!(summary.exists());
        prepared.begin(&RunSettings::default()).unwrap();
        assert!(note.exists() && !summary.exists());
    }
}
