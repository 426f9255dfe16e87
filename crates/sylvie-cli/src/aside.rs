//! Files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

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
    /// Begins a file that will lie at `path`; fails now if nothing can be written there.
    ///
    /// # Errors
    /// `path` is a folder, or its folder cannot be written to.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let name = path.file_name().filter(|_| !path.is_dir());
        let name = name.with_context(|| format!("{}: is a folder", path.display()))?;
        let mut aside_name = std::ffi::OsString::from(".");
        aside_name.push(name);
        aside_name.push(format!(".{}.part", std::process::id()));
        let aside = path.with_file_name(aside_name);
        let file = File::create(&aside)
            .with_context(|| format!("{}: cannot be written", path.display()))?;
        let writer = BufWriter::with_capacity(1 << 20, file);
        Ok(Self { writer, aside, path: path.to_owned(), is_committed: false })
    }

    /// Brings the file to the disk and gives it its name, replacing what lay there.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn commit(mut self) -> Result<()> {
        let finish = |this: &mut Self| -> io::Result<()> {
            this.writer.flush()?;
            this.writer.get_ref().sync_all()?;
            fs::rename(&this.aside, &this.path)
        };
        finish(&mut self).with_context(|| self.path.display().to_string())?;
        self.is_committed = true;
        Ok(())
    }
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
    file.write_all(bytes).with_context(|| path.display().to_string())?;
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
    fn a_folder_cannot_be_replaced_nor_one_that_is_missing_be_written_to() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("missing/result")] {
            let error = AsideFile::create(&path).unwrap_err().to_string();
            assert!(error.starts_with(&path.display().to_string()), "{error}");
        }
    }
}
