//! Data sets written in the layouts that others read too.

mod arrays;
mod folder;
mod graphsaint;
mod npy;
mod npz;
mod ogb;
mod reddit;

use std::io;
use std::path::Path;

use sylvie_graph::{Csr, Dataset, Direction, Features};

use crate::error::{DataError, Place};
use crate::options::Format;
use crate::sparse::check_density;
use folder::NewFolder;

/// The formats that [`write()`] knows, for messages.
pub const WRITE_CHOICES: &str = "arrays|ogb|graphsaint|reddit";

/// Writes `dataset` as the folder `out`, in `format`: arrays, ogb (as text), graphsaint or reddit.
///
/// What [`read`](crate::read) gives for the folder is the data set again, with these exceptions: sparse
/// features become dense; `graphsaint` numbers classes anew, by those that there are; in formats that do not
/// say so, edges that were kept one way are to be read so.
///
/// # Layout
/// Numbers are little-endian; indices have 32 bits where that is enough, features 32-bit floats.
/// # Cost
/// Linear in the data set and in what is written. Memory: besides the data set, a transposed copy of a
/// directed graph, and a row of features.
/// # Errors
/// A format that is only read, or that has no place for such labels; features too empty to be written out
/// with their zeros; a folder that holds something already; what the system says.
/// # Example
/// ```
/// use sylvie_data::{Format, ReadOptions, read, write};
///
/// let options = ReadOptions::default();
/// let dataset = read("synthetic:nodes=500", &options)?;
/// # let scratch = tempfile::tempdir().expect("a scratch folder");
/// # let folder = scratch.path().join("copy");
/// write(&dataset, Format::Ogb, &folder)?;
/// let copy = read(folder.to_str().expect("a path in UTF-8"), &options)?;
/// assert_eq!((copy.graph, copy.split), (dataset.graph, dataset.split));
/// # Ok::<(), sylvie_data::DataError>(())
/// ```
pub fn write(dataset: &Dataset, format: Format, out: &Path) -> Result<(), DataError> {
    let writer: fn(&Dataset, &Path) -> Result<(), DataError> = match format {
        Format::Arrays => arrays::write,
        Format::Ogb => ogb::write,
        Format::GraphSaint => graphsaint::write,
        Format::Reddit => reddit::write,
        _ => {
            let (what, given, choices) = ("format to write", format.to_string(), WRITE_CHOICES);
            return Err(DataError::UnknownWord { what, given, choices });
        }
    };
    if let Features::Sparse(matrix) = &dataset.features {
        check_density(&Place::file(out), matrix.n_rows(), matrix.n_cols(), matrix.n_stored())?;
    }
    let folder = NewFolder::create(out)?;
    writer(dataset, folder.path())?;
    folder.commit()
}

/// For `map_err`: a failure to write `path`.
fn failed(path: &Path) -> impl Fn(io::Error) -> DataError {
    move |problem| DataError::Write { place: Place::file(path), problem }
}

/// The adjacency as files have it: column `j` in row `i` is an edge from `i` to `j`.
fn stored_adjacency(dataset: &Dataset) -> std::borrow::Cow<'_, Csr> {
    match dataset.direction {
        Direction::Symmetric => std::borrow::Cow::Borrowed(&dataset.graph),
        Direction::Directed => std::borrow::Cow::Owned(dataset.graph.transpose()),
    }
}

/// Hands every row of features, zeros and all, to `take`.
fn each_row(features: &Features, mut take: impl FnMut(&[f32]) -> io::Result<()>) -> io::Result<()> {
    match features {
        Features::Dense(matrix) => (0..matrix.n_rows()).try_for_each(|row| take(matrix.row(row))),
        Features::Sparse(matrix) => {
            let mut dense = vec![0.0; matrix.n_cols()];
            for row in 0..matrix.n_rows() {
                let (columns, values) = matrix.row(row);
                for (&column, &value) in columns.iter().zip(values) {
                    dense[column as usize] = value;
                }
                take(&dense)?;
                for &column in columns {
                    dense[column as usize] = 0.0;
                }
            }
            Ok(())
        }
    }
}
