//! Attention, block by block, and its gradients.

use sylvie_tensor::{Attention, AttentionGrads, AttentionRows, Backend};

use super::edges::{block, edges};
use super::{Host, assert_close, dot};

/// One run of attention over own rows and the columns of one block.
struct Case {
    n_heads: usize,
    width: usize,
    edges: Vec<(u32, u32)>,
    /// Values and source scores: of the rows themselves, and of the block's columns.
    own: (Host, Host),
    columns: (Host, Host),
    target: Host,
    dy: Host,
}

fn leaky(score: f64) -> f64 {
    if score > 0.0 { score } else { 0.2 * score }
}

impl Case {
    fn new(n_local: usize, n_columns: usize, n_heads: usize, width: usize) -> Self {
        let mut case = Self {
            n_heads,
            width,
            edges: edges(3, n_local, n_columns),
            own: (Host::random(1, n_local, n_heads * width), Host::random(2, n_local, n_heads)),
            columns: (
                Host::random(3, n_columns, n_heads * width),
                Host::random(4, n_columns, n_heads),
            ),
            target: Host::random(5, n_local, n_heads),
            dy: Host::random(6, n_local, n_heads * width),
        };
        // Columns that take no part, whose values may be anything.
        for column in (1..n_columns).step_by(4) {
            case.columns.1.values[column * n_heads..(column + 1) * n_heads].fill(f32::NEG_INFINITY);
            let size = n_heads * width;
            case.columns.0.values[column * size..(column + 1) * size].fill(f32::NAN);
        }
        case
    }

    /// Who takes part for a row and head: values, source scores, and the place in them.
    fn readers(&self, row: usize, head: usize) -> Vec<(&(Host, Host), usize)> {
        let block = self.edges.iter().filter(|edge| edge.0 as usize == row);
        let columns = block.map(|edge| (&self.columns, edge.1 as usize));
        let all = std::iter::once((&self.own, row)).chain(columns);
        all.filter(|(rows, place)| rows.1.at(*place, head) != f64::NEG_INFINITY).collect()
    }

    fn head_of(&self, x: &Host, row: usize, head: usize) -> Vec<f64> {
        x.row(row)[head * self.width..(head + 1) * self.width].to_vec()
    }

    fn check<B: Backend>(&self, backend: &B) {
        let (n_local, n_heads, width) = (self.target.n_rows, self.n_heads, self.width);
        let what =
            format!("{n_local} rows, {} edges, {n_heads} heads of {width}", self.edges.len());
        let adjacency = backend.upload_block(&block(self.columns.0.n_rows, &self.edges));
        let [own, own_source] = [&self.own.0, &self.own.1].map(|x| x.on(backend));
        let [columns, source] = [&self.columns.0, &self.columns.1].map(|x| x.on(backend));
        let (target, dy) = (self.target.on(backend), self.dy.on(backend));
        let mut state = backend.attention_begin(&own, &own_source, &target);
        backend.attention_add_block(&adjacency, &columns, &source, &target, &mut state);
        backend.attention_finish(&mut state);
        let (mut mean, mut log_sum) = (Vec::new(), Vec::new());
        for row in 0..n_local {
            for head in 0..n_heads {
                let mut sums = vec![0.0; width];
                let mut sum = 0.0;
                for (rows, place) in self.readers(row, head) {
                    let weight = leaky(rows.1.at(place, head) + self.target.at(row, head)).exp();
                    sum += weight;
                    let values = self.head_of(&rows.0, place, head);
                    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
                }
                mean.extend(sums.iter().map(|value| value / sum));
                log_sum.push(sum.ln());
            }
        }
        assert_close(backend, &state.values, &mean, &format!("attention, {what}"));
        assert_close(backend, &state.max, &log_sum, &format!("logs of sums, {what}"));
        let dots = backend.head_dots(&dy, &state.values, n_heads);
        self.check_backward(backend, &state, (&dots, &dy), &log_sum, &mean, &what);
    }

    fn check_backward<B: Backend>(
        &self,
        backend: &B,
        state: &Attention<B::Matrix>,
        (dots, dy): (&B::Matrix, &B::Matrix),
        log_sum: &[f64],
        mean: &[f64],
        what: &str,
    ) {
        let (n_local, n_heads, width) = (self.target.n_rows, self.n_heads, self.width);
        let rows = AttentionRows { log_sum: &state.max, dot: dots, dy };
        let target = self.target.on(backend);
        let zeros = |x: &Host| vec![0.0; x.values.len()];
        let mut dtarget = zeros(&self.target);
        let mut found_target = backend.zeros(n_local, n_heads);
        for is_own in [true, false] {
            let side = if is_own { &self.own } else { &self.columns };
            let (mut dvalues, mut dsource) = (zeros(&side.0), zeros(&side.1));
            for row in 0..n_local {
                for head in 0..n_heads {
                    let dy = self.head_of(&self.dy, row, head);
                    let at = row * n_heads + head;
                    let dot_out = dot(&dy, &mean[at * width..(at + 1) * width]);
                    for (rows, place) in self.readers(row, head) {
                        if !std::ptr::eq(rows, side) {
                            continue;
                        }
                        let score = side.1.at(place, head) + self.target.at(row, head);
                        let weight = (leaky(score) - log_sum[at]).exp();
                        let dweight = dot(&dy, &self.head_of(&side.0, place, head));
                        let slope = if score > 0.0 { 1.0 } else { 0.2 };
                        let dscore = weight * (dweight - dot_out) * slope;
                        for (j, dy) in dy.iter().enumerate() {
                            dvalues[(place * n_heads + head) * width + j] += weight * dy;
                        }
                        dsource[place * n_heads + head] += dscore;
                        dtarget[at] += dscore;
                    }
                }
            }
            let (values, source) = (side.0.on(backend), side.1.on(backend));
            let mut found_values = backend.zeros(side.0.n_rows, n_heads * width);
            let mut found_source = backend.zeros(side.1.n_rows, n_heads);
            let grads = AttentionGrads {
                values: &mut found_values,
                source: &mut found_source,
                target: &mut found_target,
            };
            if is_own {
                backend.attention_self_backward(&values, &source, &target, rows, grads);
            } else {
                let adjacency = backend.upload_block(&block(side.0.n_rows, &self.edges));
                backend
                    .attention_block_backward(&adjacency, &values, &source, &target, rows, grads);
            }
            let name = if is_own { "own rows" } else { "columns" };
            assert_close(backend, &found_values, &dvalues, &format!("values of {name}, {what}"));
            assert_close(backend, &found_source, &dsource, &format!("scores of {name}, {what}"));
        }
        assert_close(backend, &found_target, &dtarget, &format!("target scores, {what}"));
    }
}

