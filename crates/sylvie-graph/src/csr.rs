//! Sparse structure without values: 32-bit columns, 64-bit row offsets.

use std::ops::Range;

use rayon::prelude::*;
use sprs::CsStructureI;

use crate::error::GraphError;

/// A sparse 0/1 matrix in compressed rows; the adjacency of a graph or of one block of it.
///
/// # Layout
/// `n_rows + 1` offsets of 64 bits, then one 32-bit column a non-zero, strictly ascending in a row.
/// No values are stored.
///
/// # Example
/// ```
/// use sylvie_graph::Csr;
///
/// // Row 0 reads nodes 1 and 2; row 2 reads node 0.
/// let graph = Csr::from_pairs(3, 3, &[(0, 2), (2, 0), (0, 1)])?;
/// assert_eq!((graph.row(0), graph.degree(1)), (&[1, 2][..], 0));
/// assert_eq!(graph.indptr(), [0, 2, 2, 3]);
/// assert_eq!(graph.transpose().row(0), [2]);
/// assert_eq!(graph.induced(&[true, false, true]).n_edges(), 2);
/// # Ok::<(), sylvie_graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Csr {
    structure: CsStructureI<u32, u64>,
}

impl Csr {
    /// Takes offsets and columns as they are.
    ///
    /// # Errors
    /// Offsets that do not fit the indices, an index not below `n_cols`, a row that is not strictly
    /// ascending, more rows or columns than 32 bits name.
    ///
    /// # Example
    /// ```
    /// use sylvie_graph::{Csr, GraphError};
    ///
    /// let graph = Csr::new(3, vec![0, 2, 2, 3], vec![1, 2, 0])?;
    /// assert_eq!(graph, Csr::from_pairs(3, 3, &[(0, 1), (0, 2), (2, 0)])?);
    /// let refused = Csr::new(3, vec![0, 2, 2, 3], vec![2, 1, 0]);
    /// assert_eq!(refused, Err(GraphError::UnsortedRow { row: 0 }));
    /// # Ok::<(), GraphError>(())
    /// ```
    pub fn new(n_cols: usize, indptr: Vec<u64>, indices: Vec<u32>) -> Result<Self, GraphError> {
        check_offsets(&indptr, indices.len())?;
        let n_rows = indptr.len() - 1;
        check_n_nodes(n_rows)?;
        check_n_nodes(n_cols)?;
        for row in 0..n_rows {
            let (begin, end) = (indptr[row] as usize, indptr[row + 1] as usize);
            if indices[begin..end].windows(2).any(|pair| pair[0] >= pair[1]) {
                return Err(GraphError::UnsortedRow { row });
            }
        }
        if let Some(position) = indices.iter().position(|&c| c as usize >= n_cols) {
            let index = u64::from(indices[position]);
            return Err(GraphError::IndexOutOfRange { position, index, bound: n_cols });
        }
        Ok(Self::from_parts(n_rows, n_cols, indptr, indices))
    }

    /// Collects `(row, column)` pairs in any order; repeated pairs count once.
    ///
    /// # Cost
    /// Linear in pairs and rows, plus sorting each row.
    /// # Errors
    /// [`GraphError::IndexOutOfRange`] with the first pair outside `n_rows x n_cols`.
    pub fn from_pairs(
        n_rows: usize,
        n_cols: usize,
        pairs: &[(u32, u32)],
    ) -> Result<Self, GraphError> {
        Self::from_pair_iter(n_rows, n_cols, pairs.iter().copied())
    }

    /// [`Csr::from_pairs`] of what need not lie in memory; gone through twice.
    pub(crate) fn from_pair_iter(
        n_rows: usize,
        n_cols: usize,
        pairs: impl Iterator<Item = (u32, u32)> + Clone,
    ) -> Result<Self, GraphError> {
        check_n_nodes(n_rows)?;
        check_n_nodes(n_cols)?;
        let mut offsets = vec![0_u64; n_rows + 1];
        for (position, (row, column)) in pairs.clone().enumerate() {
            for (index, bound) in [(row, n_rows), (column, n_cols)] {
                if index as usize >= bound {
                    let index = u64::from(index);
                    return Err(GraphError::IndexOutOfRange { position, index, bound });
                }
            }
            offsets[row as usize + 1] += 1;
        }
        for row in 0..n_rows {
            offsets[row + 1] += offsets[row];
        }
        let mut next = offsets.clone();
        let mut columns = vec![0_u32; offsets[n_rows] as usize];
        for (row, column) in pairs {
            columns[next[row as usize] as usize] = column;
            next[row as usize] += 1;
        }
        drop(next);
        sort_rows(&offsets, &mut columns);
        let indptr = drop_repeated(&offsets, &mut columns);
        Ok(Self::from_parts(n_rows, n_cols, indptr, columns))
    }

