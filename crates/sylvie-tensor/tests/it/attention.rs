//! Attention over edges against a dense softmax in f64.

use proptest::prelude::*;
use sylvie_tensor::{Attention, AttentionGrads, AttentionRows, Backend};

use crate::{Matrix, assert_close, backend, block, edges, matrix, real_matrix, row_counts};

/// Own rows first, then halo rows; the edges lead from any of them to own rows.
struct Case {
    n_local: usize,
    n_heads: usize,
    edges: Vec<(u32, u32)>,
    /// Of all rows.
    values: Matrix,
    source: Matrix,
    /// Of the own rows.
    target: Matrix,
    dy: Matrix,
}

/// Results in f64: output and log of the sum of exponentials, then gradients.
struct Dense {
    y: Vec<f64>,
    log_sum: Vec<f64>,
    dvalues: Vec<f64>,
    dsource: Vec<f64>,
    dtarget: Vec<f64>,
}

fn leaky(score: f64) -> (f64, f64) {
    if score > 0.0 { (score, 1.0) } else { (0.2 * score, 0.2) }
}

impl Case {
    fn new(seed: u64, n_local: usize, n_halo: usize, n_heads: usize, width: usize) -> Self {
        let n = n_local + n_halo;
        Self {
            n_local,
            n_heads,
            edges: edges(seed, n_local, n, 3 * n),
            values: real_matrix(seed + 1, n, n_heads * width),
            source: real_matrix(seed + 2, n, n_heads),
            target: real_matrix(seed + 3, n_local, n_heads),
            dy: real_matrix(seed + 4, n_local, n_heads * width),
        }
    }

    fn width(&self) -> usize {
        self.values.n_cols() / self.n_heads
    }

    /// The columns that a row reads: itself, then its neighbours.
    fn columns(&self, row: usize) -> Vec<usize> {
        let read = self.edges.iter().filter(|edge| edge.0 as usize == row);
        std::iter::once(row).chain(read.map(|edge| edge.1 as usize)).collect()
    }

    fn dense(&self) -> Dense {
        let (n_heads, width, n) = (self.n_heads, self.width(), self.values.n_rows());
        let mut dense = Dense {
            y: vec![0.0; self.n_local * n_heads * width],
            log_sum: vec![0.0; self.n_local * n_heads],
            dvalues: vec![0.0; n * n_heads * width],
            dsource: vec![0.0; n * n_heads],
            dtarget: vec![0.0; self.n_local * n_heads],
        };
        for row in 0..self.n_local {
            let columns = self.columns(row);
            for head in 0..n_heads {
                self.add_row(row, head, &columns, &mut dense);
            }
        }
        dense
    }

    fn add_row(&self, row: usize, head: usize, columns: &[usize], dense: &mut Dense) {
        let (n_heads, width) = (self.n_heads, self.width());
        // What takes no part is not looked at: it may be anything.
        let takes_part = |c: &&usize| self.source.row(**c)[head] != f32::NEG_INFINITY;
        let columns: Vec<usize> = columns.iter().filter(takes_part).copied().collect();
        let value = |x: &Matrix, row: usize, j: usize| f64::from(x.row(row)[j]);
        let score =
            |&c: &usize| leaky(value(&self.source, c, head) + value(&self.target, row, head));
        let max = columns.iter().map(|c| score(c).0).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = columns.iter().map(|c| (score(c).0 - max).exp()).sum();
        let weight = |c: &usize| (score(c).0 - max).exp() / sum;
        let own = row * n_heads + head;
        dense.log_sum[own] = max + sum.ln();
        for j in 0..width {
            let part =
                columns.iter().map(|c| weight(c) * value(&self.values, *c, head * width + j));
            dense.y[own * width + j] = part.sum();
        }
        let dy = |j: usize| value(&self.dy, row, head * width + j);
        let dot: f64 = (0..width).map(|j| dy(j) * dense.y[own * width + j]).sum();
        for c in &columns {
            let place = c * n_heads + head;
            let dweight: f64 =
                (0..width).map(|j| dy(j) * value(&self.values, *c, head * width + j)).sum();
            let dscore = weight(c) * (dweight - dot) * score(c).1;
            dense.dsource[place] += dscore;
            dense.dtarget[own] += dscore;
            for j in 0..width {
                dense.dvalues[place * width + j] += weight(c) * dy(j);
            }
        }
    }

