//! Sums over neighbours and sparse products, bit for bit as the CPU backend.

use sylvie_graph::{Block, Csr, SparseMatrix};
use sylvie_kernels::{AGGREGATE, AGGREGATE_TRANSPOSED, SPARSE_PRODUCT};
use sylvie_kernels_emulated::{Argument, Buffer};
use sylvie_tensor::{Backend as _, CpuBackend, Mode};

use crate::ways::{WIDTHS, assert_same_bits, every_way, numbers, u32_of, way, words};

/// A block's edges as a device holds them.
pub(crate) struct DeviceBlock {
    pub(crate) block: Block,
    pub(crate) indptr: Buffer,
    pub(crate) columns: Buffer,
    pub(crate) rows: Buffer,
    pub(crate) column_indptr: Buffer,
    pub(crate) readers: Buffer,
    /// For each edge in row order, where it stands in column order.
    pub(crate) to_columns: Buffer,
    pub(crate) n_edges: usize,
}

/// Edges between `n_local` rows and `n_columns` columns, about one place in `sparsity`; the first row that reads anything
/// reads everything, and some columns are read by nobody.
pub(crate) fn device_block(
    seed: u64,
    n_local: usize,
    n_columns: usize,
    sparsity: u32,
) -> DeviceBlock {
    let places = words(seed, n_local * n_columns);
    let is_edge = |row: usize, column: usize| {
        row == 1 || (column % 9 != 4 && places[row * n_columns + column].is_multiple_of(sparsity))
    };
    let (mut rows, mut pairs) = (Vec::new(), Vec::new());
    for row in 0..n_local {
        let columns: Vec<_> = (0..n_columns).filter(|&column| is_edge(row, column)).collect();
        if !columns.is_empty() {
            pairs.extend(columns.iter().map(|&column| (rows.len() as u32, column as u32)));
            rows.push(row as u32);
        }
    }
    let edges = Csr::from_pairs(rows.len(), n_columns, &pairs).unwrap();
    let mut by_column: Vec<(u32, u32, usize)> = pairs
        .iter()
        .enumerate()
        .map(|(edge, &(position, column))| (column, rows[position as usize], edge))
        .collect();
    by_column.sort_unstable();
    let mut to_columns = vec![0_u64; pairs.len()];
    let mut column_indptr = vec![0_u64; n_columns + 1];
    for (place, &(column, _, edge)) in by_column.iter().enumerate() {
        to_columns[edge] = place as u64;
        column_indptr[column as usize + 1] = place as u64 + 1;
    }
    for column in 0..n_columns {
        column_indptr[column + 1] = column_indptr[column + 1].max(column_indptr[column]);
    }
    let readers: Vec<u32> = by_column.iter().map(|&(_, row, _)| row).collect();
    DeviceBlock {
        indptr: Buffer::from_values(edges.indptr()),
        columns: Buffer::from_values(edges.indices()),
        rows: Buffer::from_values(&rows),
        column_indptr: Buffer::from_values(&column_indptr),
        readers: Buffer::from_values(&readers),
        to_columns: Buffer::from_values(&to_columns),
        n_edges: pairs.len(),
        block: Block {
            owner: 0,
            column_ids: (0..n_columns as u32).collect(),
            column_degrees: vec![1; n_columns],
            rows,
            edges,
        },
    }
}

#[test]
fn sums_over_neighbours_and_back() {
    let (n_local, n_columns) = (24, 31);
    for (turn, n_cols) in WIDTHS.into_iter().enumerate() {
        let device = device_block(turn as u64, n_local, n_columns, 5);
        let backend = CpuBackend::new(1);
        let adjacency = backend.upload_block(&device.block);
        let mut x = numbers(1, n_columns * n_cols);
        let before = numbers(2, n_local * n_cols);
        let mut scale = numbers(3, n_columns);
        // Columns without a factor hold what nobody may read.
        for column in [2, 17, 30] {
            scale[column] = 0.0;
            x[column * n_cols..(column + 1) * n_cols].fill(f32::NAN);
        }
        let plain_x: Vec<f32> = x.iter().map(|v| if v.is_nan() { 0.5 } else { *v }).collect();
        let n_positions = device.block.rows.len();
        for with_scale in [true, false] {
            let values = if with_scale { &x } else { &plain_x };
            let factors = with_scale.then(|| backend.upload(n_columns, 1, &scale));
            let device_factors = with_scale.then(|| Buffer::from_values(&scale));
            let scale_argument = device_factors.as_ref().map_or(Argument::NULL, Argument::from);
            let mut expected = backend.upload(n_local, n_cols, &before);
            let matrix = backend.upload(n_columns, n_cols, values);
            backend.aggregate(&adjacency, factors.as_ref(), &matrix, &mut expected);
            let (device_x, out) =
                (Buffer::at_offset(values, 4 * (turn % 2)), Buffer::from_values(&before));
            let pointers = [&device.indptr, &device.columns, &device.rows].map(Argument::from);
            let rest = [scale_argument, Argument::from(&device_x), Argument::from(&out)];
            let arguments = [&pointers[..], &rest, &[u32_of(n_positions), u32_of(n_cols)]].concat();
            way(turn).run(&AGGREGATE, (n_positions, n_cols), &arguments);
            assert_same_bits(&out.values(), expected.values(), "sums over neighbours");

            let dy = backend.upload(n_local, n_cols, &before);
            let mut expected = backend.upload(n_columns, n_cols, values);
            backend.aggregate_transposed(&adjacency, factors.as_ref(), &dy, &mut expected);
            let (device_dy, out) =
                (Buffer::from_values(&before), Buffer::at_offset(values, 4 * (turn % 2)));
            let pointers = [&device.column_indptr, &device.readers].map(Argument::from);
            let rest = [scale_argument, Argument::from(&device_dy), Argument::from(&out)];
            let arguments = [&pointers[..], &rest, &[u32_of(n_columns), u32_of(n_cols)]].concat();
            way(turn).run(&AGGREGATE_TRANSPOSED, (n_columns, n_cols), &arguments);
            assert_same_bits(&out.values(), expected.values(), "sums over readers");
        }
    }
}

