//! The run folder of a run that is under way: epochs as they end, results at the end.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Error, Result, ensure};
use sylvie::data::shown;

use super::{ALL, METRICS, MODEL, NEW, SETTINGS, SUMMARY, remove};
use crate::checkpoint::{CHECKPOINTS, Resumable, remove_all, remove_unfinished, way_on};
use crate::console::counted;
use crate::metrics::{EpochLine, EpochsBefore};
use crate::settings::RunSettings;
use crate::summary::Summary;
use crate::{aside, usage};

/// The run folder of a run that is under way.
#[derive(Debug)]
pub(crate) struct OpenFolder {
    path: PathBuf,
    place: PathBuf,
    metrics: File,
    /// Epochs that are whole in it, and what they take there.
    n_epochs: u32,
    n_bytes: u64,
}

impl OpenFolder {
    /// A run in the folder `place`, which will lie at `path`, with nothing in its metrics yet.
    pub(super) fn begun(path: PathBuf, place: PathBuf, metrics: File) -> Self {
        Self { path, place, metrics, n_epochs: 0, n_bytes: 0 }
    }

    /// Takes a folder whose run has a checkpoint after `n_epochs` epochs, to go on with it; gives what
    /// is known of those epochs.
    ///
    /// What the run wrote of later epochs is cut off: they come again.
    ///
    /// # Errors
    /// A run that goes on; epochs that are not those of the checkpoint; what the system says.
    pub(crate) fn reopen(
        folder: &Path,
        settings: &RunSettings,
        n_epochs: u32,
    ) -> Result<(Self, Vec<EpochLine>)> {
        let path = folder.join(METRICS);
        let found = fs::metadata(&path).with_context(|| shown(&path))?;
        ensure!(found.is_file(), "{}: is no regular file", shown(&path));
        let metrics = OpenOptions::new().read(true).write(true).open(&path);
        let mut metrics = metrics.with_context(|| shown(&path))?;
        let is_locked = matches!(metrics.try_lock(), Err(TryLockError::WouldBlock));
        ensure!(!is_locked, "another run is being written to {}", shown(folder));
        let newest = Resumable::find(folder)?.n_epochs();
        ensure!(
            newest == n_epochs,
            "{}: the run has gone on meanwhile, to {}; start again",
            shown(folder),
            counted(newest, "epoch")
        );
        let EpochsBefore { lines, n_bytes, is_ended } = EpochsBefore::read(&path, n_epochs)?;
        let cut = metrics.set_len(n_bytes).and_then(|()| metrics.seek(SeekFrom::End(0)));
        // A line whose end is missing must not run into the next.
        let ended = cut.and_then(|_| if is_ended { Ok(()) } else { metrics.write_all(b"\n") });
        ended.with_context(|| shown(&path))?;
        // What a full disk or a kill left of a checkpoint is of no use, and takes up room.
        remove_unfinished(folder)?;
        aside::write(&folder.join(SETTINGS), settings.to_toml()?.as_bytes())?;
        // It says that the run is over, which it is not any more.
        remove(&folder.join(SUMMARY)).with_context(|| shown(&folder.join(SUMMARY)))?;
        let is_new = folder.file_name().is_some_and(|name| name == NEW);
        let parent = folder.parent().filter(|parent| is_new && parent.join(SETTINGS).is_file());
        let path = parent.unwrap_or(folder).to_owned();
        let n_bytes = n_bytes + u64::from(!is_ended);
        Ok((Self { path, place: folder.to_owned(), metrics, n_epochs, n_bytes }, lines))
    }

    /// Where files are written while the run goes on.
    pub(crate) fn place(&self) -> &Path {
        &self.place
    }

    /// Where the run lies at its end.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where it lies until then, if that is another place.
    pub(crate) fn place_until_the_end(&self) -> Option<&Path> {
        (self.place != self.path).then_some(&*self.place)
    }

