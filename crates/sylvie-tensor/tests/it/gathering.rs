//! Sums over neighbours that gather bf16 rows, against rounding every product by itself.

use sylvie_tensor::{Backend, CpuBackend, Gather, SumFactors};

use crate::{Matrix, backend, bits, block, edges, matrix, real_matrix};

/// Around the groups and blocks of columns that rows are packed and summed in.
const WIDTHS: [usize; 13] = [1, 7, 8, 15, 16, 17, 33, 47, 63, 64, 65, 100, 136];
const N_ROWS: usize = 700;

fn backends() -> [CpuBackend; 2] {
    [1, 3].map(|n_threads| {
        CpuBackend::new(n_threads).gathering(Gather::Bf16).expect("sums of bf16 rows")
    })
}

/// The bf16 number nearest to a finite `value`, of two as near the one with an even last bit.
fn rounded(value: f32) -> f32 {
    let low = f32::from_bits(value.to_bits() & 0xFFFF_0000);
    let high = f32::from_bits(low.to_bits() + 0x1_0000);
    let distance = |other: f32| (f64::from(value) - f64::from(other)).abs();
    let is_even = low.to_bits() & 0x1_0000 == 0;
    let is_low = distance(low) < distance(high) || distance(low) == distance(high) && is_even;
    if is_low { low } else { high }
}

/// `sums[to] += rounded(factor of from * x[from])` for each edge in order; a factor of 0 leaves it out.
fn add_edges(pairs: &[(u32, u32)], factors: Option<&Matrix>, x: &Matrix, sums: &mut Matrix) {
    let width = x.n_cols();
    for &(to, from) in pairs {
        let factor = factors.map_or(1.0, |factors| factors.values()[from as usize]);
        let sums = &mut sums.values_mut()[to as usize * width..][..width];
        for (sum, value) in sums.iter_mut().zip(x.row(from as usize)) {
            *sum += if factor == 0.0 { 0.0 } else { rounded(factor * value) };
        }
    }
}

/// Factors of which every third is 0.
fn gaps(seed: u64, n: usize) -> Matrix {
    let mut factors = real_matrix(seed, n, 1);
    factors.values_mut().iter_mut().step_by(3).for_each(|factor| *factor = 0.0);
    factors
}

#[test]
fn sums_are_those_of_rounded_rows() {
    let pairs = edges(1, N_ROWS, 90, 6000);
    let factors = gaps(3, 90);
    for width in WIDTHS {
        let mut x = real_matrix(2, 90, width);
        let before = real_matrix(4, N_ROWS, width);
        for factors in [None, Some(&factors)] {
            if factors.is_some() {
                // Nobody reads it.
                x.values_mut()[..width].fill(f32::NAN);
            }
            let mut expected = before.clone();
            add_edges(&pairs, factors, &x, &mut expected);
            for backend in backends() {
                let mut found = before.clone();
                let edges = backend.upload_block(&block(90, &pairs));
                backend.aggregate(&edges, factors, &x, &mut found);
                assert!(bits(found.values()) == bits(expected.values()), "width {width}");
            }
        }
    }
}

/// Rows in a block are some of all rows, so that their gradients are packed one by one.
#[test]
fn transposed_sums_are_those_of_rounded_rows() {
    let pairs = edges(1, N_ROWS, 90, 6000);
    let pairs: Vec<_> = pairs.into_iter().filter(|edge| edge.0 % 5 != 1).collect();
    let mut turned: Vec<(u32, u32)> = pairs.iter().map(|&(row, column)| (column, row)).collect();
    turned.sort_unstable();
    let factors = real_matrix(3, 90, 1);
    for width in WIDTHS {
        let (dy, before) = (real_matrix(2, N_ROWS, width), real_matrix(4, 90, width));
        let mut sums = backend().zeros(90, width);
        add_edges(&turned, None, &dy, &mut sums);
        let mut added = before.clone();
        backend().add_scaled_rows(&sums, &factors, &mut added);
        backend().scale_rows(&factors, &mut sums);
        for backend in backends() {
            let edges = backend.upload_block(&block(90, &pairs));
            let of_columns = SumFactors { column: Some(&factors), own: None, row: None };
            let found = backend.aggregated_transposed(&edges, of_columns, &dy, 90);
            assert!(bits(found.values()) == bits(sums.values()), "width {width}");
            let mut found = before.clone();
            backend.aggregate_transposed(&edges, Some(&factors), &dy, &mut found);
            assert!(bits(found.values()) == bits(added.values()), "width {width}, added");
        }
    }
}

