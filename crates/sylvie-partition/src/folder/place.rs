//! A folder that appears whole or not at all.
//!
//! It is written beside its place, under the name with `.new`, and renamed when it is complete. One that
//! it replaces is first renamed to the name with `.old`, and removed at the end; who is killed between the
//! two leaves both, and the old one is put back by the next.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::error::{FolderError, FolderFault, io_at};
use super::manifest::{MANIFEST, Manifest, is_part_name};

/// Locked while a folder is written, so that one that goes on is told from one that was killed.
const LOCK: &str = "writing.lock";

/// What becomes of a partition that lies where another shall be written.
///
/// # Example
/// ```
/// use sylvie_partition::{About, Existing, FolderFault, NewFolder};
/// # use sylvie_graph::{Dataset, DenseMatrix, Direction, Features, Labels, Role, Split, clean_edges};
/// # use sylvie_partition::{Contiguous, Partitioner};
/// # let (graph, cleaning) = clean_edges(4, &[(0, 1), (1, 2), (2, 3)], Direction::Symmetric)?;
/// # let dataset = Dataset {
/// #     name: "path".to_owned(),
/// #     direction: Direction::Symmetric,
/// #     cleaning,
/// #     features: Features::Dense(DenseMatrix::new(4, 1, vec![0.0, 1.0, 2.0, 3.0])?),
/// #     labels: Labels::single(2, vec![0, 0, 1, 1])?,
/// #     split: Split::new(vec![Role::Train, Role::Val, Role::Test, Role::Train]),
/// #     graph,
/// # };
/// # let assignment = Contiguous.partition(&dataset.graph, &[true, false, false, true], 2)?;
/// # let folder = tempfile::tempdir()?;
/// # let dir = folder.path().join("path.parts");
/// # let about = About::default();
///
/// NewFolder::create(&dir, Existing::Keep)?.write(&dataset, &assignment, &about)?;
/// let refused = NewFolder::create(&dir, Existing::Keep).unwrap_err();
/// assert!(matches!(refused.fault, FolderFault::Exists));
/// NewFolder::create(&dir, Existing::Replace)?.write(&dataset, &assignment, &about)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and the other is refused.
    Keep,
    /// It is replaced, at the end.
    Replace,
}

/// A folder that is being written. Dropped before [`Place::commit`], it leaves nothing behind.
#[derive(Debug)]
pub(super) struct Place {
    /// Where it will lie.
    target: PathBuf,
    existing: Existing,
    /// Where it is written.
    aside: PathBuf,
    /// Folders above it that were made, in this order.
    made: Vec<PathBuf>,
    lock: Option<File>,
    is_committed: bool,
}

impl Place {
    /// Takes the place for a folder at `dir`, or where the link at `dir` leads.
    ///
    /// # Errors
    /// Something is there that shall not or cannot be replaced; another folder is being written there;
    /// what the system says.
    pub(super) fn take(dir: &Path, existing: Existing) -> Result<Self, FolderError> {
        let target = destination(dir)?;
        let (aside, old) = (beside(&target, ".new"), beside(&target, ".old"));
        let mut place =
            Self { target, existing, aside, made: Vec::new(), lock: None, is_committed: false };
        if let Some(parent) = place.target.parent() {
            make(parent, &mut place.made)?;
        }
        place.take_lock()?;
        if !place.target.exists() && Manifest::is_in(&old) {
            fs::rename(&old, &place.target).map_err(io_at(&place.target))?;
        }
        check_free(&place.target, existing)?;
        Ok(place)
    }