    /// Forward and backward, the halo cut into blocks at `cuts`; checks all against the dense version.
    fn check(&self, cuts: &[usize], tolerance: f64) {
        let backend = backend();
        let n = self.values.n_rows();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| self.n_local + cut).collect();
        ends.extend([0, self.n_local, n]);
        ends.sort_unstable();
        let blocks: Vec<_> = ends.windows(2).map(|ends| (ends[0], ends[1])).collect();
        let rows = |x: &Matrix, (first, last): (usize, usize)| {
            let width = x.n_cols();
            matrix(last - first, width, &x.values()[first * width..last * width])
        };
        let adjacency = |(first, last): (usize, usize)| {
            let inside = |edge: &&(u32, u32)| (first..last).contains(&(edge.1 as usize));
            let edges = self.edges.iter().filter(inside);
            let edges: Vec<_> = edges.map(|&(row, c)| (row, c - first as u32)).collect();
            backend.upload_block(&block(last - first, &edges))
        };

        let own = (0, self.n_local);
        let target = &self.target;
        let (values, source) = (rows(&self.values, own), rows(&self.source, own));
        let mut state: Attention<Matrix> = backend.attention_begin(&values, &source, target);
        for &ends in &blocks {
            let (values, source) = (rows(&self.values, ends), rows(&self.source, ends));
            let edges = adjacency(ends);
            backend.attention_add_block(&edges, &values, &source, target, &mut state);
        }
        backend.attention_finish(&mut state);
        let dense = self.dense();
        assert_close(state.values.values(), &dense.y, tolerance, "output");
        assert_close(state.max.values(), &dense.log_sum, tolerance, "log of the sum");

        let dot = backend.head_dots(&self.dy, &state.values, self.n_heads);
        let attention = AttentionRows { log_sum: &state.max, dot: &dot, dy: &self.dy };
        let mut dtarget = backend.zeros(self.n_local, self.n_heads);
        let (mut dvalues, mut dsource) = (Vec::new(), Vec::new());
        for (index, &ends) in blocks.iter().enumerate() {
            let (values, source) = (rows(&self.values, ends), rows(&self.source, ends));
            let mut dv = backend.zeros(values.n_rows(), values.n_cols());
            let mut ds = backend.zeros(source.n_rows(), source.n_cols());
            let grads = AttentionGrads { values: &mut dv, source: &mut ds, target: &mut dtarget };
            let edges = adjacency(ends);
            backend.attention_block_backward(&edges, &values, &source, target, attention, grads);
            // The first block is that of the own rows.
            if index == 0 {
                let grads =
                    AttentionGrads { values: &mut dv, source: &mut ds, target: &mut dtarget };
                backend.attention_self_backward(&values, &source, target, attention, grads);
            }
            dvalues.extend_from_slice(dv.values());
            dsource.extend_from_slice(ds.values());
        }
        assert_close(&dvalues, &dense.dvalues, tolerance, "values' gradients");
        assert_close(&dsource, &dense.dsource, tolerance, "source scores' gradients");
        assert_close(dtarget.values(), &dense.dtarget, tolerance, "target scores' gradients");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn is_a_dense_softmax_for_any_split(
        seed in 0..u64::MAX - 8,
        (n_local, n_halo, cuts) in (0..30_usize, 0..30_usize).prop_flat_map(|(local, halo)| {
            (Just(local), Just(halo), proptest::collection::vec(0..=halo, 0..4))
        }),
        n_heads in 1..4_usize,
        width in 1..11_usize,
    ) {
        Case::new(seed, n_local, n_halo, n_heads, width).check(&cuts, 1e-5);
    }

