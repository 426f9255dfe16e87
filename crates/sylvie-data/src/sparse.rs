//! Sparse matrices as files hold them.

use sylvie_graph::{Features, GraphError, SparseMatrix};

use crate::error::{DataError, Place};
use crate::npy::Array;
use crate::npz::Archive;

/// Cells that any sparse matrix may take when dense.
const MIN_DENSE_CELLS: u128 = 1 << 24;
/// Cells a stored value that a sparse matrix may take when dense.
const MAX_CELLS_PER_STORED: u128 = 1 << 16;

/// Rows that any sparse matrix may have.
const MIN_ROWS: usize = 1 << 20;
/// Rows a stored value that a sparse matrix may have.
const MAX_ROWS_PER_STORED: usize = 1 << 6;

/// The positions of a sparse matrix's stored values.
pub(crate) struct Entries {
    pub(crate) n_rows: usize,
    pub(crate) n_cols: usize,
    pub(crate) pairs: Vec<(u32, u32)>,
}

/// Reads where the CSR matrix under `prefix` (`adj_`, `adj_matrix.`) stores values. The values
/// themselves are not looked at: a stored zero is an edge too.
pub(crate) fn read_csr_entries(archive: &mut Archive, prefix: &str) -> Result<Entries, DataError> {
    let (n_rows, n_cols) = read_extents(archive, &format!("{prefix}shape"))?;
    let pairs = read_compressed(archive, prefix, n_rows)?;
    Ok(Entries { n_rows, n_cols, pairs })
}

/// Reads where a matrix that `scipy.sparse.save_npz` wrote stores values: csr, csc or coo.
pub(crate) fn read_scipy_entries(archive: &mut Archive) -> Result<Entries, DataError> {
    let format = archive.npy("format")?.text()?;
    let (n_rows, n_cols) = read_extents(archive, "shape")?;
    let pairs = match format.as_str() {
        "csr" => read_compressed(archive, "", n_rows)?,
        "csc" => {
            let transposed = read_compressed(archive, "", n_cols)?;
            transposed.into_iter().map(|(col, row)| (row, col)).collect()
        }
        "coo" => {
            let rows = archive.npy("row")?.dims(1)?.ids()?;
            let cols = archive.npy("col")?.dims(1)?.ids()?;
            cols.expect_rows(rows.values.len(), "as many as `row` has")?;
            rows.values.into_iter().zip(cols.values).collect()
        }
        _ => {
            let (place, value) = (archive.place("format"), format!("`{format}`"));
            let expected = "csr, csc or coo".to_owned();
            return Err(DataError::BadValue { place, position: 0, value, expected });
        }
    };
    Ok(Entries { n_rows, n_cols, pairs })
}

/// Reads the CSR matrix under `prefix`, values and all. Columns may be in any order.
pub(crate) fn read_csr_matrix(
    archive: &mut Archive,
    prefix: &str,
) -> Result<SparseMatrix, DataError> {
    let (n_rows, n_cols) = read_extents(archive, &format!("{prefix}shape"))?;
    let indptr = archive.npy(&format!("{prefix}indptr"))?.dims(1)?.offsets()?;
    let indices = archive.npy(&format!("{prefix}indices"))?.dims(1)?.ids()?;
    let data = archive.npy(&format!("{prefix}data"))?.dims(1)?.floats()?;
    check_offsets(&indptr, n_rows, indices.values.len())?;
    data.expect_rows(indices.values.len(), "as many as the column indices")?;
    SparseMatrix::new(n_cols, &indptr.values, &indices.values, &data.values)
        .map_err(DataError::graph(&indices.place))
}

/// Checks that features are finite numbers and that there are any.
pub(crate) fn check_features(place: &Place, features: Features) -> Result<Features, DataError> {
    if features.n_cols() == 0 {
        let (place, found) = (place.clone(), vec![features.n_rows(), 0]);
        let expected = "at least one column".to_owned();
        return Err(DataError::WrongShape { place, found, expected });
    }
    features.check_finite().map_err(DataError::graph(place))?;
    Ok(features)
}