    fn from_parts(n_rows: usize, n_cols: usize, indptr: Vec<u64>, indices: Vec<u32>) -> Self {
        let values = vec![(); indices.len()];
        Self { structure: CsStructureI::new((n_rows, n_cols), indptr, indices, values) }
    }

    /// Number of rows.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.structure.rows()
    }

    /// Number of columns.
    #[must_use]
    pub fn n_cols(&self) -> usize {
        self.structure.cols()
    }

    /// Number of non-zeros; for a graph, of directed edges.
    #[must_use]
    pub fn n_edges(&self) -> usize {
        self.structure.nnz()
    }

    /// Row offsets, `n_rows + 1` of them.
    #[must_use]
    pub fn indptr(&self) -> &[u64] {
        // An owned matrix starts at offset 0: its stored offsets are the proper ones.
        self.structure.indptr().into_raw_storage()
    }

    /// Column indices of all rows.
    #[must_use]
    pub fn indices(&self) -> &[u32] {
        self.structure.indices()
    }

    /// Column indices of one row, ascending.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn row(&self, row: usize) -> &[u32] {
        let indptr = self.indptr();
        &self.indices()[indptr[row] as usize..indptr[row + 1] as usize]
    }

    /// Number of non-zeros in a row; for a graph, the in-degree.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn degree(&self, row: usize) -> u32 {
        // A row holds distinct 32-bit columns, so its length fits.
        (self.indptr()[row + 1] - self.indptr()[row]) as u32
    }

    /// Rows and columns exchanged.
    ///
    /// # Cost
    /// Linear in rows, columns and non-zeros.
    #[must_use]
    pub fn transpose(&self) -> Self {
        Self { structure: self.structure.to_csc().transpose_into() }
    }

    /// Whether each edge has its inverse.
    #[must_use]
    pub fn is_symmetric(&self) -> bool {
        self.n_rows() == self.n_cols() && *self == self.transpose()
    }

    /// All non-zeros of both matrices.
    ///
    /// # Panics
    /// If the shapes differ.
    ///
    /// # Example
    /// ```
    /// use sylvie_graph::Csr;
    ///
    /// let graph = Csr::from_pairs(3, 3, &[(0, 1), (1, 2)])?;
    /// let both_ways = graph.union(&graph.transpose());
    /// assert_eq!((both_ways.row(1), both_ways.is_symmetric()), (&[0, 2][..], true));
    /// # Ok::<(), sylvie_graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        assert_eq!(self.structure.shape(), other.structure.shape(), "shapes of a union");
        let n_rows = self.n_rows();
        // Counted first, so that rows are written to where they belong, by all threads.
        let mut indptr = vec![0_u64; n_rows + 1];
        indptr[1..].par_iter_mut().enumerate().for_each(|(row, length)| {
            *length = count_merged(self.row(row), other.row(row));
        });
        for row in 0..n_rows {
            indptr[row + 1] += indptr[row];
        }
        let mut indices = vec![0_u32; indptr[n_rows] as usize];
        rows_in_pieces(&indptr, &mut indices).into_par_iter().for_each(|(rows, mut piece)| {
            for row in rows {
                let length = (indptr[row + 1] - indptr[row]) as usize;
                let (merged, rest) = piece.split_at_mut(length);
                merge_sorted(self.row(row), other.row(row), merged);
                piece = rest;
            }
        });
        Self::from_parts(n_rows, self.n_cols(), indptr, indices)
    }

    /// The edges between members, under the same node numbers; rows of other nodes are empty.
    ///
    /// # Panics
    /// If `members` does not have one entry a node, or the matrix is not square.
    #[must_use]
    pub fn induced(&self, members: &[bool]) -> Self {
        assert_eq!(self.n_rows(), self.n_cols(), "rows and columns of a graph");
        assert_eq!(members.len(), self.n_rows(), "members of a graph");
        let mut indptr = Vec::with_capacity(self.n_rows() + 1);
        let mut indices = Vec::new();
        indptr.push(0);
        for row in 0..self.n_rows() {
            if members[row] {
                indices.extend(self.row(row).iter().copied().filter(|&c| members[c as usize]));
            }
            indptr.push(indices.len() as u64);
        }
        Self::from_parts(self.n_rows(), self.n_cols(), indptr, indices)
    }
}