    #[test]
    fn scores_are_dot_products(
        seed in 0..u64::MAX - 8,
        n in row_counts(),
        n_heads in 1..4_usize,
        width in 1..20_usize,
    ) {
        let backend = backend();
        let x = crate::integer_matrix(seed, n, n_heads * width);
        let weights = crate::integer_matrix(seed + 1, n_heads, width);
        let at = |i: usize, h: usize, j: usize| x.row(i)[h * width + j];
        let scores = backend.attention_scores(&x, &weights);
        let expected: Vec<f32> = (0..n * n_heads)
            .map(|place| (place / n_heads, place % n_heads))
            .map(|(i, h)| (0..width).map(|j| at(i, h, j) * weights.row(h)[j]).sum())
            .collect();
        prop_assert_eq!(scores.values(), expected);
        let dots = backend.head_dots(&x, &x, n_heads);
        let expected: Vec<f32> = (0..n * n_heads)
            .map(|place| (place / n_heads, place % n_heads))
            .map(|(i, h)| (0..width).map(|j| at(i, h, j) * at(i, h, j)).sum())
            .collect();
        prop_assert_eq!(dots.values(), expected);

        let dscores = crate::integer_matrix(seed + 2, n, n_heads);
        let before = crate::integer_matrix(seed + 3, n, n_heads * width);
        let dweights_before = crate::integer_matrix(seed + 4, n_heads, width);
        let (mut dx, mut dweights) = (before.clone(), dweights_before.clone());
        backend.attention_scores_backward(&x, &weights, &dscores, &mut dx, &mut dweights);
        for i in 0..n {
            for h in 0..n_heads {
                for j in 0..width {
                    let added = dscores.row(i)[h] * weights.row(h)[j];
                    prop_assert_eq!(dx.row(i)[h * width + j], before.row(i)[h * width + j] + added);
                }
            }
        }
        for h in 0..n_heads {
            for j in 0..width {
                let sum: f32 = (0..n).map(|i| dscores.row(i)[h] * at(i, h, j)).sum();
                prop_assert_eq!(dweights.row(h)[j], dweights_before.row(h)[j] + sum);
            }
        }
    }

    #[test]
    fn mean_over_heads(
        seed in 0..u64::MAX - 8,
        n in row_counts(),
        // A share of a power of two is exact.
        n_heads in proptest::sample::select(vec![1_usize, 2, 4, 8]),
        width in 1..6_usize,
    ) {
        let backend = backend();
        let x = crate::integer_matrix(seed, n, n_heads * width);
        let mean = backend.head_mean(&x, n_heads);
        prop_assert_eq!((mean.n_rows(), mean.n_cols()), (n, width));
        let back = backend.head_mean_backward(&mean, n_heads);
        prop_assert_eq!((back.n_rows(), back.n_cols()), (n, width));
        for i in 0..n {
            for j in 0..width {
                let sum: f32 = (0..n_heads).map(|h| x.row(i)[h * width + j]).sum();
                prop_assert_eq!(mean.row(i)[j], sum / n_heads as f32);
                prop_assert_eq!(back.row(i)[j], mean.row(i)[j] / n_heads as f32);
            }
        }
    }
}

#[test]
fn rows_around_a_chunk() {
    for n_local in [127, 128, 129, 300] {
        Case::new(n_local as u64, n_local, 140, 2, 3).check(&[10, 129], 1e-5);
    }
}

/// More edges of a row and of a column than are weighed together.
#[test]
fn hubs() {
    let (n_local, n_halo) = (300, 250);
    for (n_heads, width) in [(1, 4), (4, 8)] {
        let mut case = Case::new(2, n_local, n_halo, n_heads, width);
        case.edges.extend((0..(n_local + n_halo) as u32).map(|column| (17, column)));
        for column in [3, n_local as u32 + 120] {
            case.edges.extend((0..n_local as u32).map(|row| (row, column)));
        }
        case.edges.sort_unstable();
        case.edges.dedup();
        case.check(&[], 1e-5);
    }
}

