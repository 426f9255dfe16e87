//! Files and folders, told apart before they are opened: a pipe would be waited for, a device read
//! without end.

use std::fs::{self, File, FileType};
use std::path::Path;

use crate::error::DataError;

/// Opens a regular file.
///
/// # Errors
/// Nothing there, something other than a file, or what the system says.
pub(crate) fn open(path: &Path) -> Result<File, DataError> {
    let file_type = fs::metadata(path).map_err(DataError::open(path))?.file_type();
    if !file_type.is_file() {
        return Err(wrong_kind(path, file_type, "a file"));
    }
    File::open(path).map_err(DataError::open(path))
}

/// Checks that a folder lies at `path`.
///
/// # Errors
/// Nothing there, or something other than a folder.
pub(crate) fn expect_folder(path: &Path) -> Result<(), DataError> {
    let file_type = fs::metadata(path).map_err(DataError::open(path))?.file_type();
    if file_type.is_dir() { Ok(()) } else { Err(wrong_kind(path, file_type, "a folder")) }
}

fn wrong_kind(path: &Path, found: FileType, expected: &'static str) -> DataError {
    let found = match found {
        found if found.is_dir() => "a folder",
        found if found.is_file() => "a file",
        _ => "a device, pipe or socket",
    };
    DataError::WrongKind { path: path.to_owned(), found, expected }
}