    /// Makes the folder to write in, or clears one that was left behind.
    fn take_lock(&mut self) -> Result<(), FolderError> {
        let path = self.aside.join(LOCK);
        match fs::create_dir(&self.aside) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                check_own(&self.aside)?;
            }
            Err(error) => return Err(io_at(&self.aside)(error)),
        }
        let lock = File::create(&path).map_err(io_at(&path))?;
        // Where there are no locks, nobody can be told that this one is written.
        if matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(FolderFault::Busy.at(&self.aside));
        }
        self.lock = Some(lock);
        remove_files(&self.aside, |name| name != LOCK).map_err(io_at(&self.aside))
    }

    /// The folder to write in.
    pub(super) fn aside(&self) -> &Path {
        &self.aside
    }

    /// Brings the folder to the disk and gives it its name, in the place of what lies there.
    ///
    /// # Errors
    /// Something else lies there by now; what the system says.
    pub(super) fn commit(mut self) -> Result<(), FolderError> {
        sync_folder(&self.aside)?;
        check_free(&self.target, self.existing)?;
        let old = beside(&self.target, ".old");
        let is_replacing = Manifest::is_in(&self.target);
        if is_replacing {
            // One of before that could not be removed.
            remove(&old)?;
            fs::rename(&self.target, &old).map_err(io_at(&self.target))?;
        } else if self.target.exists() {
            fs::remove_dir(&self.target).map_err(io_at(&self.target))?;
        }
        if cfg!(windows) {
            // There, a folder with an open file in it cannot be renamed.
            self.lock = None;
        }
        if let Err(error) = fs::rename(&self.aside, &self.target) {
            if is_replacing {
                // What was there comes back; if that fails too, the next to write puts it back.
                let _ = fs::rename(&old, &self.target);
            }
            return Err(io_at(&self.target)(error));
        }
        self.is_committed = true;
        // Only now: a folder without it, and not yet under its name, would be one that was left behind.
        let lock = self.target.join(LOCK);
        fs::remove_file(&lock).map_err(io_at(&lock))?;
        if let Some(parent) = self.target.parent() {
            sync_folder(parent)?;
        }
        if is_replacing { remove(&old) } else { Ok(()) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_committed {
            return;
        }
        // What cannot be removed stays and does no harm; folders go only when they are empty.
        if self.lock.take().is_some() {
            let _ = remove_files(&self.aside, |_| true);
            let _ = fs::remove_dir(&self.aside);
        }
        for path in self.made.iter().rev() {
            let _ = fs::remove_dir(path);
        }
    }
}

/// Where a folder of this name is or will be, with no link at its end.
fn destination(dir: &Path) -> Result<PathBuf, FolderError> {
    let Ok(found) = fs::symlink_metadata(dir) else {
        return match dir.file_name() {
            Some(_) => Ok(dir.to_owned()),
            None => Err(FolderFault::NoName.at(dir)),
        };
    };
    let target = fs::canonicalize(dir);
    if target.is_err() && found.is_symlink() {
        return Err(FolderFault::DanglingLink.at(dir));
    }
    let target = target.map_err(io_at(dir))?;
    if !target.is_dir() {
        return Err(FolderFault::NotAFolder.at(dir));
    }
    if target.file_name().is_none() {
        return Err(FolderFault::NoName.at(dir));
    }
    Ok(target)
}

/// `path` with `ending` added to its last name.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(ending);
    path.with_file_name(name)
}

/// Makes `path` and the folders above it that are missing.
fn make(path: &Path, made: &mut Vec<PathBuf>) -> Result<(), FolderError> {
    if path.as_os_str().is_empty() || path.exists() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make(parent, made)?;
    }
    match fs::create_dir(path) {
        Ok(()) => made.push(path.to_owned()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(io_at(path)(error)),
    }
    Ok(())
}

/// Checks that nothing lies at `path` but an empty folder, or a partition that may be replaced.
fn check_free(path: &Path, existing: Existing) -> Result<(), FolderError> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.is_dir() {
        return Err(FolderFault::NotAFolder.at(path));
    }
    if fs::read_dir(path).map_err(io_at(path))?.next().is_none() {
        return Ok(());
    }
    if existing == Existing::Keep {
        return Err(FolderFault::Exists.at(path));
    }
    if !Manifest::is_in(path) {
        return Err(FolderFault::NoManifest.at(path));
    }
    check_own(path)
}

/// Checks that a folder holds nothing but files of a partition.
fn check_own(path: &Path) -> Result<(), FolderError> {
    for entry in fs::read_dir(path).map_err(io_at(path))? {
        let entry = entry.map_err(io_at(path))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if !is_file || !is_own(&name) {
            return Err(FolderFault::NotReplaceable { found: name }.at(path));
        }
    }
    Ok(())
}

fn is_own(name: &str) -> bool {
    name == MANIFEST || name == LOCK || is_part_name(name)
}

/// Removes files of a partition, the manifest first, so that what is left is no partition.
fn remove_files(path: &Path, is_wanted: impl Fn(&str) -> bool) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.extend(entry?.file_name().into_string().ok());
    }
    names.retain(|name| is_own(name) && is_wanted(name));
    names.sort_by_key(|name| name != MANIFEST);
    names.iter().try_for_each(|name| fs::remove_file(path.join(name)))
}

/// Removes a partition, if there is one.
fn remove(path: &Path) -> Result<(), FolderError> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    check_own(path)?;
    remove_files(path, |_| true).and_then(|()| fs::remove_dir(path)).map_err(io_at(path))
}

/// Brings the names in a folder to the disk, where folders can be opened.
fn sync_folder(path: &Path) -> Result<(), FolderError> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    match File::open(path) {
        Ok(folder) => folder.sync_all().map_err(io_at(path)),
        Err(_) => Ok(()),
    }
}
