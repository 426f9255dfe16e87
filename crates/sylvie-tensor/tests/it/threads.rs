//! Every primitive gives the same bits on any number of threads.

use sylvie_tensor::{
    AdamStep, Attention, AttentionGrads, AttentionRows, Backend, CpuBackend, Mode,
};

use crate::{Matrix, block, dropout_draws, edges, real_matrix, sequence, sparse};

/// More than nine partial sums, and no multiple of any chunk.
const N_ROWS: usize = 9 * 4096 + 77;
/// Rows where each costs more: still many chunks of 128 and 512, and two partial sums.
const N_NODES: usize = 4096 + 77;

/// Bits of the results of one primitive.
#[derive(Default, PartialEq)]
struct Bits(Vec<u64>);

impl Bits {
    fn matrices(matrices: &[&Matrix]) -> Self {
        let values = matrices.iter().flat_map(|matrix| matrix.values());
        Self(values.map(|value| u64::from(value.to_bits())).collect())
    }

    fn and(mut self, loss: f64) -> Self {
        self.0.push(loss.to_bits());
        self
    }
}

/// Runs `work` on 1, 2, 3 and 4 threads; all must give the same, and something.
fn same_bits(work: impl Fn(&CpuBackend) -> Bits) {
    let one = work(&CpuBackend::new(1));
    assert!(one.0.iter().any(|&bits| bits != 0), "a result that is all zeros shows nothing");
    for n_threads in [2, 3, 4] {
        let many = work(&CpuBackend::new(n_threads));
        // Not assert_eq: a failure would print a hundred thousand numbers.
        assert!(one == many, "1 and {n_threads} threads differ");
    }
}

/// Runs `work` on an output that starts at random, assigned and added to.
fn same_output(shape: (usize, usize), work: impl Fn(&CpuBackend, Mode, &mut Matrix)) {
    for mode in crate::MODES {
        same_bits(|backend| {
            let mut out = real_matrix(99, shape.0, shape.1);
            work(backend, mode, &mut out);
            Bits::matrices(&[&out])
        });
    }
}

#[test]
fn products() {
    let (x, y) = (real_matrix(1, N_ROWS, 3), real_matrix(2, N_ROWS, 2));
    let (w, w_t) = (real_matrix(3, 3, 2), real_matrix(4, 2, 3));
    same_output((N_ROWS, 2), |b, mode, out| b.matmul(&x, &w, mode, out));
    same_output((N_ROWS, 2), |b, mode, out| b.matmul_nt(&x, &w_t, mode, out));
    same_output((3, 2), |b, mode, out| b.matmul_tn(&x, &y, mode, out));
}

#[test]
fn sparse_products() {
    let mut x = real_matrix(1, N_NODES, 700);
    x.values_mut().iter_mut().for_each(|v| *v = if *v > 1.9 { *v } else { 0.0 });
    let x = sparse(&x);
    let (w, y) = (real_matrix(2, 700, 3), real_matrix(3, N_NODES, 3));
    same_output((N_NODES, 3), |b, mode, out| {
        b.sparse_matmul(&b.upload_sparse(&x), &w, mode, out);
    });
    same_output((700, 3), |b, mode, out| {
        b.sparse_matmul_tn(&b.upload_sparse(&x), &y, mode, out);
    });
}

#[test]
fn row_wise_primitives() {
    let (x, factors) = (real_matrix(1, N_ROWS, 3), real_matrix(2, N_ROWS, 1));
    let (bias, gain) = (real_matrix(3, 1, 3), real_matrix(4, 1, 3));
    same_output((N_ROWS, 3), |b, _, out| b.scale_rows(&factors, out));
    same_output((N_ROWS, 3), |b, _, out| b.add_scaled_rows(&x, &factors, out));
    same_output((N_ROWS, 3), |b, _, out| b.add_bias(&bias, out));
    let (even, mixed): (Vec<u32>, Vec<u32>) = (
        (0..N_ROWS as u32).map(|i| 2 * i).collect(),
        (0..N_ROWS as u32).map(|i| (2 * i + 5) % (2 * N_ROWS as u32)).collect(),
    );
    same_output((2 * N_ROWS, 3), |b, _, out| b.scatter_add(&x, &even, out));
    same_output((2 * N_ROWS, 3), |b, _, out| b.scatter_add(&x, &mixed, out));
    same_output((N_ROWS, 3), |b, _, out| b.smooth(0.3, &x, out));
    same_output((1, 3), |b, mode, out| b.column_sums(&x, mode, out));
    same_output((N_ROWS, 3), |b, _, out| b.relu(out));
    same_output((N_ROWS, 3), |b, _, out| b.relu_backward(&x, out));
    same_bits(|b| {
        let mut y = x.clone();
        let (normalised, inverse) = b.layer_norm(&gain, &bias, &mut y);
        let (mut dgain, mut doffset) = (b.zeros(1, 3), b.zeros(1, 3));
        let mut dy = real_matrix(5, N_ROWS, 3);
        let saved = (&normalised, &inverse);
        b.layer_norm_backward(&gain, saved, &mut dy, &mut dgain, &mut doffset);
        Bits::matrices(&[&y, &normalised, &inverse, &dy, &dgain, &doffset])
    });
}