/// Scores, the running softmax with its gradients, products and means of heads.
pub fn attention<B: Backend>(backend: &B) {
    for (n_local, n_columns, n_heads, width) in
        [(1, 1, 1, 1), (30, 12, 2, 5), (17, 40, 4, 8), (9, 5, 1, 70), (6, 0, 3, 4)]
    {
        Case::new(n_local, n_columns, n_heads, width).check(backend);
    }
    for (n_rows, n_heads, width) in [(1, 1, 1), (0, 2, 3), (40, 3, 7), (600, 2, 16), (5, 4, 33)] {
        scores_and_heads(backend, n_rows, n_heads, width);
    }
}

fn scores_and_heads<B: Backend>(backend: &B, n_rows: usize, n_heads: usize, width: usize) {
    let what = |name: &str| format!("{name}, {n_rows} rows, {n_heads} heads of {width}");
    let size = n_heads * width;
    let (x, y) = (Host::random(1, n_rows, size), Host::random(2, n_rows, size));
    let (weights, dscores) = (Host::random(3, n_heads, width), Host::random(4, n_rows, n_heads));
    let heads = |f: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
        let places = (0..n_rows).flat_map(|i| (0..n_heads).map(move |h| (i, h)));
        places.map(|(i, h)| f(i, h)).collect()
    };
    let at = |h: usize, j: usize| h * width + j;
    let (x_on, y_on, weights_on) = (x.on(backend), y.on(backend), weights.on(backend));
    let found = backend.attention_scores(&x_on, &weights_on);
    let exact = heads(&|i, h| (0..width).map(|j| x.at(i, at(h, j)) * weights.at(h, j)).sum());
    assert_close(backend, &found, &exact, &what("attention_scores"));
    let (mut dx, mut dweights) = (y.on(backend), weights.on(backend));
    let dscores_on = dscores.on(backend);
    backend.attention_scores_backward(&x_on, &weights_on, &dscores_on, &mut dx, &mut dweights);
    let (mut dx_exact, mut dweights_exact) = (y.doubles(), weights.doubles());
    for i in 0..n_rows {
        for (h, j) in (0..n_heads).flat_map(|h| (0..width).map(move |j| (h, j))) {
            dx_exact[i * size + at(h, j)] += dscores.at(i, h) * weights.at(h, j);
            dweights_exact[at(h, j)] += dscores.at(i, h) * x.at(i, at(h, j));
        }
    }
    assert_close(backend, &dx, &dx_exact, &what("gradient of values"));
    assert_close(backend, &dweights, &dweights_exact, &what("gradient of score weights"));
    let exact = heads(&|i, h| (0..width).map(|j| x.at(i, at(h, j)) * y.at(i, at(h, j))).sum());
    assert_close(backend, &backend.head_dots(&x_on, &y_on, n_heads), &exact, &what("head_dots"));
    let mut mean = Vec::new();
    for (i, j) in (0..n_rows).flat_map(|i| (0..width).map(move |j| (i, j))) {
        mean.push((0..n_heads).map(|h| x.at(i, at(h, j))).sum::<f64>() / n_heads as f64);
    }
    let found = backend.head_mean(&x_on, n_heads);
    assert_close(backend, &found, &mean, &what("head_mean"));
    let dy = Host::random(5, n_rows, width);
    let found = backend.head_mean_backward(&dy.on(backend), n_heads);
    let share = |i: usize, j: usize| dy.at(i, j) / n_heads as f64;
    // Of one head, which all share, or of each.
    let n_copies = if backend.shape(&found).1 == width { 1 } else { n_heads };
    let mut exact = Vec::new();
    for i in 0..n_rows {
        (0..n_copies * width).for_each(|place| exact.push(share(i, place % width)));
    }
    assert_close(backend, &found, &exact, &what("head_mean_backward"));
    let exact = heads(&|i, h| (0..width).map(|j| share(i, j) * y.at(i, at(h, j))).sum());
    let dots = backend.head_dots(&found, &y_on, n_heads);
    assert_close(backend, &dots, &exact, &what("head_dots of a gradient of the mean"));
}