/// Heads that go through the edges together, in some of which columns take no part.
#[test]
fn heads_side_by_side() {
    let (n_local, n_halo) = (20, 30);
    for (n_heads, width) in [(4, 8), (6, 8), (9, 16), (2, 24), (3, 32), (2, 33), (1, 136)] {
        let mut case = Case::new(7, n_local, n_halo, n_heads, width);
        for column in n_local..n_local + n_halo {
            for head in 0..n_heads {
                let place = column * n_heads + head;
                if place % 3 == 0 || column % 5 == 0 {
                    case.source.values_mut()[place] = f32::NEG_INFINITY;
                    case.values.values_mut()[place * width..][..width].fill(f32::NAN);
                }
            }
        }
        case.check(&[7, 20], 1e-5);
    }
}

#[test]
fn scores_beyond_the_range_of_the_exponential() {
    let mut case = Case::new(1, 12, 20, 2, 3);
    for matrix in [&mut case.source, &mut case.target] {
        matrix.values_mut().iter_mut().for_each(|score| *score *= 400.0);
    }
    // A score of 1600 is known to 1e-4, and its exponential is no better.
    case.check(&[7], 1e-3);
}

/// The dense version's own gradients are the slopes of its output.
#[test]
fn the_dense_version_differentiates_itself() {
    let case = Case::new(5, 6, 5, 2, 3);
    let value = |case: &Case| -> f64 {
        let pairs = case.dense().y.into_iter().zip(case.dy.values());
        pairs.map(|(y, &dy)| y * f64::from(dy)).sum()
    };
    let dense = case.dense();
    let check = |pick: fn(&mut Case) -> &mut Matrix, gradients: &[f64]| {
        for (place, gradient) in gradients.iter().enumerate() {
            let moved = |by: f32| {
                let mut case = Case::new(5, 6, 5, 2, 3);
                let values = pick(&mut case).values_mut();
                values[place] += by;
                (f64::from(values[place]), value(&case))
            };
            let ((high, up), (low, down)) = (moved(1e-3), moved(-1e-3));
            let slope = (up - down) / (high - low);
            assert!((slope - gradient).abs() < 1e-5, "{place}: {slope} and {gradient}");
        }
    };
    check(|case| &mut case.values, &dense.dvalues);
    check(|case| &mut case.source, &dense.dsource);
    check(|case| &mut case.target, &dense.dtarget);
}

#[test]
fn source_scores_of_minus_infinity_have_no_weight() {
    let mut case = Case::new(3, 20, 30, 3, 4);
    // Own rows keep their edge to themselves, some heads of other columns are shut.
    for score in case.source.values_mut()[20 * 3..].iter_mut().step_by(2) {
        *score = f32::NEG_INFINITY;
    }
    case.check(&[7, 20], 1e-5);
}

/// Everything that goes back from `dy`, with edges to oneself.
fn gradients(case: &Case, dy: &Matrix) -> Vec<Matrix> {
    let (backend, n, n_heads) = (backend(), case.n_local, case.n_heads);
    let (values, source, target) = (&case.values, &case.source, &case.target);
    let adjacency = backend.upload_block(&block(n, &case.edges));
    let mut state: Attention<Matrix> = backend.attention_begin(values, source, target);
    backend.attention_add_block(&adjacency, values, source, target, &mut state);
    backend.attention_finish(&mut state);
    let dot = backend.head_dots(dy, &state.values, n_heads);
    let rows = AttentionRows { log_sum: &state.max, dot: &dot, dy };
    let mut dvalues = backend.zeros(n, values.n_cols());
    let (mut dsource, mut dtarget) = (backend.zeros(n, n_heads), backend.zeros(n, n_heads));
    let grads = AttentionGrads { values: &mut dvalues, source: &mut dsource, target: &mut dtarget };
    backend.attention_self_backward(values, source, target, rows, grads);
    let grads = AttentionGrads { values: &mut dvalues, source: &mut dsource, target: &mut dtarget };
    backend.attention_block_backward(&adjacency, values, source, target, rows, grads);
    vec![dot, dvalues, dsource, dtarget]
}

