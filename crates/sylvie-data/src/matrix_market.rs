//! Sparse matrices in the coordinate form of Matrix Market, gzipped or not.
//!
//! A first line `%%MatrixMarket matrix coordinate FIELD SYMMETRY`, comments with `%`, a line with rows,
//! columns and entries, then one entry a line, numbered from 1.

use std::path::Path;

use sylvie_graph::SparseMatrix;

use crate::error::{DataError, Place};
use crate::sparse::check_n_rows;
use crate::text::{Line, Text, float, unsigned};

/// What entries say of those on the other side of the diagonal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Symmetry {
    General,
    /// Each entry stands for its mirror image too.
    Symmetric,
    /// The same, with the other sign.
    Skew,
}

/// The first lines of a file.
#[derive(Clone, Copy, Debug)]
struct Head {
    has_values: bool,
    symmetry: Symmetry,
    n_rows: usize,
    n_cols: usize,
    n_entries: u64,
}

impl Head {
    /// What the first line says; rows, columns and entries come later.
    fn banner(line: &Line<'_>) -> Result<Self, DataError> {
        let words: Vec<_> = line.fields().map(<[u8]>::to_ascii_lowercase).collect();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let [b"%%matrixmarket", b"matrix", b"coordinate", field, symmetry] = words[..] else {
            return Err(line.bad_line("`%%MatrixMarket matrix coordinate FIELD SYMMETRY`"));
        };
        let has_values = match field {
            b"pattern" => false,
            b"real" | b"double" | b"integer" => true,
            _ => return Err(line.bad(field, "real, double, integer or pattern")),
        };
        let symmetry = match symmetry {
            b"general" => Symmetry::General,
            b"symmetric" => Symmetry::Symmetric,
            b"skew-symmetric" => Symmetry::Skew,
            _ => return Err(line.bad(symmetry, "general, symmetric or skew-symmetric")),
        };
        Ok(Self { has_values, symmetry, n_rows: 0, n_cols: 0, n_entries: 0 })
    }

    fn set_size(&mut self, line: &Line<'_>) -> Result<(), DataError> {
        let numbers: Option<Vec<u64>> = line.fields().map(unsigned).collect();
        let Some(&[n_rows, n_cols, n_entries]) = numbers.as_deref() else {
            return Err(line.bad_line("rows, columns and entries"));
        };
        (self.n_rows, self.n_cols, self.n_entries) = (n_rows as usize, n_cols as usize, n_entries);
        if self.symmetry != Symmetry::General && n_rows != n_cols {
            return Err(line.bad_line("as many columns as rows, for a symmetric matrix,"));
        }
        Ok(())
    }
}

/// Reads the file; hands every entry, numbered from 0, to `take`, its mirror image too where there is one.
fn read(
    path: &Path,
    mut check: impl FnMut(&Head) -> Result<(), DataError>,
    mut take: impl FnMut(u32, u32, f32),
) -> Result<Head, DataError> {
    let mut head: Option<Head> = None;
    let (mut is_sized, mut n_found) = (false, 0);
    Text::open(path)?.for_each(|line| {
        let Some(head) = &mut head else {
            head = Some(Head::banner(&line)?);
            return Ok(());
        };
        if line.bytes[0] == b'%' {
            return Ok(());
        }
        if !is_sized {
            is_sized = true;
            head.set_size(&line)?;
            return check(head);
        }
        if n_found == head.n_entries {
            return Err(line.bad_line(format!("the end, after {n_found} entries,")));
        }
        n_found += 1;
        let mut fields = line.fields();
        let mut index = |what: &str, bound: usize| {
            let field = fields.next().unwrap_or_default();
            let number = unsigned(field).filter(|&number| number >= 1 && number <= bound as u64);
            let number = number.and_then(|number| u32::try_from(number - 1).ok());
            number.ok_or_else(|| line.bad(field, format!("a {what} from 1 to {bound}")))
        };
        let (row, col) = (index("row", head.n_rows)?, index("column", head.n_cols)?);
        let value = match (head.has_values, fields.next()) {
            (false, None) => 1.0,
            (true, Some(field)) => {
                float(field).ok_or_else(|| line.bad(field, "a finite number"))?
            }
            (false, Some(_)) => return Err(line.bad_line("a row and a column")),
            (true, None) => return Err(line.bad_line("a row, a column and a value")),
        };
        take(row, col, value);
        if row != col {
            match head.symmetry {
                Symmetry::General => {}
                Symmetry::Symmetric => take(col, row, value),
                Symmetry::Skew => take(col, row, -value),
            }
        }
        Ok(())
    })?;
    let place = Place::file(path);
    let Some(head) = head.filter(|_| is_sized) else {
        return Err(DataError::WrongCount { place, what: "matrices", expected: 1, found: 0 });
    };
    if n_found != head.n_entries {
        let (what, expected, found) = ("entries", head.n_entries, n_found);
        return Err(DataError::WrongCount { place, what, expected, found });
    }
    Ok(head)
}

/// Reads where a matrix of `n_nodes` rows and columns has entries. Their values are not looked at.
///
/// # Errors
/// A file that is no such matrix.
pub(crate) fn read_edges(path: &Path, n_nodes: usize) -> Result<Vec<(u32, u32)>, DataError> {
    let mut edges = Vec::new();
    let check = |head: &Head| {
        let found = vec![head.n_rows, head.n_cols];
        if found == [n_nodes, n_nodes] {
            return Ok(());
        }
        let expected = format!("{n_nodes} x {n_nodes}, by the rows of the features,");
        Err(DataError::WrongShape { place: Place::file(path), found, expected })
    };
    read(path, check, |row, col, _| edges.push((row, col)))?;
    Ok(edges)
}

/// Reads a matrix with its values; those of an entry that is given twice are added.
///
/// # Errors
/// A file that is no such matrix, or one with rows out of proportion to its entries.
pub(crate) fn read_sparse(path: &Path) -> Result<SparseMatrix, DataError> {
    let (mut rows, mut cols, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let head = read(
        path,
        |_| Ok(()),
        |row, col, value| {
            rows.push(row);
            cols.push(col);
            values.push(value);
        },
    )?;
    let place = Place::file(path);
    check_n_rows(&place, head.n_rows, rows.len())?;
    let mut indptr = vec![0_u64; head.n_rows + 1];
    for &row in &rows {
        indptr[row as usize + 1] += 1;
    }
    for row in 0..head.n_rows {
        indptr[row + 1] += indptr[row];
    }
    let mut next = indptr.clone();
    let (mut indices, mut data) = (vec![0_u32; cols.len()], vec![0.0_f32; cols.len()]);
    for ((&row, &col), &value) in rows.iter().zip(&cols).zip(&values) {
        let at = next[row as usize] as usize;
        (indices[at], data[at]) = (col, value);
        next[row as usize] += 1;
    }
    SparseMatrix::new(head.n_cols, &indptr, &indices, &data).map_err(DataError::graph(&place))
}
