//! The run folder of a run that is under way: epochs as they end, results at the end.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use sylvie::data::shown;

use super::{ALL, METRICS, MODEL, NEW, SETTINGS, SUMMARY, remove};
use crate::aside;
use crate::checkpoint::{CHECKPOINTS, Resumable, remove_all};
use crate::metrics::EpochLine;
use crate::settings::RunSettings;
use crate::summary::Summary;

/// The run folder of a run that is under way.
#[derive(Debug)]
pub(crate) struct OpenFolder {
    path: PathBuf,
    place: PathBuf,
    metrics: File,
}

impl OpenFolder {
    /// A run in the folder `place`, which will lie at `path`, with nothing in its metrics yet.
    pub(super) fn begun(path: PathBuf, place: PathBuf, metrics: File) -> Self {
        Self { path, place, metrics }
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
            "{}: the run has gone on meanwhile, to {newest} epochs; start again",
            shown(folder)
        );
        let text = fs::read_to_string(&path).with_context(|| shown(&path))?;
        let (mut lines, mut length, mut is_ended) = (Vec::new(), 0, true);
        for (number, line) in text.split_inclusive('\n').take(n_epochs as usize).enumerate() {
            let parsed: EpochLine = serde_json::from_str(line)
                .with_context(|| format!("{}: line {}", shown(&path), number + 1))?;
            ensure!(
                parsed.epoch() as usize == number,
                "{}: line {} is of epoch {}",
                shown(&path),
                number + 1,
                parsed.epoch()
            );
            lines.push(parsed);
            length += line.len() as u64;
            is_ended = line.ends_with('\n');
        }
        ensure!(
            lines.len() == n_epochs as usize,
            "{}: {} epochs, but the checkpoint comes after {n_epochs}",
            shown(&path),
            lines.len()
        );
        let cut = metrics.set_len(length).and_then(|()| metrics.seek(SeekFrom::End(0)));
        // A line whose end is missing must not run into the next.
        let ended = cut.and_then(|_| if is_ended { Ok(()) } else { metrics.write_all(b"\n") });
        ended.with_context(|| shown(&path))?;
        aside::write(&folder.join(SETTINGS), settings.to_toml()?.as_bytes())?;
        // It says that the run is over, which it is not any more.
        remove(&folder.join(SUMMARY)).with_context(|| shown(&folder.join(SUMMARY)))?;
        let is_new = folder.file_name().is_some_and(|name| name == NEW);
        let parent = folder.parent().filter(|parent| is_new && parent.join(SETTINGS).is_file());
        let path = parent.unwrap_or(folder).to_owned();
        Ok((Self { path, place: folder.to_owned(), metrics }, lines))
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
    /// What the system says.
    pub(crate) fn epoch(&mut self, line: &EpochLine) -> Result<()> {
        let text = serde_json::to_string(line)? + "\n";
        let written = self.metrics.write_all(text.as_bytes());
        written.with_context(|| shown(&self.place.join(METRICS)))
    }

    /// Writes what is known at the end, `model` being the bytes of its file, and replaces the run that
    /// is to be replaced.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn finish(&self, summary: &Summary, model: &[u8]) -> Result<()> {
        aside::write(&self.place.join(MODEL), model)?;
        let text = serde_json::to_string_pretty(summary)? + "\n";
        aside::write(&self.place.join(SUMMARY), text.as_bytes())?;
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