/// One head's gradient for all is the same as each head's own.
#[test]
fn heads_that_share_their_gradient() {
    for (n_heads, width) in [(2, 3), (4, 8), (3, 47), (2, 80), (1, 9)] {
        let case = Case::new(3, 60, 0, n_heads, width);
        let shared = real_matrix(9, case.n_local, width);
        let rows = shared.values().chunks_exact(width);
        let each: Vec<f32> = rows.flat_map(|row| row.repeat(n_heads)).collect();
        let expected = gradients(&case, &matrix(case.n_local, n_heads * width, &each));
        for (found, expected) in gradients(&case, &shared).iter().zip(&expected) {
            assert_eq!(crate::bits(found.values()), crate::bits(expected.values()));
            assert!(found.values().iter().any(|&value| value != 0.0));
        }
    }
}

/// Results of one block, forward and backward, with no edge of a row to itself.
fn one_block(n_local: usize, edges: &[(u32, u32)], inputs: [&Matrix; 4]) -> Vec<Matrix> {
    let [values, source, target, dy] = inputs;
    let backend = backend();
    let adjacency = backend.upload_block(&block(values.n_rows(), edges));
    // Rows that take no part in their own softmax.
    let nobody = matrix(n_local, 1, &vec![f32::NEG_INFINITY; n_local]);
    let nothing = matrix(n_local, values.n_cols(), &vec![f32::NAN; n_local * values.n_cols()]);
    let mut state: Attention<Matrix> = backend.attention_begin(&nothing, &nobody, target);
    backend.attention_add_block(&adjacency, values, source, target, &mut state);
    backend.attention_finish(&mut state);
    let dot = backend.head_dots(dy, &state.values, 1);
    let rows = AttentionRows { log_sum: &state.max, dot: &dot, dy };
    let mut own = (backend.zeros(n_local, values.n_cols()), backend.zeros(n_local, 1));
    let mut halo =
        (backend.zeros(values.n_rows(), values.n_cols()), backend.zeros(values.n_rows(), 1));
    let mut dtarget = backend.zeros(n_local, 1);
    let grads = AttentionGrads { values: &mut own.0, source: &mut own.1, target: &mut dtarget };
    backend.attention_self_backward(&nothing, &nobody, target, rows, grads);
    for gradients in [&own.0, &own.1, &dtarget] {
        assert!(gradients.values().iter().all(|&value| value == 0.0), "no part, no gradient");
    }
    let grads = AttentionGrads { values: &mut halo.0, source: &mut halo.1, target: &mut dtarget };
    backend.attention_block_backward(&adjacency, values, source, target, rows, grads);
    vec![state.values, state.max, dot, halo.0, halo.1, dtarget]
}

/// Edges of columns that take no part may as well not be there, whatever their values.
#[test]
fn columns_that_take_no_part_are_not_read() {
    let (n_local, n_columns, width) = (150, 90, 9);
    let all = edges(1, n_local, n_columns, 400);
    let is_shut = |column: u32| column % 3 != 1;
    let open: Vec<_> = all.iter().copied().filter(|&(_, column)| !is_shut(column)).collect();
    let (mut values, mut source) = (real_matrix(2, n_columns, width), real_matrix(3, n_columns, 1));
    let (target, dy) = (real_matrix(4, n_local, 1), real_matrix(5, n_local, width));
    let expected = one_block(n_local, &open, [&values, &source, &target, &dy]);
    for column in (0..n_columns).filter(|&column| is_shut(column as u32)) {
        source.values_mut()[column] = f32::NEG_INFINITY;
        values.values_mut()[column * width..][..width].fill(f32::NAN);
    }
    let found = one_block(n_local, &all, [&values, &source, &target, &dy]);
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(crate::bits(found.values()), crate::bits(expected.values()));
    }
    assert!(found[0].values().iter().all(|value| value.is_finite()));
    let alone = (0..n_local as u32).find(|&row| open.iter().all(|edge| edge.0 != row));
    let alone = alone.expect("a row that nobody takes part in") as usize;
    assert!(found[0].row(alone).iter().all(|&value| value == 0.0));
    assert_eq!(found[1].row(alone), [f32::NEG_INFINITY]);
}
