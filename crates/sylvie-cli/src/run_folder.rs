//! The folder that a run leaves behind.
//!
//! A run in a folder of its own writes there from the start. One that replaces another writes into
//! `.new` in that folder, and its files take their places when all of them are complete: until then the
//! old run is whole. A lock on the metrics tells a run that goes on from one that was killed.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use sylvie::data::shown;

use crate::aside;
use crate::checkpoint::{CHECKPOINTS, remove_all};
use crate::config;
use crate::settings::RunSettings;

mod open;

pub(crate) use open::OpenFolder;

/// Effective settings.
pub(crate) const SETTINGS: &str = "run.toml";
/// One JSON object an epoch.
pub(crate) const METRICS: &str = "metrics.jsonl";
/// One JSON object about the run.
pub(crate) const SUMMARY: &str = "summary.json";
/// The model with the best validation score.
pub(crate) const MODEL: &str = "model.safetensors";
/// All of them; the settings come last, so that what replaces them is there already.
const ALL: [&str; 4] = [MODEL, METRICS, SUMMARY, SETTINGS];
/// Where a run is written that will replace another.
pub(crate) const NEW: &str = ".new";

/// Whether a file that is there is one that a run has written, or is in one of its checkpoints.
pub(crate) fn is_file_of(run: &Path, path: &Path) -> bool {
    let is_own = ALL.iter().any(|name| aside::is_same(path, &run.join(name)));
    is_own || aside::is_among(path, &run.join(CHECKPOINTS))
}

/// A run folder that this run has taken, with provisional settings in it.
///
/// Dropped before [`RunFolder::begin`], it removes what it made and nothing else.
#[derive(Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
    /// Where the files are written.
    place: PathBuf,
    /// Folders that were made, in this order.
    made: Vec<PathBuf>,
    metrics: Option<File>,
    is_taken: bool,
}

impl RunFolder {
    /// Makes the folder where it is missing and takes it for a run with these settings.
    ///
    /// # Errors
    /// A folder that cannot be made or written to, or in which another run goes on. One that is not
    /// empty, unless it holds a run and `may_overwrite`.
    pub(crate) fn prepare(
        path: &Path,
        may_overwrite: bool,
        settings: &RunSettings,
    ) -> Result<Self> {
        let mut folder = Self {
            path: path.to_owned(),
            place: path.to_owned(),
            made: Vec::new(),
            metrics: None,
            is_taken: false,
        };
        let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
        ensure!(!is_link || path.exists(), "{}: a link that leads nowhere", shown(path));
        if !path.exists() {
            folder.make(path)?;
        }
        ensure!(path.is_dir(), "{}: not a folder", shown(path));
        if fs::read_dir(path).with_context(|| shown(path))?.next().is_some() {
            ensure!(
                may_overwrite,
                "{} is not empty; --overwrite replaces the run in it",
                shown(path)
            );
            check_replaceable(path, settings)?;
            folder.take_aside()?;
        }
        folder.take(settings)?;
        Ok(folder)
    }

    /// Makes `path` and the folders above it that are missing.
    fn make(&mut self, path: &Path) -> Result<()> {
        if let Some(parent) = path.parent()
            && !parent.as_os_str().is_empty()
            && !parent.exists()
        {
            self.make(parent)?;
        }
        match fs::create_dir(path) {
            Ok(()) => self.made.push(path.to_owned()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| shown(path)),
        }
        Ok(())
    }

    /// Makes the folder for the new run, or clears one that a killed run left.
    fn take_aside(&mut self) -> Result<()> {
        let place = self.path.join(NEW);
        self.make(&place)?;
        if self.made.is_empty() {
            let is_folder = fs::symlink_metadata(&place).is_ok_and(|found| found.is_dir());
            ensure!(is_folder, "{}: not a folder", shown(&place));
            check_idle(&place)?;
            for name in ALL {
                remove(&place.join(name)).with_context(|| shown(&place.join(name)))?;
            }
            let checkpoints = place.join(CHECKPOINTS);
            remove_all(&checkpoints).with_context(|| shown(&checkpoints))?;
            self.made.push(place.clone());
        }
        self.place = place;
        Ok(())
    }