#[test]
fn a_rows_own_term_is_not_rounded() {
    let pairs = edges(1, N_ROWS, N_ROWS, 5000);
    let (x, own) = (real_matrix(2, N_ROWS, 47), real_matrix(3, N_ROWS, 1));
    let mut expected = backend().zeros(N_ROWS, 47);
    backend().add_scaled_rows(&x, &own, &mut expected);
    add_edges(&pairs, None, &x, &mut expected);
    backend().scale_rows(&own, &mut expected);
    for backend in backends() {
        let edges = backend.upload_block(&block(N_ROWS, &pairs));
        let factors = SumFactors { column: None, own: Some(&own), row: Some(&own) };
        let found = backend.aggregated(&edges, factors, &x, N_ROWS);
        assert!(bits(found.values()) == bits(expected.values()));
    }
}

/// Ties, what rounds to infinity, and what is no number.
#[test]
fn values_at_the_ends() {
    let values = [
        f32::from_bits(0x3F80_8000), // between 1 and the next, and 1 is even
        f32::from_bits(0x3F81_8000), // between two, of which the upper is even
        f32::from_bits(0x3F80_8001),
        f32::MAX,
        f32::MIN,
        f32::INFINITY,
        f32::from_bits(0x7F80_0001), // NaN in its last bit
        f32::from_bits(0xFFFF_FFFF),
        f32::from_bits(1),
        -0.0,
    ];
    let x = matrix(1, values.len(), &values);
    // Four rows read it, so that it is packed.
    let pairs = [(0, 0), (1, 0), (2, 0), (3, 0)];
    for backend in backends() {
        let mut found = backend.zeros(4, values.len());
        backend.aggregate(&backend.upload_block(&block(1, &pairs)), None, &x, &mut found);
        for row in 0..4 {
            let found = found.row(row);
            assert_eq!(found[..3], [1.0, f32::from_bits(0x3F82_0000), 1.007_812_5]);
            assert_eq!(found[3..6], [f32::INFINITY, f32::NEG_INFINITY, f32::INFINITY]);
            assert!(found[6].is_nan() && found[7].is_nan());
            assert_eq!(found[8..], [0.0, 0.0]);
        }
    }
}

#[test]
fn blocks_with_few_edges_are_summed_in_f32() {
    let pairs: Vec<(u32, u32)> = (0..90).map(|row| (row, row)).collect();
    let x = real_matrix(1, 90, 20);
    for backend in backends() {
        let edges = backend.upload_block(&block(90, &pairs));
        let factors = SumFactors { column: None, own: None, row: None };
        assert_eq!(backend.aggregated(&edges, factors, &x, 90), x);
        assert_eq!(backend.aggregated_transposed(&edges, factors, &x, 90), x);
    }
}

#[test]
fn packed_rows_take_no_new_memory_once_they_went_round() {
    for backend in backends() {
        let edges = backend.upload_block(&block(N_ROWS, &edges(1, N_ROWS, N_ROWS, 5000)));
        let x = backend.copy(&real_matrix(2, N_ROWS, 64));
        let factors = SumFactors { column: None, own: None, row: None };
        let round = || {
            drop(backend.aggregated(&edges, factors, &x, N_ROWS));
            drop(backend.aggregated_transposed(&edges, factors, &x, N_ROWS));
            backend.buffer_use()
        };
        let first = round();
        assert_eq!(round(), first);
    }
}

#[test]
fn names() {
    for gather in [Gather::F32, Gather::Bf16] {
        assert_eq!(gather.to_string().parse(), Ok(gather));
    }
    let error = "f16".parse::<Gather>().unwrap_err().to_string();
    assert_eq!(error, "unknown type of gathered rows `f16`: allowed are f32 and bf16");
}
