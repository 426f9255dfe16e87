//! Shapes that do not fit are refused, never read past or cut short.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sylvie_tensor::{AdamStep, Attention, AttentionGrads, AttentionRows, Backend, Mode};

use crate::{Matrix, backend, block, dropout_draws, sparse};

fn zeros(n_rows: usize, n_cols: usize) -> Matrix {
    backend().zeros(n_rows, n_cols)
}

/// What is wrong, and the call that must not go through.
type Call = (&'static str, Box<dyn FnOnce()>);

/// Asserts that each of the calls panics.
fn refused(calls: Vec<Call>) {
    for (what, call) in calls {
        assert!(catch_unwind(AssertUnwindSafe(call)).is_err(), "{what} was not refused");
    }
}

/// A call with its own backend.
fn call(what: &'static str, work: impl FnOnce(sylvie_tensor::CpuBackend) + 'static) -> Call {
    (what, Box::new(move || work(backend())))
}

const SET: Mode = Mode::Assign;

#[test]
fn products_and_rows() {
    refused(vec![
        call("upload", |b| drop(b.upload(2, 2, &[0.0; 3]))),
        call("matmul: inner", |b| b.matmul(&zeros(2, 3), &zeros(4, 2), SET, &mut zeros(2, 2))),
        call("matmul: rows", |b| b.matmul(&zeros(2, 3), &zeros(3, 2), SET, &mut zeros(3, 2))),
        call("matmul: columns", |b| b.matmul(&zeros(2, 3), &zeros(3, 2), SET, &mut zeros(2, 3))),
        call("matmul_nt: inner", |b| {
            b.matmul_nt(&zeros(2, 3), &zeros(2, 4), SET, &mut zeros(2, 2))
        }),
        call("matmul_tn: inner", |b| {
            b.matmul_tn(&zeros(3, 2), &zeros(4, 2), SET, &mut zeros(2, 2))
        }),
        call("matmul_tn: output", |b| {
            b.matmul_tn(&zeros(3, 2), &zeros(3, 2), SET, &mut zeros(2, 3));
        }),
        call("sparse_matmul: inner", |b| {
            let x = b.upload_sparse(&sparse(&zeros(2, 3)));
            b.sparse_matmul(&x, &zeros(2, 2), SET, &mut zeros(2, 2));
        }),
        call("sparse_matmul_tn: output", |b| {
            let x = b.upload_sparse(&sparse(&zeros(2, 3)));
            b.sparse_matmul_tn(&x, &zeros(2, 2), SET, &mut zeros(2, 2));
        }),
        call("scale_rows", |b| b.scale_rows(&zeros(3, 1), &mut zeros(2, 2))),
        call("add_scaled_rows", |b| {
            b.add_scaled_rows(&zeros(2, 2), &zeros(1, 2), &mut zeros(2, 2));
        }),
        call("add_bias", |b| b.add_bias(&zeros(1, 3), &mut zeros(2, 2))),
        call("column_sums", |b| b.column_sums(&zeros(2, 2), SET, &mut zeros(2, 1))),
        call("scatter_add: places", |b| b.scatter_add(&zeros(2, 2), &vec![0], &mut zeros(2, 2))),
        call("scatter_add: widths", |b| b.scatter_add(&zeros(1, 2), &vec![0], &mut zeros(2, 3))),
        call("scatter_add: a row too high", |b| {
            b.scatter_add(&zeros(1, 2), &vec![2], &mut zeros(2, 2));
        }),
        call("scatter_add: unordered, a row too high", |b| {
            b.scatter_add(&zeros(2, 2), &vec![2, 0], &mut zeros(2, 2));
        }),
        call("smooth", |b| b.smooth(0.5, &zeros(2, 2), &mut zeros(1, 2))),
        call("relu_backward", |b| b.relu_backward(&zeros(2, 2), &mut zeros(2, 3))),
        call("layer_norm", |b| drop(b.layer_norm(&zeros(1, 2), &zeros(1, 3), &mut zeros(2, 2)))),
        call("layer_norm_backward", |b| {
            let (normalised, inverse) = (zeros(2, 2), zeros(1, 1));
            let (mut dgain, mut doffset) = (zeros(1, 2), zeros(1, 2));
            let (gain, saved) = (zeros(1, 2), (&normalised, &inverse));
            b.layer_norm_backward(&gain, saved, &mut zeros(2, 2), &mut dgain, &mut doffset);
        }),
        call("dropout", |b| b.dropout(0.5, dropout_draws(1), &vec![1], &mut zeros(2, 2))),
        call("sparse_dropout", |b| {
            let x = b.upload_sparse(&sparse(&zeros(2, 3)));
            drop(b.sparse_dropout(0.5, dropout_draws(1), &vec![1], &x));
        }),
    ]);
}

#[test]
fn aggregation() {
    // Two edges between five rows and three columns.
    let edges = [(1, 0), (4, 2)];
    refused(vec![
        call("columns", move |b| {
            let block = b.upload_block(&block(3, &edges));
            b.aggregate(&block, None, &zeros(2, 1), &mut zeros(5, 1));
        }),
        call("rows", move |b| {
            let block = b.upload_block(&block(3, &edges));
            b.aggregate(&block, None, &zeros(3, 1), &mut zeros(4, 1));
        }),
        call("widths", move |b| {
            let block = b.upload_block(&block(3, &edges));
            b.aggregate(&block, None, &zeros(3, 1), &mut zeros(5, 2));
        }),
        call("factors", move |b| {
            let block = b.upload_block(&block(3, &edges));
            b.aggregate(&block, Some(&zeros(4, 1)), &zeros(3, 1), &mut zeros(5, 1));
        }),
        call("transposed rows", move |b| {
            let block = b.upload_block(&block(3, &edges));
            b.aggregate_transposed(&block, None, &zeros(4, 1), &mut zeros(3, 1));
        }),
        call("transposed factors", move |b| {
            let block = b.upload_block(&block(3, &edges));
            b.aggregate_transposed(&block, Some(&zeros(2, 1)), &zeros(5, 1), &mut zeros(3, 1));
        }),
    ]);
}

#[test]
fn attention() {
    let edges = [(1, 0), (4, 2)];
    refused(vec![
        call("heads that do not divide", |b| drop(b.head_mean(&zeros(2, 3), 2))),
        call("no heads", |b| drop(b.head_dots(&zeros(2, 3), &zeros(2, 3), 0))),
        call("more heads than columns", |b| drop(b.head_dots(&zeros(2, 1), &zeros(2, 1), 2))),
        call("scores", |b| drop(b.attention_scores(&zeros(2, 5), &zeros(2, 2)))),
        call("scores backward", |b| {
            let (mut dx, mut dweights) = (zeros(2, 4), zeros(2, 2));
            let (x, weights, dscores) = (zeros(2, 4), zeros(2, 2), zeros(3, 2));
            b.attention_scores_backward(&x, &weights, &dscores, &mut dx, &mut dweights);
        }),
        call("begin", |b| drop(b.attention_begin(&zeros(2, 4), &zeros(2, 2), &zeros(1, 2)))),
        call("add_block: columns", move |b| {
            let block = b.upload_block(&block(3, &edges));
            let mut state: Attention<Matrix> =
                b.attention_begin(&zeros(5, 4), &zeros(5, 2), &zeros(5, 2));
            let (values, source, target) = (zeros(2, 4), zeros(2, 2), zeros(5, 2));
            b.attention_add_block(&block, &values, &source, &target, &mut state);
        }),
        call("add_block: rows", move |b| {
            let block = b.upload_block(&block(3, &edges));
            let mut state: Attention<Matrix> =
                b.attention_begin(&zeros(4, 4), &zeros(4, 2), &zeros(4, 2));
            let (values, source, target) = (zeros(3, 4), zeros(3, 2), zeros(4, 2));
            b.attention_add_block(&block, &values, &source, &target, &mut state);
        }),
        call("block_backward: output gradients", move |b| {
            let block = b.upload_block(&block(3, &edges));
            let (log_sum, dot, dy) = (zeros(5, 2), zeros(5, 2), zeros(5, 3));
            let rows = AttentionRows { log_sum: &log_sum, dot: &dot, dy: &dy };
            let (mut values, mut source, mut target) = (zeros(3, 4), zeros(3, 2), zeros(5, 2));
            let grads =
                AttentionGrads { values: &mut values, source: &mut source, target: &mut target };
            let (values, source, target) = (zeros(3, 4), zeros(3, 2), zeros(5, 2));
            b.attention_block_backward(&block, &values, &source, &target, rows, grads);
        }),
    ]);
}

#[test]
fn losses_and_optimiser() {
    let adam = |step: u32, width: usize| {
        let (learning_rate, beta1, beta2, epsilon) = (0.01, 0.9, 0.999, 1e-8);
        let step = AdamStep { learning_rate, beta1, beta2, epsilon, weight_decay: 0.0, step };
        let (mut first, mut second, mut weights) = (zeros(1, 2), zeros(1, 2), zeros(1, 2));
        backend().adam(&step, &zeros(1, width), (&mut first, &mut second), &mut weights);
    };
    refused(vec![
        call("classes", |b| {
            let mut dlogits = zeros(2, 3);
            b.softmax_cross_entropy(&zeros(2, 3), &vec![0, 1], &vec![0], &mut dlogits);
        }),
        call("a class too high", |b| {
            let mut dlogits = zeros(2, 3);
            b.softmax_cross_entropy(&zeros(2, 3), &vec![0], &vec![3], &mut dlogits);
        }),
        call("logits and gradients", |b| {
            let mut dlogits = zeros(3, 2);
            b.softmax_cross_entropy(&zeros(2, 3), &vec![0], &vec![0], &mut dlogits);
        }),
        call("targets", |b| {
            let mut dlogits = zeros(2, 3);
            b.binary_cross_entropy(&zeros(2, 3), &vec![0], &zeros(1, 2), &mut dlogits);
        }),
        call("a gradient of another shape", move |_| adam(1, 3)),
        call("a step before the first", move |_| adam(0, 2)),
    ]);
}
