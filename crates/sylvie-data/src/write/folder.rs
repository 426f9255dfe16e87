//! A folder that appears when it is whole.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::failed;
use crate::error::DataError;

/// A folder that is being written beside its place, and removed when it does not get there.
pub(super) struct NewFolder {
    place: PathBuf,
    aside: PathBuf,
    is_whole: bool,
}

impl NewFolder {
    /// Makes `place.new`.
    ///
    /// # Errors
    /// Something at `place` that is no empty folder, something at `place.new`, or what the system says.
    pub(super) fn create(place: &Path) -> Result<Self, DataError> {
        check_free(place)?;
        let mut name = place.file_name().map_or_else(OsString::new, OsString::from);
        name.push(".new");
        let aside = place.with_file_name(name);
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent).map_err(failed(parent))?;
        }
        match fs::create_dir(&aside) {
            Err(problem) if problem.kind() == io::ErrorKind::AlreadyExists => {
                let found = "another conversion is or was at work here; remove it if none is";
                return Err(DataError::Occupied { path: aside, found });
            }
            made => made.map_err(failed(&aside))?,
        }
        Ok(Self { place: place.to_owned(), aside, is_whole: false })
    }

    /// Where files go for the time being.
    pub(super) fn path(&self) -> &Path {
        &self.aside
    }

    /// Puts the folder in its place.
    ///
    /// # Errors
    /// What the system says; something that came there meanwhile.
    pub(super) fn commit(mut self) -> Result<(), DataError> {
        check_free(&self.place)?;
        // A folder takes the place of an empty one.
        fs::rename(&self.aside, &self.place).map_err(failed(&self.place))?;
        self.is_whole = true;
        Ok(())
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        if !self.is_whole {
            // What is left behind stands in nobody's way but the next conversion's, which says so.
            let _ = fs::remove_dir_all(&self.aside);
        }
    }
}

fn check_free(place: &Path) -> Result<(), DataError> {
    let occupied = |found| Err(DataError::Occupied { path: place.to_owned(), found });
    match fs::read_dir(place) {
        Ok(mut entries) => match entries.next() {
            Some(_) => occupied("a folder with files in it"),
            None => Ok(()),
        },
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(problem) if problem.kind() == io::ErrorKind::NotADirectory => occupied("a file"),
        Err(problem) => Err(failed(place)(problem)),
    }
}
