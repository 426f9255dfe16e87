//! Matrices take their buffers from the backend and give them back.

use sylvie_tensor::{Backend, CpuBackend, Mode};

use crate::{Matrix, backend, bits, block, dropout_draws, edges, matrix, real_matrix, sparse};

#[test]
fn zeros_are_zeros_in_a_buffer_that_was_used() {
    let backend = backend();
    drop(backend.upload(30, 100, &[f32::NAN; 3000]));
    let x = backend.zeros(27, 100);
    assert_eq!(backend.buffer_use().n_allocated, 1);
    assert_eq!(bits(x.values()), vec![0; 2700]);
    drop(x);
    // Longer than the one before it, and still inside the first.
    assert_eq!(bits(backend.zeros(30, 100).values()), vec![0; 3000]);
    assert_eq!(backend.buffer_use().n_allocated, 1);
}

#[test]
fn copies_hold_what_was_copied() {
    let backend = backend();
    let x = real_matrix(1, 40, 50);
    drop(backend.upload(1, 2030, &[7.0; 2030]));
    let copy = backend.copy(&x);
    assert_eq!(copy, x);
    assert_eq!(copy.clone(), x);
    assert_eq!(backend.buffer_use().n_allocated, 2);
}

#[test]
fn clones_and_threads_share_the_buffers() {
    let backend = backend();
    let other = backend.clone();
    let x = backend.zeros(50, 50);
    std::thread::spawn(move || drop(x)).join().expect("a thread that drops a matrix");
    let y = other.zeros(50, 50);
    let found = backend.buffer_use();
    assert_eq!((found.n_allocated, found.in_use_bytes, found.idle_bytes), (1, 10_060, 0));
    // A matrix may outlive its backend.
    drop((backend, other));
    assert_eq!(y.values().len(), 2500);
}

/// What a layer does, forward and backward, with results that are dropped at the end.
fn round(b: &CpuBackend, x: &Matrix) -> Vec<f32> {
    let (n, width) = (x.n_rows(), x.n_cols());
    let adjacency = b.upload_block(&block(n, &edges(1, n, n, 4 * n)));
    let keys: Vec<u32> = (0..n as u32).collect();
    let mut dropped = b.copy(x);
    b.dropout(0.5, dropout_draws(1), &keys, &mut dropped);
    let mut sums = b.zeros(n, width);
    b.aggregate(&adjacency, None, &dropped, &mut sums);
    let weights = b.upload(width, 60, &crate::reals(3, width * 60));
    let mut y = b.matrix_to_assign(n, 60);
    b.matmul(&sums, &weights, Mode::Assign, &mut y);
    let (gain, offset) = (b.upload(1, 60, &[1.5; 60]), b.zeros(1, 60));
    let (normalised, inverse) = b.layer_norm(&gain, &offset, &mut y);
    b.relu(&mut y);
    let mean = b.head_mean(&y, 3);
    let dots = b.head_dots(&b.head_mean_backward(&mean, 3), &y, 3);
    let mut dy = b.copy(&y);
    let (mut dgain, mut doffset) = (b.zeros(1, 60), b.zeros(1, 60));
    b.layer_norm_backward(&gain, (&normalised, &inverse), &mut dy, &mut dgain, &mut doffset);
    let mut dweights = b.matrix_to_assign(width, 60);
    b.matmul_tn(&sums, &dy, Mode::Assign, &mut dweights);
    let mut dx = b.matrix_to_assign(n, width);
    b.matmul_nt(&dy, &weights, Mode::Assign, &mut dx);
    let stored = b.upload_sparse(&sparse(x));
    let kept = b.sparse_dropout(0.5, dropout_draws(2), &keys, &stored);
    b.sparse_matmul(&kept, &weights, Mode::Add, &mut y);
    [y, normalised, dots, dweights, dx].iter().flat_map(|m| m.values().to_vec()).collect()
}

#[test]
fn a_round_that_is_repeated_allocates_nothing_and_gives_the_same_bits() {
    for n_threads in [1, 3] {
        let backend = CpuBackend::new(n_threads);
        let x = backend.upload(300, 70, &crate::reals(2, 300 * 70));
        let first = bits(&round(&backend, &x));
        round(&backend, &x);
        let before = backend.buffer_use();
        for _ in 0..3 {
            assert!(bits(&round(&backend, &x)) == first, "a buffer's old values were read");
        }
        assert_eq!(backend.buffer_use(), before);
    }
}

/// Whatever a matrix to assign holds, an assigned result does not depend on it.
#[test]
fn assigned_results_do_not_read_the_output() {
    let backend = backend();
    let (a, b) = (real_matrix(1, 40, 7), real_matrix(2, 7, 30));
    let (a_t, b_t) = (real_matrix(3, 7, 40), real_matrix(4, 30, 7));
    let nan = || matrix(40, 30, &[f32::NAN; 1200]);
    let (mut x, mut y, mut z) = (nan(), nan(), nan());
    backend.matmul(&a, &b, Mode::Assign, &mut x);
    backend.matmul_nt(&a, &b_t, Mode::Assign, &mut y);
    backend.matmul_tn(&a_t, &b, Mode::Assign, &mut z);
    for out in [x, y, z] {
        assert!(out.values().iter().all(|value| value.is_finite()));
    }
    // A sum of nothing is 0.
    let (mut x, mut y, mut z) = (nan(), nan(), nan());
    let (tall, flat) = (backend.zeros(40, 0), backend.zeros(0, 30));
    backend.matmul(&tall, &flat, Mode::Assign, &mut x);
    backend.matmul_nt(&tall, &backend.zeros(30, 0), Mode::Assign, &mut y);
    backend.matmul_tn(&backend.zeros(0, 40), &flat, Mode::Assign, &mut z);
    for out in [x, y, z] {
        assert_eq!(bits(out.values()), vec![0; 1200]);
    }
}