    /// Adds an epoch; it is in the file when this returns.
    ///
    /// # Errors
    /// What the system says, and what is left of the run; the file then ends with the epoch before.
    pub(crate) fn epoch(&mut self, line: &EpochLine) -> Result<()> {
        let text = serde_json::to_string(line)? + "\n";
        if let Err(error) = self.metrics.write_all(text.as_bytes()) {
            // A piece of a line is of no use. Where it cannot be cut off, whoever reads on leaves it out.
            let _ = self.metrics.set_len(self.n_bytes);
            let path = shown(&self.place.join(METRICS));
            return Err(Error::msg(format!("{path}: {error}; {}", self.kept())));
        }
        self.n_bytes += text.len() as u64;
        self.n_epochs += 1;
        Ok(())
    }

    /// What is left of the run, were it to end here.
    fn kept(&self) -> String {
        if let Some(way) = way_on(&self.place) {
            return way;
        }
        let figures = counted(self.n_epochs, "epoch");
        let weights = if self.place.join(MODEL).is_file() {
            format!("in {MODEL} beside them")
        } else {
            "lost, for there is no checkpoint; --checkpoint-every leaves some on the way".to_owned()
        };
        let metrics = shown(&self.place.join(METRICS));
        format!("the figures of {figures} are in {metrics}, and the weights are {weights}")
    }

    /// Writes what is known at the end, `model` being the bytes of its file, and replaces the run that
    /// is to be replaced.
    ///
    /// # Errors
    /// What the system says, and what is left of the run.
    pub(crate) fn finish(&self, summary: &Summary, model: &[u8]) -> Result<()> {
        let text = serde_json::to_string_pretty(summary)? + "\n";
        for (name, bytes) in [(MODEL, model), (SUMMARY, text.as_bytes())] {
            aside::write(&self.place.join(name), bytes).map_err(|error| {
                Error::msg(format!("{}; {}", usage::causes(&error), self.kept()))
            })?;
        }
        if self.place_until_the_end().is_none() {
            return Ok(());
        }
        self.metrics.sync_all().with_context(|| shown(&self.place.join(METRICS)))?;
        // First, so that no run ever has another's.
        let old = self.path.join(CHECKPOINTS);
        remove_all(&old).with_context(|| shown(&old))?;
        for name in ALL {
            let path = self.path.join(name);
            fs::rename(self.place.join(name), &path).with_context(|| shown(&path))?;
        }
        let new = self.place.join(CHECKPOINTS);
        if new.is_dir() {
            fs::rename(&new, &old).with_context(|| shown(&old))?;
        }
        // A file of somebody else's in it is kept with it.
        let _ = fs::remove_dir(&self.place);
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The device is always full.
    #[test]
    fn a_full_disk_is_told_with_what_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut open = OpenFolder {
            n_epochs: 1,
            ..OpenFolder::begun(place.to_owned(), place.to_owned(), full)
        };
        let line = serde_json::from_str(&crate::metrics::sample(1)).unwrap();
        let error = format!("{:#}", open.epoch(&line).unwrap_err());
        assert!(
            error.contains("metrics.jsonl: No space left") && error.ends_with(&open.kept()),
            "{error}"
        );
        assert_eq!(open.n_epochs, 1, "what is not written does not count");
        let said = || open.kept();
        assert!(said().starts_with("the figures of 1 epoch are in "), "{}", said());
        assert!(
            said().contains("metrics.jsonl, and the weights are lost, for there is no checkpoint")
        );
        fs::write(place.join(MODEL), "whole").unwrap();
        assert!(said().ends_with("the weights are in model.safetensors beside them"), "{}", said());
        fs::create_dir_all(place.join("checkpoints/epoch-000002")).unwrap();
        let way = format!(
            "`sylvie train --resume {}` goes on from the checkpoint after 2 epochs",
            shown(place)
        );
        assert!(said().starts_with(&way), "{}", said());
    }
}