    /// Writes the settings, which only one run can do, and opens and locks the metrics.
    fn take(&mut self, settings: &RunSettings) -> Result<()> {
        let path = self.place.join(SETTINGS);
        let mut file = match File::create_new(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                bail!("another run is being written to {}", shown(&self.place));
            }
            Err(error) => return Err(error).with_context(|| shown(&path)),
        };
        self.is_taken = true;
        file.write_all(settings.to_toml()?.as_bytes()).with_context(|| shown(&path))?;
        let path = self.place.join(METRICS);
        let metrics = File::create(&path).with_context(|| shown(&path))?;
        // Where there are no locks, nobody can be told that this run goes on.
        let _ = metrics.try_lock();
        self.metrics = Some(metrics);
        Ok(())
    }

    /// Where the files are written.
    pub(crate) fn place(&self) -> &Path {
        &self.place
    }

    /// Whether `path` is that of a file of the run, or of the folder of the next one.
    pub(crate) fn is_own(&self, path: &Path) -> bool {
        let names = || ALL.into_iter().chain([NEW]);
        let is_name = path.file_name().is_some_and(|name| names().any(|own| name == own));
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        is_name && [&self.path, &self.place].iter().any(|place| aside::is_same(place, parent))
    }

    /// Writes the settings as they are now, and hands over to the run.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn begin(mut self, settings: &RunSettings) -> Result<OpenFolder> {
        aside::write(&self.place.join(SETTINGS), settings.to_toml()?.as_bytes())?;
        let metrics = self.metrics.take().context("a folder is taken before a run begins")?;
        self.is_taken = false;
        self.made.clear();
        Ok(OpenFolder::begun(self.path.clone(), self.place.clone(), metrics))
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        // What cannot be removed stays and does no harm; folders go only when they are empty.
        if self.is_taken {
            let _ = remove(&self.place.join(METRICS));
            let _ = remove(&self.place.join(SETTINGS));
        }
        for path in self.made.iter().rev() {
            let _ = fs::remove_dir(path);
        }
    }
}