pub(crate) fn check_n_nodes(n_nodes: usize) -> Result<(), GraphError> {
    // u32::MAX itself is kept free: it marks absent labels.
    if n_nodes >= u32::MAX as usize {
        return Err(GraphError::TooManyNodes { n_nodes });
    }
    Ok(())
}

pub(crate) fn check_offsets(indptr: &[u64], n_indices: usize) -> Result<(), GraphError> {
    let bad = |position: usize| GraphError::BadOffset {
        position,
        offset: indptr.get(position).copied().unwrap_or(0),
        n_indices,
    };
    if indptr.first() != Some(&0) {
        return Err(bad(0));
    }
    if let Some(position) = indptr.windows(2).position(|pair| pair[0] > pair[1]) {
        return Err(bad(position + 1));
    }
    if indptr[indptr.len() - 1] != n_indices as u64 {
        return Err(bad(indptr.len() - 1));
    }
    Ok(())
}

/// Columns that a thread takes at once, or a row of more.
const PIECE_COLUMNS: u64 = 1 << 16;

/// Cuts the columns into pieces of whole rows.
fn rows_in_pieces<'a>(
    offsets: &[u64],
    mut columns: &'a mut [u32],
) -> Vec<(Range<usize>, &'a mut [u32])> {
    let n_rows = offsets.len() - 1;
    let mut pieces = Vec::new();
    let mut begin = 0;
    for row in 0..n_rows {
        let length = offsets[row + 1] - offsets[begin];
        if length >= PIECE_COLUMNS || row + 1 == n_rows {
            let (piece, rest) = columns.split_at_mut(length as usize);
            pieces.push((begin..row + 1, piece));
            columns = rest;
            begin = row + 1;
        }
    }
    pieces
}

fn sort_rows(offsets: &[u64], columns: &mut [u32]) {
    rows_in_pieces(offsets, columns).into_par_iter().for_each(|(rows, mut piece)| {
        for row in rows {
            let (columns, rest) = piece.split_at_mut((offsets[row + 1] - offsets[row]) as usize);
            // Files are sorted more often than not.
            if !columns.is_sorted() {
                columns.sort_unstable();
            }
            piece = rest;
        }
    });
}

/// Moves distinct columns of sorted rows together; gives back where rows begin then.
fn drop_repeated(offsets: &[u64], columns: &mut Vec<u32>) -> Vec<u64> {
    let mut indptr = Vec::with_capacity(offsets.len());
    let mut n_kept = 0;
    indptr.push(0);
    for ends in offsets.windows(2) {
        let row_start = n_kept;
        for position in ends[0] as usize..ends[1] as usize {
            let column = columns[position];
            if n_kept == row_start || columns[n_kept - 1] != column {
                columns[n_kept] = column;
                n_kept += 1;
            }
        }
        indptr.push(n_kept as u64);
    }
    columns.truncate(n_kept);
    columns.shrink_to_fit();
    indptr
}

fn count_merged(mut left: &[u32], mut right: &[u32]) -> u64 {
    let mut n_distinct = 0;
    while let (Some(&l), Some(&r)) = (left.first(), right.first()) {
        n_distinct += 1;
        left = &left[usize::from(l <= r)..];
        right = &right[usize::from(r <= l)..];
    }
    n_distinct + (left.len() + right.len()) as u64
}

/// Fills `out`, which is as long as [`count_merged`] says.
fn merge_sorted(mut left: &[u32], mut right: &[u32], out: &mut [u32]) {
    for slot in out {
        let l = left.first().copied().unwrap_or(u32::MAX);
        let r = right.first().copied().unwrap_or(u32::MAX);
        *slot = l.min(r);
        left = &left[usize::from(l <= r && !left.is_empty())..];
        right = &right[usize::from(r <= l && !right.is_empty())..];
    }
}