#[test]
fn dropout() {
    let keys: Vec<u32> = (7..).take(N_NODES).collect();
    let draws = dropout_draws(1);
    same_output((N_NODES, 9), |b, _, out| b.dropout(0.4, draws, &keys, out));
    let x = sparse(&crate::integer_matrix(1, N_NODES, 9));
    let w = real_matrix(2, 9, 2);
    same_output((N_NODES, 2), |b, mode, out| {
        let dropped = b.sparse_dropout(0.4, draws, &keys, &b.upload_sparse(&x));
        b.sparse_matmul(&dropped, &w, mode, out);
    });
}

#[test]
fn aggregation() {
    let (n_local, n_columns) = (N_NODES, 3000);
    let block = block(n_columns, &edges(1, n_local, n_columns, 20_000));
    let (x, scale) = (real_matrix(2, n_columns, 3), real_matrix(3, n_columns, 1));
    let dy = real_matrix(4, n_local, 3);
    let mut gaps = scale.clone();
    gaps.values_mut().iter_mut().step_by(3).for_each(|factor| *factor = 0.0);
    for scale in [None, Some(&scale), Some(&gaps)] {
        same_output((n_local, 3), |b, _, out| b.aggregate(&b.upload_block(&block), scale, &x, out));
        same_output((n_columns, 3), |b, _, out| {
            b.aggregate_transposed(&b.upload_block(&block), scale, &dy, out);
        });
    }
}

#[test]
fn attention() {
    let (n, heads, width) = (N_NODES, 2, 3);
    let block = block(n, &edges(1, n, n, 20_000));
    let values = real_matrix(2, n, heads * width);
    let (source, target) = (real_matrix(3, n, heads), real_matrix(4, n, heads));
    let dy = real_matrix(5, n, heads * width);
    same_bits(|b| {
        let edges = b.upload_block(&block);
        let mut state: Attention<Matrix> = b.attention_begin(&values, &source, &target);
        b.attention_add_block(&edges, &values, &source, &target, &mut state);
        b.attention_finish(&mut state);
        let dot = b.head_dots(&dy, &state.values, heads);
        let rows = AttentionRows { log_sum: &state.max, dot: &dot, dy: &dy };
        let mut dvalues = b.zeros(n, heads * width);
        let (mut dsource, mut dtarget) = (b.zeros(n, heads), b.zeros(n, heads));
        for is_self in [true, false] {
            let grads =
                AttentionGrads { values: &mut dvalues, source: &mut dsource, target: &mut dtarget };
            if is_self {
                b.attention_self_backward(&values, &source, &target, rows, grads);
            } else {
                b.attention_block_backward(&edges, &values, &source, &target, rows, grads);
            }
        }
        let forward = [&state.values, &state.max, &state.sum, &dot];
        let mut bits = Bits::matrices(&forward);
        bits.0.extend(Bits::matrices(&[&dvalues, &dsource, &dtarget]).0);
        bits
    });
}

#[test]
fn attention_scores_and_heads() {
    let (heads, width) = (2, 3);
    let (x, weights) = (real_matrix(1, N_ROWS, heads * width), real_matrix(2, heads, width));
    let dscores = real_matrix(3, N_ROWS, heads);
    same_bits(|b| {
        let scores = b.attention_scores(&x, &weights);
        let (mut dx, mut dweights) = (x.clone(), weights.clone());
        b.attention_scores_backward(&x, &weights, &dscores, &mut dx, &mut dweights);
        let mean = b.head_mean(&x, heads);
        let back = b.head_mean_backward(&mean, heads);
        Bits::matrices(&[&scores, &dx, &dweights, &mean, &back])
    });
}

#[test]
fn losses_and_optimiser() {
    let logits = real_matrix(1, N_NODES, 5);
    let rows: Vec<u32> = (0..N_NODES as u32).filter(|row| row % 3 != 1).collect();
    let mut sequence = sequence(2);
    let classes: Vec<u32> = rows.iter().map(|_| sequence.below(5)).collect();
    let targets: Vec<f32> = (0..rows.len() * 5).map(|_| sequence.below(2) as f32).collect();
    let targets = crate::matrix(rows.len(), 5, &targets);
    // Ascending, as labelled rows are, and in another order.
    let backwards: Vec<u32> = rows.iter().rev().copied().collect();
    for rows in [&rows, &backwards] {
        same_bits(|b| {
            let mut dlogits = b.matrix_to_assign(N_NODES, 5);
            let loss = b.softmax_cross_entropy(&logits, rows, &classes, &mut dlogits);
            Bits::matrices(&[&dlogits]).and(loss)
        });
        same_bits(|b| {
            let mut dlogits = b.matrix_to_assign(N_NODES, 5);
            let loss = b.binary_cross_entropy(&logits, rows, &targets, &mut dlogits);
            Bits::matrices(&[&dlogits]).and(loss)
        });
    }
    let (learning_rate, beta1, beta2, epsilon) = (0.01, 0.9, 0.999, 1e-8);
    let step = AdamStep { learning_rate, beta1, beta2, epsilon, weight_decay: 0.1, step: 3 };
    same_bits(|b| {
        let (mut weights, mut first) = (real_matrix(3, 7000, 9), real_matrix(4, 7000, 9));
        let mut second = crate::matrix(7000, 9, &[0.25; 63_000]);
        b.adam(&step, &real_matrix(5, 7000, 9), (&mut first, &mut second), &mut weights);
        Bits::matrices(&[&weights, &first, &second])
    });
}