#[test]
fn rows_without_a_list_are_in_order() {
    let (n_local, n_columns, n_cols) = (9, 9, 12);
    let device = device_block(5, n_local, n_columns, 1);
    assert_eq!(device.block.rows.len(), n_local, "every row reads");
    let backend = CpuBackend::new(1);
    let x = numbers(4, n_columns * n_cols);
    let mut expected = backend.zeros(n_local, n_cols);
    let matrix = backend.upload(n_columns, n_cols, &x);
    backend.aggregate(&backend.upload_block(&device.block), None, &matrix, &mut expected);
    every_way(|way| {
        let (device_x, out) =
            (Buffer::from_values(&x), Buffer::from_values(&vec![0.0_f32; n_local * n_cols]));
        let lists = [
            Argument::from(&device.indptr),
            Argument::from(&device.columns),
            Argument::NULL,
            Argument::NULL,
        ];
        let rest =
            [Argument::from(&device_x), Argument::from(&out), u32_of(n_local), u32_of(n_cols)];
        way.run(&AGGREGATE, (n_local, n_cols), &[lists, rest].concat());
        assert_same_bits(&out.values(), expected.values(), "sums over neighbours");
    });
}

#[test]
fn products_with_a_sparse_matrix() {
    let (n_rows, n_inner) = (17, 40);
    let block = device_block(6, n_rows, n_inner, 4);
    // By rows as CSR; rows that the block leaves out are empty.
    let mut indptr = vec![0_u64];
    for row in 0..n_rows as u32 {
        let position = block.block.rows.iter().position(|&r| r == row);
        let n = position.map_or(0, |p| u64::from(block.block.edges.degree(p)));
        indptr.push(indptr[indptr.len() - 1] + n);
    }
    let columns = block.block.edges.indices();
    let values = numbers(7, columns.len());
    let sparse = SparseMatrix::new(n_inner, &indptr, columns, &values).unwrap();
    let places: Vec<u64> = {
        let to_columns = block.to_columns.values::<u64>();
        let mut places = vec![0; to_columns.len()];
        to_columns
            .iter()
            .enumerate()
            .for_each(|(edge, &place)| places[place as usize] = edge as u64);
        places
    };
    let (device_indptr, device_values) =
        (Buffer::from_values(&indptr), Buffer::from_values(&values));
    let device_places = Buffer::from_values(&places);
    for (turn, n_cols) in WIDTHS.into_iter().enumerate() {
        let backend = CpuBackend::new(1);
        let uploaded = backend.upload_sparse(&sparse);
        for (mode, adds) in [(Mode::Assign, 0), (Mode::Add, 1)] {
            let (b, before) = (numbers(8, n_inner * n_cols), numbers(9, n_inner * n_cols));
            let mut expected = backend.upload(n_rows, n_cols, &before[..n_rows * n_cols]);
            backend.sparse_matmul(
                &uploaded,
                &backend.upload(n_inner, n_cols, &b),
                mode,
                &mut expected,
            );
            let (device_b, out) =
                (Buffer::from_values(&b), Buffer::from_values(&before[..n_rows * n_cols]));
            let lists =
                [Argument::from(&device_indptr), Argument::from(&block.columns), Argument::NULL];
            let rest = [&device_values, &device_b, &out].map(Argument::from);
            let shape = [u32_of(n_rows), u32_of(n_cols), Argument::U32(adds)];
            way(turn).run(&SPARSE_PRODUCT, (n_rows, n_cols), &[lists, rest, shape].concat());
            assert_same_bits(&out.values(), expected.values(), "a sparse product");

            let b = &b[..n_rows * n_cols];
            let mut expected = backend.upload(n_inner, n_cols, &before);
            backend.sparse_matmul_tn(
                &uploaded,
                &backend.upload(n_rows, n_cols, b),
                mode,
                &mut expected,
            );
            let (device_b, out) = (Buffer::from_values(b), Buffer::from_values(&before));
            let lists = [&block.column_indptr, &block.readers, &device_places].map(Argument::from);
            let rest = [&device_values, &device_b, &out].map(Argument::from);
            let shape = [u32_of(n_inner), u32_of(n_cols), Argument::U32(adds)];
            way(turn).run(&SPARSE_PRODUCT, (n_inner, n_cols), &[lists, rest, shape].concat());
            assert_same_bits(&out.values(), expected.values(), "a transposed sparse product");
        }
    }
}
