//! Files that are read whole.

use std::io::Read as _;
use std::path::Path;

use crate::error::{DataError, Place};
use crate::file;

/// Reads a regular file of at most `max_bytes`.
///
/// # Errors
/// Nothing there, something other than a file, a larger one, or what the system says.
pub(crate) fn read_whole(path: &Path, max_bytes: u64) -> Result<Vec<u8>, DataError> {
    let mut bytes = Vec::new();
    let file = file::open(path)?;
    file.take(max_bytes + 1).read_to_end(&mut bytes).map_err(DataError::open(path))?;
    if bytes.len() as u64 > max_bytes {
        let (place, expected, found) = (Place::file(path), max_bytes, bytes.len() as u64);
        return Err(DataError::WrongLength { place, expected, found });
    }
    Ok(bytes)
}
