//! Archives of npy arrays.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use zip::ZipArchive;
use zip::read::ZipFile;

use crate::error::{DataError, Place, escaped};
use crate::file;
use crate::npy::Npy;

/// Most bytes that one byte of deflate can stand for.
const MAX_EXPANSION: u64 = 1032;
/// Keys listed in a message.
const MAX_KEYS_NAMED: usize = 20;

/// An array inside an archive.
pub(crate) type Member<'a> = Npy<BufReader<ZipFile<'a, BufReader<File>>>>;

/// An npz whose table of contents is read. Members that nobody asks for, pickles among them, are
/// never touched.
pub(crate) struct Archive {
    path: PathBuf,
    n_bytes: u64,
    zip: ZipArchive<BufReader<File>>,
}

impl Archive {
    /// Reads the table of contents.
    ///
    /// # Errors
    /// No file, or no zip archive.
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        let file = file::open(path)?;
        let n_bytes = file.metadata().map_err(DataError::open(path))?.len();
        let zip = ZipArchive::new(BufReader::with_capacity(1 << 16, file))
            .map_err(|problem| DataError::Archive { path: path.to_owned(), problem })?;
        Ok(Self { path: path.to_owned(), n_bytes, zip })
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A key of this file, for messages.
    pub(crate) fn place(&self, key: &str) -> Place {
        Place::key(&self.path, key)
    }

    /// Whether there is such an array.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.zip.index_for_name_raw(format!("{key}.npy").as_bytes()).is_some()
    }

    /// The first of `keys` that is there.
    ///
    /// # Errors
    /// [`DataError::MissingKey`] with what is there instead.
    pub(crate) fn first_of<'k>(&self, keys: &[&'k str]) -> Result<&'k str, DataError> {
        keys.iter().copied().find(|key| self.has(key)).ok_or_else(|| self.missing(keys))
    }

    /// Opens an array.
    ///
    /// # Errors
    /// No such array; a header that does not match the member; a size beyond what deflate allows.
    pub(crate) fn npy(&mut self, key: &str) -> Result<Member<'_>, DataError> {
        let Some(index) = self.zip.index_for_name_raw(format!("{key}.npy").as_bytes()) else {
            return Err(self.missing(&[key]));
        };
        let place = self.place(key);
        let path = self.path.clone();
        let member =
            self.zip.by_index(index).map_err(|problem| DataError::Archive { path, problem })?;
        let (claimed, stored) = (member.size(), member.compressed_size().min(self.n_bytes));
        if claimed > stored.saturating_mul(MAX_EXPANSION) {
            return Err(DataError::ImpossibleSize { place, claimed, stored });
        }
        Npy::new(place, BufReader::with_capacity(1 << 16, member), claimed)
    }

    fn missing(&self, keys: &[&str]) -> DataError {
        let quoted: Vec<_> = keys.iter().map(|key| format!("`{key}`")).collect();
        let mut found: Vec<_> = self
            .zip
            .file_names_raw()
            .take(MAX_KEYS_NAMED)
            .map(|name| escaped(String::from_utf8_lossy(name).trim_end_matches(".npy")))
            .collect();
        if self.zip.len() > MAX_KEYS_NAMED {
            found.push("...".to_owned());
        }
        DataError::MissingKey {
            path: self.path.clone(),
            wanted: quoted.join(" or "),
            found: found.join(", "),
        }
    }
}
