//! Sums over edges: blocks of a graph, and products with sparse matrices.

use sylvie_graph::{Block, Csr, SparseMatrix};
use sylvie_random::Stream;
use sylvie_tensor::{Backend, Mode};

use super::{Host, assert_close, draws, numbers};

/// Edges as (local row, column), each once, ascending; a hub, and rows and columns without any.
pub(super) fn edges(seed: u64, n_local: usize, n_columns: usize) -> Vec<(u32, u32)> {
    if n_local == 0 || n_columns == 0 {
        return Vec::new();
    }
    let n_edges = 3 * n_local;
    let ends =
        numbers(seed, n_edges, n_local).into_iter().zip(numbers(seed + 1, n_edges, n_columns));
    let hub = (0..n_columns as u32).step_by(2).map(|column| (n_local as u32 / 2, column));
    let mut edges: Vec<_> = ends.filter(|&(row, _)| row % 7 != 3).chain(hub).collect();
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// A block of these edges, rows without any left out.
pub(super) fn block(n_columns: usize, edges: &[(u32, u32)]) -> Block {
    let mut rows: Vec<u32> = edges.iter().map(|edge| edge.0).collect();
    rows.dedup();
    let place = |row| rows.binary_search(&row).expect("a row with an edge") as u32;
    let pairs: Vec<_> = edges.iter().map(|&(row, column)| (place(row), column)).collect();
    let edges = Csr::from_pairs(rows.len(), n_columns, &pairs).expect("edges of a block");
    Block {
        owner: 0,
        column_ids: (0..n_columns as u32).collect(),
        column_degrees: vec![0; n_columns],
        rows,
        edges,
    }
}

/// Sums over a block's edges and back, with factors of columns and without; columns whose factor is 0 are
/// not read, and their rows of the output not written.
pub fn aggregation<B: Backend>(backend: &B) {
    for (n_local, n_columns, width) in
        [(1, 1, 1), (40, 13, 7), (65, 300, 32), (9, 4, 130), (5, 0, 3)]
    {
        let what = format!("{n_local} rows, {n_columns} columns of {width}");
        let edges = edges(7, n_local, n_columns);
        let on_device = backend.upload_block(&block(n_columns, &edges));
        let mut factors = Host::random(1, n_columns, 1);
        let mut x = Host::random(2, n_columns, width);
        let dy = Host::random(3, n_local, width);
        let (before, dx_before) =
            (Host::random(4, n_local, width), Host::random(5, n_columns, width));
        for scaled in [false, true] {
            if scaled {
                for column in (0..n_columns).step_by(3) {
                    factors.values[column] = 0.0;
                    x.values[column * width..(column + 1) * width].fill(f32::NAN);
                }
            }
            let factor = |column: usize| if scaled { factors.at(column, 0) } else { 1.0 };
            let (mut exact, mut dx_exact) = (before.doubles(), dx_before.doubles());
            for &(row, column) in &edges {
                let (row, column) = (row as usize, column as usize);
                if factor(column) == 0.0 {
                    continue;
                }
                for j in 0..width {
                    exact[row * width + j] += factor(column) * x.at(column, j);
                    dx_exact[column * width + j] += factor(column) * dy.at(row, j);
                }
            }
            let scale = factors.on(backend);
            let scale = scaled.then_some(&scale);
            let mut out = before.on(backend);
            backend.aggregate(&on_device, scale, &x.on(backend), &mut out);
            assert_close(backend, &out, &exact, &format!("aggregate, {what}"));
            let mut out = dx_before.on(backend);
            backend.aggregate_transposed(&on_device, scale, &dy.on(backend), &mut out);
            assert_close(backend, &out, &dx_exact, &format!("aggregate_transposed, {what}"));
        }
    }
}

/// Products with a sparse matrix and its transposed, and dropout of its values.
pub fn sparse_products<B: Backend>(backend: &B) {
    for (n_rows, n_cols, width) in [(1, 1, 1), (40, 23, 7), (65, 200, 33), (3, 5, 0), (0, 4, 2)] {
        let entries = edges(11, n_rows, n_cols);
        let values = Host::random(1, entries.len(), 1);
        let mut indptr = vec![0_u64];
        for row in 0..n_rows as u32 {
            indptr.push(entries.partition_point(|entry| entry.0 <= row) as u64);
        }
        let indices: Vec<u32> = entries.iter().map(|entry| entry.1).collect();
        let host = SparseMatrix::new(n_cols, &indptr, &indices, &values.values).expect("a matrix");
        let plain = backend.upload_sparse(&host);
        let keys: Vec<u32> = (0..n_rows as u32).map(|row| 10 * row + 1).collect();
        let (family, rate) = (draws(Stream::Dropout, 5), 0.3);
        let dropped = backend.sparse_dropout(rate, family, &backend.upload_index(&keys), &plain);
        // A value's mask is that of its place in a dense matrix.
        let mut mask = backend.upload(n_rows, n_cols, &vec![1.0; n_rows * n_cols]);
        backend.dropout(rate, family, &backend.upload_index(&keys), &mut mask);
        let mask = backend.download(&mask);
        for (sparse, is_dropped) in [(&plain, false), (&dropped, true)] {
            let value = |place: usize| {
                let (row, column) = (entries[place].0 as usize, entries[place].1 as usize);
                let factor = if is_dropped { mask[row * n_cols + column] } else { 1.0 };
                values.at(place, 0) * f64::from(factor)
            };
            for mode in [Mode::Assign, Mode::Add] {
                let what = format!("{n_rows} x {n_cols} x {width}, {mode:?}, {is_dropped}");
                let kept = if mode == Mode::Add { 1.0 } else { 0.0 };
                let (b, before) = (Host::random(2, n_cols, width), Host::random(3, n_rows, width));
                let (bt, before_t) =
                    (Host::random(4, n_rows, width), Host::random(5, n_cols, width));
                let mut exact: Vec<f64> = before.doubles().iter().map(|v| kept * v).collect();
                let mut exact_t: Vec<f64> = before_t.doubles().iter().map(|v| kept * v).collect();
                for (place, &(row, column)) in entries.iter().enumerate() {
                    let (row, column) = (row as usize, column as usize);
                    for j in 0..width {
                        exact[row * width + j] += value(place) * b.at(column, j);
                        exact_t[column * width + j] += value(place) * bt.at(row, j);
                    }
                }
                let mut out = before.on(backend);
                backend.sparse_matmul(sparse, &b.on(backend), mode, &mut out);
                assert_close(backend, &out, &exact, &format!("sparse_matmul, {what}"));
                let mut out = before_t.on(backend);
                backend.sparse_matmul_tn(sparse, &bt.on(backend), mode, &mut out);
                assert_close(backend, &out, &exact_t, &format!("sparse_matmul_tn, {what}"));
            }
        }
    }
}
