//! Operations in one pass against the steps that they consist of, bit for bit.

use sylvie_tensor::{Backend, CpuBackend, Mode, SumFactors};

use crate::{Matrix, bits, block, dropout_draws, edges, real_matrix};

/// Around the registers and blocks of columns that sums are held in.
const WIDTHS: [usize; 12] = [1, 7, 8, 9, 15, 47, 63, 64, 65, 71, 100, 136];
const N_ROWS: usize = 700;

fn backends() -> [CpuBackend; 2] {
    [CpuBackend::new(1), CpuBackend::new(3)]
}

fn assert_same(found: &Matrix, expected: &Matrix, what: &str) {
    assert!(bits(found.values()) == bits(expected.values()), "{what}");
}

/// `sums[row] += factor * x[column]` for each edge in order, rounded twice a value.
fn add_edges(pairs: &[(u32, u32)], scale: Option<&Matrix>, x: &Matrix, sums: &mut Matrix) {
    let width = x.n_cols();
    for &(row, column) in pairs {
        let factor = scale.map_or(1.0, |scale| scale.values()[column as usize]);
        let sums = &mut sums.values_mut()[row as usize * width..][..width];
        for (sum, value) in sums.iter_mut().zip(x.row(column as usize)) {
            *sum += factor * value;
        }
    }
}

#[test]
fn gathered_sums_of_any_width_are_those_of_one_edge_after_the_other() {
    let pairs = edges(1, N_ROWS, 90, 6000);
    for width in WIDTHS {
        let (x, scale) = (real_matrix(2, 90, width), real_matrix(3, 90, 1));
        let before = real_matrix(4, N_ROWS, width);
        for scale in [None, Some(&scale)] {
            let mut expected = before.clone();
            add_edges(&pairs, scale, &x, &mut expected);
            for backend in backends() {
                let mut found = before.clone();
                let edges = backend.upload_block(&block(90, &pairs));
                backend.aggregate(&edges, scale, &x, &mut found);
                assert_same(&found, &expected, &format!("width {width}"));
            }
        }
    }
}

#[test]
fn sums_with_their_factors() {
    let pairs = edges(1, N_ROWS, N_ROWS, 5000);
    for width in [3, 47, 64] {
        let x = real_matrix(2, N_ROWS, width);
        let (a, b, c) =
            (real_matrix(3, N_ROWS, 1), real_matrix(4, N_ROWS, 1), real_matrix(5, N_ROWS, 1));
        for (column, own, row) in
            [(None, None, None), (Some(&a), None, Some(&c)), (Some(&a), Some(&b), Some(&c))]
        {
            for backend in backends() {
                let edges = backend.upload_block(&block(N_ROWS, &pairs));
                let mut expected = backend.zeros(N_ROWS, width);
                if let Some(own) = own {
                    backend.add_scaled_rows(&x, own, &mut expected);
                }
                let mut back = expected.clone();
                backend.aggregate(&edges, column, &x, &mut expected);
                if let Some(row) = row {
                    backend.scale_rows(row, &mut expected);
                }
                let factors = SumFactors { column, own, row };
                let found = backend.aggregated(&edges, factors, &x, N_ROWS);
                assert_same(&found, &expected, "sums");
                backend.aggregate_transposed(&edges, column, &x, &mut back);
                let factors = SumFactors { column, own, row: None };
                let found = backend.aggregated_transposed(&edges, factors, &x, N_ROWS);
                assert_same(&found, &back, "transposed sums");
            }
        }
    }
}

#[test]
fn products_with_what_follows() {
    let (x, w) = (real_matrix(1, N_ROWS, 20), real_matrix(2, 20, 9));
    let (bias, factors) = (real_matrix(3, 1, 9), real_matrix(4, N_ROWS, 1));
    let (y, before) = (real_matrix(5, N_ROWS, 9), real_matrix(6, N_ROWS, 9));
    for backend in backends() {
        for mode in crate::MODES {
            let (mut found, mut expected) = (before.clone(), before.clone());
            backend.matmul(&x, &w, mode, &mut expected);
            backend.add_bias(&bias, &mut expected);
            backend.matmul_bias(&x, &w, mode, &bias, &mut found);
            assert_same(&found, &expected, "a product and a bias");
        }
        let mut expected = backend.zeros(N_ROWS, 20);
        backend.matmul_nt(&y, &w, Mode::Assign, &mut expected);
        backend.scale_rows(&factors, &mut expected);
        let found = backend.matmul_nt_scaled(&y, &w, &factors);
        assert_same(&found, &expected, "a product and factors of rows");
    }
}

#[test]
fn rows_normalised_and_dropped() {
    let keys: Vec<u32> = (5..).take(N_ROWS).collect();
    for width in [1, 9, 64] {
        let (x, dy) = (real_matrix(1, N_ROWS, width), real_matrix(2, N_ROWS, width));
        let (gain, offset) = (real_matrix(3, 1, width), real_matrix(4, 1, width));
        for backend in backends() {
            let (mut y, mut expected) = (x.clone(), x.clone());
            let steps = backend.layer_norm(&gain, &offset, &mut expected);
            backend.relu(&mut expected);
            let saved = backend.layer_norm_relu(&gain, &offset, &mut y);
            for (found, expected) in [(&y, &expected), (&saved.0, &steps.0), (&saved.1, &steps.1)] {
                assert_same(found, expected, "LayerNorm and ReLU");
            }
            assert_same(&backend.affine_relu(&gain, &offset, &saved.0), &y, "rows made again");
            let grads = || (backend.zeros(1, width), backend.zeros(1, width));
            let ((mut dgain, mut doffset), mut expected) = (grads(), dy.clone());
            let saved = (&saved.0, &saved.1);
            backend.relu_backward(&y, &mut expected);
            let outputs = (&mut dgain, &mut doffset);
            backend.layer_norm_backward(&gain, saved, &mut expected, outputs.0, outputs.1);
            let ((mut dgain_found, mut doffset_found), mut found) = (grads(), dy.clone());
            let outputs = (&mut dgain_found, &mut doffset_found);
            backend.layer_norm_relu_backward((&gain, &offset), saved, &mut found, outputs);
            for (found, expected) in
                [(&found, &expected), (&dgain_found, &dgain), (&doffset_found, &doffset)]
            {
                assert_same(found, expected, "back through ReLU and LayerNorm");
            }
            let mut expected = x.clone();
            backend.dropout(0.3, dropout_draws(1), &keys, &mut expected);
            let found = backend.dropped(0.3, dropout_draws(1), &keys, &x);
            assert_same(&found, &expected, "a copy after dropout");
        }
    }
}
