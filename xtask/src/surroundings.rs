//! What lies beside the repository on this machine: real graphs, and reference numbers.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

/// The variable that names the folder of real graphs, for `ci` and for the tests it starts.
pub(crate) const DATA_DIR: &str = "SYLVIE_DATA_DIR";
/// The variable that names a folder of reference cases, read instead of the repository's copies.
pub(crate) const REFERENCE_DIR: &str = "SYLVIE_REFERENCE_DIR";

/// The variable that names the launcher of an MPI library, to check ranks as processes with.
pub(crate) const MPI_LAUNCHER: &str = "SYLVIE_MPI_LAUNCHER";

/// What is outside the repository that more can be checked with.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    /// Real graphs.
    pub(crate) data: Option<PathBuf>,
    /// Reference cases of an independent implementation.
    pub(crate) reference: Option<PathBuf>,
    /// The launcher of an MPI library.
    pub(crate) mpi: Option<OsString>,
    /// Whether there is a Python to compare files with.
    pub(crate) has_python: bool,
}

impl Surroundings {
    /// Looks for the folders that `variable` names, or else beside the repository; Python is not looked for.
    ///
    /// # Errors
    /// A variable that is set and names no folder: a check that was asked for is never left out.
    pub(crate) fn find(
        root: &Path,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Surroundings> {
        let folder = |name: &str, beside: &str| match variable(name).filter(|path| !path.is_empty())
        {
            Some(path) => {
                let path = root.join(path);
                ensure!(path.is_dir(), "{name} is {}, which is not a folder", path.display());
                absolute(&path).map(Some)
            }
            None => {
                let path = root.join(beside);
                if path.is_dir() { absolute(&path).map(Some) } else { Ok(None) }
            }
        };
        Ok(Surroundings {
            data: folder(DATA_DIR, "../shared/data")?,
            reference: folder(REFERENCE_DIR, "../shared/reference/cases")?,
            mpi: variable(MPI_LAUNCHER).filter(|launcher| !launcher.is_empty()),
            has_python: false,
        })
    }
}

impl fmt::Display for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = |is_there: bool| if is_there { "with" } else { "without" };
        let (data, reference) = (found(self.data.is_some()), found(self.reference.is_some()));
        let (mpi, python) = (found(self.mpi.is_some()), found(self.has_python));
        write!(
            f,
            "{data} real data, {reference} outside reference cases, {mpi} MPI, {python} Python"
        )
    }
}

/// Tests run in their own crate's folder, where a relative path would name something else.
fn absolute(path: &Path) -> Result<PathBuf> {
    path.canonicalize().with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn nothing_beside_the_repository_is_no_error() {
        let above = tempfile::tempdir().unwrap();
        let found = Surroundings::find(&above.path().join("repository"), |_| None).unwrap();
        assert_eq!((found.data, found.reference), (None, None));
    }

    #[test]
    fn folders_beside_the_repository_are_found() {
        let above = tempfile::tempdir().unwrap();
        let root = above.path().join("repository");
        let data = above.path().join("shared/data");
        fs::create_dir(&root).unwrap();
        fs::create_dir_all(&data).unwrap();
        let found = Surroundings::find(&root, |_| None).unwrap();
        assert_eq!(found.data, Some(data.canonicalize().unwrap()));
        assert_eq!(found.reference, None);
    }

    #[test]
    fn a_variable_comes_before_the_folder_beside_and_must_name_a_folder() {
        let above = tempfile::tempdir().unwrap();
        let root = above.path().join("repository");
        fs::create_dir_all(root.join("graphs")).unwrap();
        fs::create_dir_all(above.path().join("shared/data")).unwrap();
        let graphs = |name: &str| (name == DATA_DIR).then(|| OsString::from("graphs"));
        let found = Surroundings::find(&root, graphs).unwrap();
        assert_eq!(found.data, Some(root.join("graphs").canonicalize().unwrap()));

        let missing = |name: &str| (name == DATA_DIR).then(|| OsString::from("nowhere"));
        let error = Surroundings::find(&root, missing).unwrap_err().to_string();
        assert!(error.contains(DATA_DIR) && error.contains("nowhere"), "{error}");
    }
}
