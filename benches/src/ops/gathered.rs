//! Sums over neighbours of rows in fewer bytes: bf16, and rows as their codec packed them.

use anyhow::{Context as _, Result};
use sylvie::lowbit::{RowCodec, Width};
use sylvie::random::{Coordinates, Stream};
use sylvie::tensor::{Backend, CpuBackend, CpuMatrix, CpuPacked, SumFactors, Wire};

use super::{Bench, Operation, Work, operation};

/// Rate of dropout.
const RATE: f32 = 0.5;

impl Bench<'_> {
    /// Sums that follow those of f32 rows.
    pub(super) fn gathered(&self) -> Result<Vec<Operation<'_>>> {
        let mut operations = self.rounded();
        operations.extend(self.packed()?);
        Ok(operations)
    }

    /// Work of a sum over all edges of rows of `x` at so many bits a value and so many bytes a row besides,
    /// where matrices as large as `x` are moved in order, too, as often as `n_moved` says.
    fn narrow_sum(&self, n_bits: usize, row_bytes: usize, n_moved: f64) -> Work {
        let f32_rows = self.sum(&self.x);
        let values = f32_rows.gathered_bytes[0] * n_bits as f64 / 32.0;
        Work {
            streamed_bytes: f32_rows.streamed_bytes + n_moved * Self::bytes(&self.x, 1),
            gathered_bytes: [values + (self.n_edges * row_bytes) as f64, 0.0],
            ..f32_rows
        }
    }

    fn rounded(&self) -> Vec<Operation<'_>> {
        let Self { rounding, edges, x, factors, .. } = self;
        let sums = SumFactors { column: Some(factors), own: Some(factors), row: Some(factors) };
        let back = SumFactors { row: None, ..sums };
        let plain = SumFactors { column: None, own: None, row: Some(factors) };
        let n = x.n_rows();
        // They are read once and written in half.
        let work = || self.narrow_sum(16, 0, 1.5);
        vec![
            operation("sum of bf16 rows, GCN", work(), move || {
                rounding.aggregated(edges, sums, x, n);
            }),
            operation("sum of bf16 rows, SAGE", work(), move || {
                rounding.aggregated(edges, plain, x, n);
            }),
            operation("its backward of bf16 rows, GCN", work(), move || {
                rounding.aggregated_transposed(edges, back, x, n);
            }),
        ]
    }

    fn message(&self, codec: RowCodec) -> Result<Vec<u8>> {
        let draws = Coordinates::new(1, Stream::Rounding).family();
        let message = self.backend.encode_all_rows(codec, &self.x, &self.keys, draws, Vec::new());
        message.context("rows that are encoded")
    }

    fn packed(&self) -> Result<Vec<Operation<'_>>> {
        let Self { backend, x, keys, .. } = self;
        let shape = (x.n_rows(), x.n_cols());
        let draws = Coordinates::new(1, Stream::Dropout).family();
        let one = RowCodec::new(Width::One);
        let message = self.message(one)?;
        let (held, decoded) = (message.clone(), backend.zeros(shape.0, shape.1));
        let rows = backend.packed_rows(one, &message, shape)?;
        let dropped = backend.packed_dropped(RATE, draws, keys, &rows);
        let to_drop = rows.clone();
        let mut operations = vec![
            operation("decoding 1-bit rows", self.coded(32), {
                let mut decoded = decoded;
                move || drop(backend.decode_rows(one, &message, &mut decoded))
            }),
            operation("keeping 1-bit rows packed", self.coded(1), move || {
                drop(backend.packed_rows(one, &held, shape));
            }),
            operation("dropout of packed rows", self.coded(1), move || {
                backend.packed_dropped(RATE, draws, keys, &to_drop);
            }),
            self.packed_sum("sum of 1-bit rows, SAGE", 1, rows.clone(), None),
            self.packed_sum("sum of 1-bit rows, GCN", 1, rows, Some(&self.factors)),
            self.packed_sum("sum of 1-bit rows after dropout", 2, dropped, None),
        ];
        for (name, width) in [
            ("sum of 2-bit rows, SAGE", Width::Two),
            ("sum of 4-bit rows, SAGE", Width::Four),
            ("sum of 8-bit rows, SAGE", Width::Eight),
        ] {
            let codec = RowCodec::new(width);
            let rows = backend.packed_rows(codec, &self.message(codec)?, shape)?;
            operations.push(self.packed_sum(name, width.bits(), rows, None));
        }
        Ok(operations)
    }

    /// Work of reading a one-bit message and writing its values at so many bits.
    fn coded(&self, n_bits: usize) -> Work {
        let streamed_bytes = Self::bytes(&self.x, 1) * (1 + n_bits) as f64 / 32.0;
        Work { streamed_bytes, gathered_bytes: [0.0; 2], n_operations: 0.0 }
    }

    fn packed_sum<'a>(
        &'a self,
        name: &'static str,
        n_bits: usize,
        rows: CpuPacked,
        factors: Option<&'a CpuMatrix>,
    ) -> Operation<'a> {
        let Self { backend, edges, x, .. } = self;
        let backend: &CpuBackend = backend;
        let mut sums = backend.zeros(x.n_rows(), x.n_cols());
        // Levels are two numbers a row; sums are read before they are written.
        operation(name, self.narrow_sum(n_bits, 8, 1.0), move || {
            backend.aggregate_packed(edges, factors, &rows, &mut sums);
        })
    }
}