/// Removes a file if it is there.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Checks that the folder holds a run that is over, and nothing of its names but files, and not the
/// weights that the new run starts from.
fn check_replaceable(path: &Path, settings: &RunSettings) -> Result<()> {
    let is_run = config::read_table(&path.join(SETTINGS)).is_ok_and(|found| {
        let is_key = |key| found.contains_key(key);
        ["data", "model", "epochs", "seed"].into_iter().all(is_key)
    });
    ensure!(
        is_run,
        "{} is not empty and holds no {SETTINGS} of a run; --overwrite replaces runs only",
        shown(path)
    );
    for name in ALL {
        let path = path.join(name);
        let is_file = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
        ensure!(
            is_file || !is_there(&path),
            "{}: is no regular file and is not replaced",
            shown(&path)
        );
    }
    check_idle(path)?;
    if let Some(init) = &settings.init {
        let (init, folder) = (fs::canonicalize(init), fs::canonicalize(path));
        let is_inside =
            matches!((&init, &folder), (Ok(init), Ok(folder)) if init.starts_with(folder));
        ensure!(
            !is_inside,
            "--init takes its weights from {}, which --overwrite replaces; copy them elsewhere, or take \
             another --out",
            shown(path)
        );
    }
    Ok(())
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Checks that no run goes on in the folder.
///
/// # Errors
/// One that does.
pub(crate) fn check_idle(path: &Path) -> Result<()> {
    ensure!(!is_written_to(path), "another run is being written to {}", shown(path));
    Ok(())
}

/// Whether a run goes on in the folder.
pub(crate) fn is_written_to(path: &Path) -> bool {
    let metrics = path.join(METRICS);
    // What is no file, such as a pipe, is none of a run.
    if !fs::metadata(&metrics).is_ok_and(|found| found.is_file()) {
        return false;
    }
    let Ok(metrics) = File::open(metrics) else { return false };
    matches!(metrics.try_lock_shared(), Err(TryLockError::WouldBlock))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepare(path: &Path) -> Result<RunFolder> {
        RunFolder::prepare(path, false, &RunSettings::default())
    }

    fn replace(path: &Path) -> Result<RunFolder> {
        RunFolder::prepare(path, true, &RunSettings::default())
    }

    /// A run that is over, with a model of `text`.
    fn run(path: &Path, text: &str) {
        drop(prepare(path).unwrap().begin(&RunSettings::default()).unwrap());
        fs::write(path.join(MODEL), text).unwrap();
        fs::write(path.join(SUMMARY), text).unwrap();
    }

    fn contents(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let paths = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let files = paths.filter(|path| path.is_file());
        let mut files: Vec<_> = files.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
        files.sort();
        files
    }

    #[test]
    fn what_was_made_in_vain_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        fs::create_dir(parent.path().join("a")).unwrap();
        let path = parent.path().join("a/b/c");
        let folder = prepare(&path).unwrap();
        assert!(path.join(SETTINGS).exists() && path.join(METRICS).exists());
        drop(folder);
        assert!(parent.path().join("a").exists() && !parent.path().join("a/b").exists());

        let folder = prepare(&path).unwrap();
        fs::write(parent.path().join("a/b/note"), "mine").unwrap();
        drop(folder);
        assert!(!path.exists() && parent.path().join("a/b/note").exists());

        fs::create_dir(&path).unwrap();
        drop(prepare(&path).unwrap());
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);

        run(&path, "old");
        let before = contents(&path);
        drop(replace(&path).unwrap());
        assert_eq!(contents(&path), before);
        assert!(!path.join(NEW).exists());
    }

    #[test]
    fn one_run_at_a_time_is_written_to_a_folder() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("run");
        let refused = |path: &Path| {
            [prepare(path), replace(path)].map(|outcome| format!("{:#}", outcome.unwrap_err()))
        };
        let first = prepare(&path).unwrap();
        let [fresh, over] = refused(&path);
        assert!(fresh.contains("not empty") && over.contains("another run"), "{fresh}, {over}");
        let open = first.begin(&RunSettings::default()).unwrap();
        assert!(refused(&path)[1].contains("another run"));
        drop(open);

        let second = replace(&path).unwrap();
        assert!(refused(&path)[1].contains("another run"));
        let open = second.begin(&RunSettings::default()).unwrap();
        assert!(refused(&path)[1].contains("another run"));
        // What a killed run leaves is in nobody's way.
        drop(open);
        assert!(path.join(NEW).join(METRICS).exists());
        drop(replace(&path).unwrap());
        assert!(!path.join(NEW).exists());
    }

    #[test]
    fn only_runs_are_replaced() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("run");
        let refused = || format!("{:#}", replace(&path).unwrap_err());
        fs::create_dir(&path).unwrap();
        fs::write(path.join("note"), "mine").unwrap();
        assert!(refused().contains("no run.toml of a run"));
        fs::write(path.join(SETTINGS), "[package]").unwrap();
        assert!(refused().contains("no run.toml of a run"));
        fs::write(path.join(SETTINGS), RunSettings::default().to_toml().unwrap()).unwrap();
        fs::create_dir(path.join(MODEL)).unwrap();
        assert!(refused().contains("no regular file"));
        fs::remove_dir(path.join(MODEL)).unwrap();
        replace(&path).unwrap();
        assert!(path.join("note").exists());
    }

    #[test]
    fn weights_to_start_from_are_not_replaced() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("run");
        run(&path, "old");
        let init = path.join("../run").join(MODEL);
        let init = Some(init.display().to_string());
        let settings = RunSettings { init, ..RunSettings::default() };
        let error = RunFolder::prepare(&path, true, &settings).unwrap_err().to_string();
        assert!(error.contains("--init"), "{error}");
        RunFolder::prepare(&parent.path().join("other"), false, &settings).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn links_to_folders_are_followed() {
        let parent = tempfile::tempdir().unwrap();
        let (target, link) = (parent.path().join("target"), parent.path().join("link"));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let error = prepare(&link).unwrap_err().to_string();
        assert!(error.contains("leads nowhere"), "{error}");
        fs::create_dir(&target).unwrap();
        run(&link, "new");
        assert!(target.join(MODEL).exists());
    }
}
