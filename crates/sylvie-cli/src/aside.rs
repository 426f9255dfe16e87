//! Files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use sylvie::data::shown;

/// Whether two paths lead to one file that is there.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}

/// Whether a file that is there is `input`, or lies in that folder.
pub(crate) fn is_among(path: &Path, input: &Path) -> bool {
    matches!((fs::canonicalize(path), fs::canonicalize(input)), (Ok(path), Ok(input)) if path.starts_with(&input))
}

/// Whether two paths lead to one place, where nothing need be yet.
pub(crate) fn is_same_place(one: &Path, other: &Path) -> bool {
    let parent = |path: &Path| {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        fs::canonicalize(parent.unwrap_or(Path::new(".")))
    };
    let is_beside = one.file_name() == other.file_name()
        && matches!((parent(one), parent(other)), (Ok(one), Ok(other)) if one == other);
    one == other || is_beside || is_same(one, other)
}

/// A file that is written under another name and renamed when it is complete.
///
/// Dropped before [`AsideFile::commit`], it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct AsideFile {
    writer: BufWriter<File>,
    aside: PathBuf,
    path: PathBuf,
    is_committed: bool,
}

impl AsideFile {
    /// Begins a file that will lie at `path`, or where the link at `path` leads; fails now if nothing
    /// can be written there.
    ///
    /// # Errors
    /// Something lies at `path` that is no regular file, or its folder cannot be written to.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let path = destination(path)?;
        let cannot = || format!("{}: cannot be written", shown(&path));
        let mut number = 0_u32;
        let (aside, file) = loop {
            // Short whatever the name is, and in the same folder, where renaming replaces at once.
            let aside =
                path.with_file_name(format!(".sylvie-{}-{number}.part", std::process::id()));
            match File::create_new(&aside) {
                Ok(file) => break (aside, file),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => {
                    number += 1;
                }
                Err(error) => return Err(error).with_context(cannot),
            }
        };
        let writer = BufWriter::with_capacity(1 << 20, file);
        Ok(Self { writer, aside, path, is_committed: false })
    }

    /// Brings the file to the disk and gives it its name, replacing the file that lay there.
    ///
    /// # Errors
    /// What the system says; something that is no regular file lies there by now.
    pub(crate) fn commit(mut self) -> Result<()> {
        let finish = |this: &mut Self| -> io::Result<()> {
            this.writer.flush()?;
            this.writer.get_ref().sync_all()
        };
        finish(&mut self).with_context(|| shown(&self.path))?;
        let path = destination(&self.path)?;
        fs::rename(&self.aside, path).with_context(|| shown(&self.path))?;
        self.is_committed = true;
        Ok(())
    }
}

/// Where a file of this name is: a new one, or a regular one, behind links or not. Anything else would
/// be gone if a file were renamed to it.
fn destination(path: &Path) -> Result<PathBuf> {
    let Ok(found) = fs::symlink_metadata(path) else {
        ensure!(path.file_name().is_some(), "{}: no name of a file", shown(path));
        return Ok(path.to_owned());
    };
    if !found.is_symlink() {
        check_regular(path, &found)?;
        return Ok(path.to_owned());
    }
    let target = fs::canonicalize(path)
        .with_context(|| format!("{}: a link that leads nowhere", shown(path)))?;
    let found = fs::metadata(&target).with_context(|| shown(path))?;
    check_regular(path, &found)?;
    Ok(target)
}

fn check_regular(path: &Path, found: &fs::Metadata) -> Result<()> {
    ensure!(!found.is_dir(), "{}: is a folder", shown(path));
    ensure!(found.is_file(), "{}: is no regular file and is not replaced", shown(path));
    Ok(())
}

impl Write for AsideFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for AsideFile {
    fn drop(&mut self) {
        if !self.is_committed {
            // The file is nobody's yet; one that cannot be removed does no harm.
            let _ = fs::remove_file(&self.aside);
        }
    }
}

/// Writes `bytes` to `path`, whole or not at all.
///
/// # Errors
/// As [`AsideFile::create`] and [`AsideFile::commit`].
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = AsideFile::create(path)?;
    file.write_all(bytes).with_context(|| shown(path))?;
    file.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_when_it_is_committed_and_only_then() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        let mut file = AsideFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(file);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

        write(&path, b"old").unwrap();
        write(&path, b"whole").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn two_files_at_once_and_long_names_do_not_meet() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [folder.path().join("a".repeat(250)), folder.path().join("b")];
        let files = paths.each_ref().map(|path| AsideFile::create(path).unwrap());
        for file in files {
            file.commit().unwrap();
        }
        assert!(paths.iter().all(|path| path.is_file()));
    }

    #[test]
    fn a_folder_cannot_be_replaced_nor_one_that_is_missing_be_written_to() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("missing/result")] {
            let error = AsideFile::create(&path).unwrap_err().to_string();
            assert!(error.starts_with(&path.display().to_string()), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_what_is_no_file_is_kept() {
        use std::os::unix::fs::{FileTypeExt as _, symlink};
        use std::os::unix::net::UnixListener;

        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("below");
        fs::create_dir(&below).unwrap();
        let (target, link) = (below.join("target"), folder.path().join("link"));
        fs::write(&target, "old").unwrap();
        symlink(&target, &link).unwrap();
        write(&link, b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"new");
        fs::remove_file(&target).unwrap();
        let error = write(&link, b"new").unwrap_err();
        assert!(format!("{error:#}").contains("leads nowhere"), "{error:#}");

        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let to_socket = folder.path().join("to-socket");
        symlink(&socket, &to_socket).unwrap();
        for path in [&socket, &to_socket] {
            let error = write(path, b"new").unwrap_err().to_string();
            assert!(error.contains("no regular file"), "{error}");
        }
        drop(listener);
        assert!(fs::symlink_metadata(&socket).unwrap().file_type().is_socket());

        // One that appears while the file is written is kept too.
        let late = folder.path().join("late");
        let file = AsideFile::create(&late).unwrap();
        let listener = UnixListener::bind(&late).unwrap();
        file.commit().unwrap_err();
        drop(listener);
        assert!(fs::symlink_metadata(&late).unwrap().file_type().is_socket());
    }
}
