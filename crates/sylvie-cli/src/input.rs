//! Files that are read whole.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

/// Reads a regular file. Others are not opened: a pipe would be waited for, a device read without end.
///
/// # Errors
/// Nothing there, something other than a file, or what the system says.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    ensure!(fs::metadata(path)?.is_file(), "not a regular file");
    Ok(fs::read(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "text").unwrap();
        assert_eq!(read(&path).unwrap(), b"text");
        for path in [folder.path(), Path::new("/dev/zero")] {
            assert!(read(path).unwrap_err().to_string().contains("not a regular file"));
        }
        assert!(read(&folder.path().join("none")).is_err());
    }
}
