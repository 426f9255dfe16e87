//! Rows added where they belong.

use super::CpuMatrix;
use super::kernels::add_scaled;
use super::threads::{CHUNK_ROWS, Threads};

pub(super) fn scatter_add(threads: &Threads, x: &CpuMatrix, rows: &[u32], out: &mut CpuMatrix) {
    let width = x.n_cols();
    assert_eq!(rows.len(), x.n_rows(), "places and rows to add");
    assert_eq!(width, out.n_cols(), "widths of rows added");
    if width == 0 {
        return;
    }
    match ascending_ranges(rows, CHUNK_ROWS, out.shape(), out.values_mut()) {
        Some(ranges) => threads.each(ranges, |_, range| {
            for (i, &row) in (range.first..).zip(range.rows) {
                let offset = (row as usize - range.first_row) * width;
                add_scaled(1.0, x.row(i), &mut range.out[offset..offset + width]);
            }
        }),
        None => {
            let out_rows = out.n_rows();
            for (i, &row) in rows.iter().enumerate() {
                let row = row as usize;
                assert!(row < out_rows, "row {row} of a matrix of {out_rows} rows");
                add_scaled(1.0, x.row(i), &mut out.values_mut()[row * width..(row + 1) * width]);
            }
        }
    }
}

/// Consecutive entries of a list of rows, with the part of the output that holds those rows.
pub(super) struct RowRange<'a> {
    /// Place of the first entry in the list.
    pub(super) first: usize,
    /// The entries.
    pub(super) rows: &'a [u32],
    /// Row of the whole output that `out` begins with.
    pub(super) first_row: usize,
    pub(super) out: &'a mut [f32],
}

/// Cuts a list of rows that ascend into ranges of `step` that share no row of `out`; `None` unless they
/// ascend.
///
/// # Panics
/// If a row is not below the number of rows of `out`.
pub(super) fn ascending_ranges<'a>(
    rows: &'a [u32],
    step: usize,
    (n_rows, width): (usize, usize),
    mut out: &'a mut [f32],
) -> Option<Vec<RowRange<'a>>> {
    if !rows.is_sorted_by(|a, b| a < b) {
        return None;
    }
    if let Some(&last) = rows.last() {
        assert!((last as usize) < n_rows, "row {last} of a matrix of {n_rows} rows");
    }
    let mut ranges = Vec::with_capacity(rows.len().div_ceil(step));
    let mut first_row = 0;
    for (index, range) in rows.chunks(step).enumerate() {
        let end = range.last().map_or(first_row, |&last| last as usize + 1);
        let (head, tail) = out.split_at_mut((end - first_row) * width);
        ranges.push(RowRange { first: index * step, rows: range, first_row, out: head });
        (out, first_row) = (tail, end);
    }
    Some(ranges)
}