/// Refuses to write out the zeros of a matrix that is almost nothing but zeros: its extents come
/// from a file, and memory must stay in proportion to what the file holds.
pub(crate) fn check_density(
    place: &Place,
    n_rows: usize,
    n_cols: usize,
    n_stored: usize,
) -> Result<(), DataError> {
    let allowed = MIN_DENSE_CELLS.max(n_stored as u128 * MAX_CELLS_PER_STORED);
    if n_rows as u128 * n_cols as u128 > allowed {
        return Err(DataError::TooSparse { place: place.clone(), n_rows, n_cols, n_stored });
    }
    Ok(())
}

/// Refuses a matrix of which nearly every row is empty: the rows are a number in a file, and each takes
/// memory.
pub(crate) fn check_n_rows(place: &Place, n_rows: usize, n_stored: usize) -> Result<(), DataError> {
    if n_rows > MIN_ROWS.max(n_stored.saturating_mul(MAX_ROWS_PER_STORED)) {
        let (value, expected) = (format!("{n_rows} rows"), format!("fewer for {n_stored} values"));
        return Err(DataError::BadValue { place: place.clone(), position: 0, value, expected });
    }
    Ok(())
}

/// Positions of a matrix of which `indptr.npy` and `indices.npy` are read already.
pub(crate) fn compressed_pairs(
    indptr: &Array<u64>,
    indices: &Array<u32>,
    n_rows: usize,
) -> Result<Vec<(u32, u32)>, DataError> {
    check_offsets(indptr, n_rows, indices.values.len())?;
    if n_rows >= u32::MAX as usize {
        let problem = GraphError::TooManyNodes { n_nodes: n_rows };
        return Err(DataError::Graph { place: indptr.place.clone(), problem });
    }
    let mut pairs = Vec::with_capacity(indices.values.len());
    for (row, ends) in (0_u32..).zip(indptr.values.windows(2)) {
        let columns = &indices.values[ends[0] as usize..ends[1] as usize];
        pairs.extend(columns.iter().map(|&column| (row, column)));
    }
    Ok(pairs)
}

fn read_compressed(
    archive: &mut Archive,
    prefix: &str,
    n_rows: usize,
) -> Result<Vec<(u32, u32)>, DataError> {
    let indptr = archive.npy(&format!("{prefix}indptr"))?.dims(1)?.offsets()?;
    let indices = archive.npy(&format!("{prefix}indices"))?.dims(1)?.ids()?;
    compressed_pairs(&indptr, &indices, n_rows)
}

fn read_extents(archive: &mut Archive, key: &str) -> Result<(usize, usize), DataError> {
    let extents = archive.npy(key)?.dims(1)?.offsets()?;
    let &[n_rows, n_cols] = &extents.values[..] else {
        let expected = "two extents".to_owned();
        return Err(DataError::WrongShape { place: extents.place, found: extents.shape, expected });
    };
    Ok((n_rows as usize, n_cols as usize))
}

/// Offsets that begin at 0, never fall, and end at the number of indices.
fn check_offsets(indptr: &Array<u64>, n_rows: usize, n_indices: usize) -> Result<(), DataError> {
    if n_rows.checked_add(1) != Some(indptr.values.len()) {
        let expected = format!("{n_rows} rows and one more");
        let (place, found) = (indptr.place.clone(), indptr.shape.clone());
        return Err(DataError::WrongShape { place, found, expected });
    }
    let bad = |position: usize, expected: String| DataError::BadValue {
        place: indptr.place.clone(),
        position,
        value: indptr.values[position].to_string(),
        expected,
    };
    if indptr.values[0] != 0 {
        return Err(bad(0, "a first row offset of 0".to_owned()));
    }
    if let Some(position) = indptr.values.windows(2).position(|pair| pair[0] > pair[1]) {
        let expected = format!("a row offset of at least {}", indptr.values[position]);
        return Err(bad(position + 1, expected));
    }
    if indptr.values[n_rows] != n_indices as u64 {
        return Err(bad(
            n_rows,
            format!("a last row offset of {n_indices}, the indices there are"),
        ));
    }
    Ok(())
}
