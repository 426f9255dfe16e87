//! A strict reader of the pickles that Planetoid sets are made of.
//!
//! A pickle is a program for a stack machine that may call anything. This one knows the 26 opcodes and
//! six globals of those files, calls nothing, and keeps what it reads as plain values in one list, so that
//! memory is a multiple of the file and nothing is walked recursively.

mod machine;

use std::path::Path;

use sylvie_graph::SparseMatrix;

use crate::error::DataError;
use crate::input;
use machine::{Global, Machine, Object, Value};

/// Largest file taken; those of the largest set that is widely used have 10 MB.
const MAX_BYTES: u64 = 1 << 28;

/// A pickle that was read whole.
pub(crate) struct Pickle {
    machine: Machine,
    top: Value,
}

/// A matrix of numbers, row after row.
pub(crate) struct Table {
    pub(crate) n_rows: usize,
    pub(crate) n_cols: usize,
    pub(crate) values: Vec<f64>,
}

impl Pickle {
    /// Reads the file.
    ///
    /// # Errors
    /// Anything but the opcodes and globals of Planetoid's files, with the byte at which it stands.
    pub(crate) fn read(path: &Path) -> Result<Self, DataError> {
        let bytes = input::read_whole(path, MAX_BYTES)?;
        let mut machine = Machine::new(bytes);
        let top = machine.run().map_err(|fault| DataError::Pickle {
            path: path.to_owned(),
            at: fault.at,
            problem: fault.problem,
        })?;
        Ok(Self { machine, top })
    }

    /// The sparse matrix that it holds.
    ///
    /// # Errors
    /// Something else, or arrays that are no sparse matrix together.
    pub(crate) fn sparse(&self, path: &Path) -> Result<SparseMatrix, DataError> {
        let bad = |problem: &str| self.bad(path, problem);
        let Some(Object::Instance { class: Global::CsrMatrix, state }) = self.object(self.top)
        else {
            return Err(bad("no csr_matrix"));
        };
        let Some(Object::Dict(entries)) = self.object(*state) else {
            return Err(bad("a csr_matrix without its arrays"));
        };
        let entry = |key: &str| {
            let found = entries.iter().find(|(name, _)| self.text(*name) == Some(key.as_bytes()));
            found
                .map(|&(_, value)| value)
                .ok_or_else(|| bad(&format!("a csr_matrix without {key}")))
        };
        let shape = self.numbers(entry("_shape")?).filter(|shape| shape.len() == 2);
        let shape = shape.ok_or_else(|| bad("a csr_matrix whose shape is not two numbers"))?;
        let vector = |key: &str| {
            let table = self.table_of(path, entry(key)?)?;
            if table.n_cols == 1 {
                Ok(table.values)
            } else {
                Err(bad("an array of two dimensions"))
            }
        };
        let numbers = |key: &str| {
            let from = |value: f64| (value >= 0.0 && value.fract() == 0.0).then_some(value as u64);
            let numbers: Option<Vec<u64>> = vector(key)?.into_iter().map(from).collect();
            numbers.ok_or_else(|| bad(&format!("{key} with other things than numbers from 0")))
        };
        let indptr = numbers("indptr")?;
        let indices = numbers("indices")?.into_iter().map(|column| u32::try_from(column).ok());
        let indices: Option<Vec<u32>> = indices.collect();
        let indices = indices.ok_or_else(|| bad("column numbers beyond 32 bits"))?;
        let data = vector("data")?.into_iter().map(|value| value as f32).collect::<Vec<_>>();
        if usize::try_from(shape[0]).ok().and_then(|n_rows| n_rows.checked_add(1))
            != Some(indptr.len())
        {
            return Err(bad("a csr_matrix with other rows than its shape says"));
        }
        let n_cols = usize::try_from(shape[1]).map_err(|_| bad("a shape below 0"))?;
        SparseMatrix::new(n_cols, &indptr, &indices, &data)
            .map_err(DataError::graph(&crate::Place::file(path)))
    }

    /// The array that it holds, of two dimensions.
    ///
    /// # Errors
    /// Something else.
    pub(crate) fn table(&self, path: &Path) -> Result<Table, DataError> {
        self.table_of(path, self.top)
    }

    /// The lists of numbers that it holds, by node.
    ///
    /// # Errors
    /// Something other than a map from node numbers to lists of them.
    pub(crate) fn lists(&self, path: &Path) -> Result<Vec<(u32, Vec<u32>)>, DataError> {
        let Some(Object::Dict(entries)) = self.object(self.top) else {
            return Err(self.bad(path, "no map"));
        };
        let node = |value: i64| u32::try_from(value).ok();
        let entry = |&(key, list): &(Value, Value)| {
            let Value::Int(key) = key else { return None };
            let ends = self.numbers(list)?.into_iter().map(node).collect::<Option<Vec<u32>>>()?;
            Some((node(key)?, ends))
        };
        let lists: Option<Vec<_>> = entries.iter().map(entry).collect();
        lists.ok_or_else(|| self.bad(path, "a map of other things than lists of node numbers"))
    }

    fn table_of(&self, path: &Path, value: Value) -> Result<Table, DataError> {
        let Some(Object::Array { shape, dtype, is_fortran, bytes }) = self.object(value) else {
            return Err(self.bad(path, "no array"));
        };
        let bytes = &self.machine.bytes()[bytes.clone()];
        let (n_rows, n_cols) = match shape[..] {
            [n_rows] => (n_rows, 1),
            [n_rows, n_cols] => (n_rows, n_cols),
            _ => return Err(self.bad(path, "an array of neither one nor two dimensions")),
        };
        // That the bytes are as many as the shape says was seen when the array was built.
        let stored = dtype.decode(bytes);
        let values = if *is_fortran {
            (0..n_rows)
                .flat_map(|row| (0..n_cols).map(move |col| col * n_rows + row))
                .map(|at| stored[at])
                .collect()
        } else {
            stored
        };
        Ok(Table { n_rows, n_cols, values })
    }

    fn object(&self, value: Value) -> Option<&Object> {
        match value {
            Value::Object(at) => Some(self.machine.object(at)),
            _ => None,
        }
    }

    fn text(&self, value: Value) -> Option<&[u8]> {
        match value {
            Value::Text { begin, end } => Some(&self.machine.bytes()[begin..end]),
            _ => None,
        }
    }

    /// The integers of a tuple or list.
    fn numbers(&self, value: Value) -> Option<Vec<i64>> {
        let (Object::Tuple(items) | Object::List(items)) = self.object(value)? else { return None };
        let number = |item: &Value| match *item {
            Value::Int(number) => Some(number),
            _ => None,
        };
        items.iter().map(number).collect()
    }

    fn bad(&self, path: &Path, problem: &str) -> DataError {
        let at = self.machine.bytes().len();
        DataError::Pickle { path: path.to_owned(), at, problem: problem.to_owned() }
    }
}
