//! The gradients of each layer against the slopes of its output.
//!
//! Outputs are f32, so that single differences are noisy. Each tensor is moved as a whole in random
//! directions instead; two step sizes show where a kink lies in between, and give a slope of fourth
//! order where none does.

use std::sync::Arc;

use sylvie_gnn::{
    ColumnFactors, Context, Dropout, Input, KeptAggregate, ModelConfig, ModelKind, Network,
    NormKind, SavedLayer, Structure, Weights,
};
use sylvie_graph::{DenseMatrix, Direction, Features, PartGraph, SparseMatrix};
use sylvie_tensor::{Backend, CpuBackend};

use crate::{KINDS, Matrix, config, context, dropout, graph, reals, sequence, split};

const N_DIRECTIONS: usize = 8;
/// Directions that must meet no kink.
const N_SMOOTH: usize = 4;
const STEP: f32 = 0.01;
const KEPT_WIDTH: usize = 40;

/// A layer on a part, as a function of the rows it reads and its weights.
struct Problem {
    name: String,
    network: Network,
    layer: usize,
    part: PartGraph,
    backend: CpuBackend,
    structure: Structure<CpuBackend>,
    dropout: Option<Dropout>,
    /// Gives the scalar `sum(y * r)`.
    r: Vec<f32>,
    kept: Option<KeptAggregate<CpuBackend>>,
    /// An entry a halo block; absent where all factors are 1.
    factors: Vec<Option<ColumnFactors<CpuBackend>>>,
    keeps_halo: bool,
}

/// Names and values of what is moved: own rows, halo rows by block, then the layer's tensors.
type Point = Vec<(String, Vec<f32>)>;

impl Problem {
    fn new(name: String, config: ModelConfig, layer: usize, part: PartGraph, rate: f32) -> Self {
        let backend = CpuBackend::new(1);
        let structure = Structure::new(&backend, &part);
        let r = reals(77, part.n_local() * config.n_columns_out(layer));
        let dropout = (rate > 0.0).then(|| dropout(rate, layer as u8));
        let network = Network::new(config).expect("a network");
        let factors = part.halo_blocks().iter().map(|_| None).collect();
        let (kept, keeps_halo) = (None, true);
        Self {
            name,
            network,
            layer,
            part,
            backend,
            structure,
            dropout,
            r,
            kept,
            factors,
            keeps_halo,
        }
    }

    /// Drops about half the rows of the first block and weighs the others; the second stays as it is.
    fn sample(&mut self, seed: u64, factor: f32) {
        let mut draws = sequence(seed);
        let block = &self.structure.halo[0];
        let factors: Vec<f32> =
            (0..block.n_rows).map(|_| if draws.below(2) == 0 { 0.0 } else { factor }).collect();
        let config = self.network.config();
        self.factors[0] = Some(ColumnFactors::new(&self.backend, config, block, &factors));
    }

    fn context(&self) -> Context<'_, CpuBackend> {
        let ctx = context(&self.backend, &self.structure, self.dropout);
        Context { keeps_halo: self.keeps_halo, ..ctx }
    }

    fn config(&self) -> &ModelConfig {
        self.network.config()
    }

    fn reads_halo(&self) -> bool {
        self.config().is_graph_layer(self.layer)
    }

    /// Random rows and weights. Where ReLU follows, columns are shifted far to either side of its
    /// kink, in turns.
    fn start(&self, seed: u64) -> Point {
        let width = self.config().n_columns_in(self.layer);
        let mut point = Point::new();
        if self.kept.is_none() {
            point.push(("own".to_owned(), reals(seed, self.part.n_local() * width)));
            if self.reads_halo() {
                for block in self.part.halo_blocks() {
                    let values = reals(seed + 1, block.column_ids.len() * width);
                    point.push((format!("halo {}", block.owner), values));
                }
            }
        }
        let has_norm = self.config().norm == NormKind::Layer;
        for (number, spec) in (2..).zip(self.config().tensors(self.layer)) {
            let mut values = reals(seed + number, spec.n_rows * spec.n_cols);
            let is_shift = spec.name == "ln_b" || (spec.name == "b" && !has_norm);
            if is_shift && !self.config().is_last(self.layer) {
                for (column, value) in values.iter_mut().enumerate() {
                    *value += if column % 2 == 0 { 6.0 } else { -6.0 };
                }
            }
            point.push((spec.name.to_owned(), values));
        }
        if self.config().kind == ModelKind::Gat && self.reads_halo() {
            self.shift_scores(&mut point);
        }
        point
    }

    /// Makes attention's source scores large, of a sign that changes from row to row, so that a row
    /// that reads several meets both sides of LeakyReLU but not its kink, which every edge has.
    fn shift_scores(&self, point: &mut Point) {
        for (name, values) in point {
            let n_columns = self.config().n_columns_in(self.layer);
            for (place, value) in values.iter_mut().enumerate() {
                *value = match name.as_str() {
                    "w" => 0.3 + 0.3 * *value,
                    "a_src" => 0.5 + 0.3 * *value,
                    "a_dst" => 0.3 * *value,
                    "b" | "ln_w" | "ln_b" => *value,
                    _ if (place / n_columns).is_multiple_of(2) => 1.0 + 0.5 * *value,
                    _ => -1.0 + 0.5 * *value,
                };
            }
        }
    }

    fn weights(&self, point: &Point) -> Weights<CpuBackend> {
        let config = self.config();
        let n_tensors = config.tensors(self.layer).len();
        let mut own = point[point.len() - n_tensors..].iter();
        let mut tensors = Vec::new();
        for layer in 0..config.n_layers() {
            for spec in config.tensors(layer) {
                tensors.push(match layer == self.layer {
                    true => own.next().expect("a tensor of the layer").1.clone(),
                    false => vec![0.0; spec.n_rows * spec.n_cols],
                });
            }
        }
        Weights::from_host(&self.backend, config, &tensors)
    }

    fn rows(&self, values: &[f32]) -> Input<CpuBackend> {
        let width = self.config().n_columns_in(self.layer);
        Input::dense(self.backend.upload(values.len() / width, width, values))
    }

    fn forward(&self, point: &Point) -> (Arc<Matrix>, SavedLayer<CpuBackend>) {
        let (ctx, weights) = (self.context(), self.weights(point));
        if let Some(kept) = &self.kept {
            return self.network.first_layer_from_kept(ctx, &weights, kept);
        }
        let mut partial = self.network.begin(self.layer, ctx, &weights, &self.rows(&point[0].1));
        if self.reads_halo() {
            for (block, factors) in self.factors.iter().enumerate() {
                let halo = self.rows(&point[1 + block].1);
                let factors = factors.as_ref();
                self.network.add_block(ctx, &weights, block, &halo, factors, &mut partial);
            }
        }
        self.network.finish(ctx, &weights, partial)
    }

    fn value(&self, point: &Point) -> f64 {
        let y = self.forward(point).0;
        y.values().iter().zip(&self.r).map(|(&y, &r)| f64::from(y) * f64::from(r)).sum()
    }

    /// Gradients in the order of the point, block by block and masked as their owners would.
    fn gradients(&self, point: &Point) -> Vec<Vec<f32>> {
        let (ctx, weights, network) = (self.context(), self.weights(point), &self.network);
        let (y, saved) = self.forward(point);
        let dy = self.backend.upload(y.n_rows(), y.n_cols(), &self.r);
        let mut partial = network.begin_backward(ctx, &weights, saved, dy);
        let mut gradients = Vec::new();
        if self.reads_halo() && self.kept.is_none() {
            for (block, factors) in self.factors.iter().enumerate() {
                let halo = (!self.keeps_halo).then(|| self.rows(&point[1 + block].1));
                let (halo, factors) = (halo.as_ref(), factors.as_ref());
                if self.layer == 0 {
                    network.block_weight_gradients(
                        ctx,
                        &weights,
                        block,
                        halo,
                        factors,
                        &mut partial,
                    );
                    continue;
                }
                let mut gradient =
                    network.block_gradient(ctx, &weights, block, halo, factors, &mut partial);
                ctx.drop_gradient(&self.structure.halo[block].keys, &mut gradient);
                gradients.push(gradient);
            }
        }
        let grads = network.finish_backward(ctx, &weights, partial);
        assert_eq!(
            grads.own.is_some(),
            self.layer > 0,
            "{}: raw features get no gradient",
            self.name
        );
        if let Some(mut own) = grads.own {
            ctx.drop_gradient(&self.structure.own_keys, &mut own);
            gradients.insert(0, own);
        }
        gradients.into_iter().chain(grads.weights).map(|g| g.values().to_vec()).collect()
    }

    fn moved(point: &Point, tensor: usize, direction: &[f32], by: f32) -> Point {
        let mut point = point.clone();
        for (value, sign) in point[tensor].1.iter_mut().zip(direction) {
            *value += by * sign;
        }
        point
    }

    /// The slope along `direction`, or nothing across a kink.
    fn slope(&self, point: &Point, tensor: usize, direction: &[f32], scale: f64) -> Option<f64> {
        let difference = |step: f32| {
            let (up, down) = (
                self.value(&Self::moved(point, tensor, direction, step)),
                self.value(&Self::moved(point, tensor, direction, -step)),
            );
            (up - down) / (2.0 * f64::from(step))
        };
        let (coarse, fine) = (difference(STEP), difference(STEP / 2.0));
        ((coarse - fine).abs() <= 0.01 * scale).then_some((4.0 * fine - coarse) / 3.0)
    }

    fn check(&self, seed: u64) {
        let point = self.start(seed);
        let gradients = self.gradients(&point);
        assert_eq!(gradients.len(), point.len(), "{}: number of gradients", self.name);
        let mut signs = sequence(seed + 50);
        for (tensor, (gradient, (what, values))) in gradients.iter().zip(&point).enumerate() {
            let what = format!("{}, {what}", self.name);
            assert_eq!(gradient.len(), values.len(), "{what}: number of values");
            // What a sum of signs times the gradient comes to.
            let norm = gradient.iter().map(|&g| f64::from(g).powi(2)).sum::<f64>().sqrt();
            let scale = norm.max(0.05);
            let mut n_smooth = 0;
            for _ in 0..N_DIRECTIONS {
                let direction: Vec<f32> =
                    values.iter().map(|_| if signs.below(2) == 0 { 1.0 } else { -1.0 }).collect();
                let pairs = gradient.iter().zip(&direction);
                let expected: f64 = pairs.map(|(&g, &d)| f64::from(g) * f64::from(d)).sum();
                if let Some(slope) = self.slope(&point, tensor, &direction, scale) {
                    n_smooth += 1;
                    let error = (slope - expected).abs();
                    assert!(error <= 0.004 * scale, "{what}: slope {slope}, gradient {expected}");
                }
            }
            assert!(n_smooth >= N_SMOOTH, "{what}: {n_smooth} smooth directions");
        }
    }
}

/// A part of three with halo rows of two owners.
fn part(seed: u64, direction: Direction) -> PartGraph {
    let graph = graph(seed, 19, 40, direction);
    let mut parts = split(seed + 1, &graph, 4);
    let part = parts.remove((seed % 3) as usize);
    assert_eq!(part.halo_blocks().len(), 2, "a part that reads two others");
    part
}

/// Second layers in the middle of a network and at its end, with and without dropout.
fn check_second_layers(kind: ModelKind, n_linear: [usize; 2], direction: Direction) {
    for seed in 0..3 {
        for rate in [0.0, 0.4] {
            for (norm, widths) in [
                (NormKind::Layer, &[2, 6, 8, 3][..]),
                (NormKind::None, &[2, 6, 4, 3][..]),
                (NormKind::Layer, &[2, 6, 3][..]),
            ] {
                let n_linear = n_linear[usize::from(widths.len() == 3)];
                let config = config(kind, widths, n_linear, norm);
                let name = format!("{kind}, {norm} norm, {widths:?}, dropout {rate}, seed {seed}");
                let part = part(100 * seed + seed, direction);
                let mut problem = Problem::new(name, config, 1, part, rate);
                problem.check(1000 * seed);
                problem.keeps_halo = false;
                problem.name += ", sampled";
                problem.sample(seed, 2.5);
                problem.check(1000 * seed);
            }
        }
    }
}

#[test]
fn gcn() {
    check_second_layers(ModelKind::Gcn, [0, 0], Direction::Symmetric);
}

#[test]
fn sage() {
    check_second_layers(ModelKind::Sage, [0, 0], Direction::Symmetric);
    check_second_layers(ModelKind::Sage, [0, 0], Direction::Directed);
}

/// Heads are concatenated in the middle and averaged at the end.
#[test]
fn gat() {
    check_second_layers(ModelKind::Gat, [0, 0], Direction::Symmetric);
    check_second_layers(ModelKind::Gat, [0, 0], Direction::Directed);
}

#[test]
fn linear() {
    check_second_layers(ModelKind::Sage, [2, 1], Direction::Symmetric);
}

/// First layers read raw features: their weights alone have gradients.
#[test]
fn first_layers() {
    for kind in KINDS {
        for rate in [0.0, 0.4] {
            let first_config = config(kind, &[6, 8, 3], 0, NormKind::Layer);
            let part = part(3, Direction::Symmetric);
            let name = format!("first {kind}");
            let problem = Problem::new(name, first_config.clone(), 0, part, rate);
            let point = problem.start(9);
            let n_rows = 1 + problem.part.halo_blocks().len();
            let gradients = problem.gradients(&point);
            assert_eq!(gradients.len(), point.len() - n_rows);
            let second = Problem {
                layer: 1,
                network: Network::new(crate::config(kind, &[2, 6, 8, 3], 0, NormKind::Layer))
                    .expect("a network"),
                ..problem
            };
            // The second layer is checked above, and is the same function.
            assert_eq!(gradients, second.gradients(&point)[n_rows..]);
            let forgetful = Problem { keeps_halo: false, ..second };
            assert_eq!(gradients, forgetful.gradients(&point)[n_rows..]);
            let mut first = Problem {
                layer: 0,
                network: Network::new(first_config).expect("one"),
                ..forgetful
            };
            assert_eq!(gradients, first.gradients(&point));
            first.sample(3, 2.0);
            assert_ne!(gradients, first.gradients(&point));
        }
    }
}

#[test]
fn first_layers_from_a_kept_aggregate() {
    for kind in [ModelKind::Gcn, ModelKind::Sage] {
        for is_sparse in [false, true] {
            for rate in [0.0, 0.4] {
                let config = config(kind, &[KEPT_WIDTH, 6, 3], 0, NormKind::Layer);
                let part = part(4, Direction::Symmetric);
                let name = format!("kept {kind}, sparse: {is_sparse}, dropout {rate}");
                let mut problem = Problem::new(name, config, 0, part, rate);
                let features = |seed, n_rows| features(seed, n_rows, KEPT_WIDTH, is_sparse);
                let own = features(1, problem.part.n_local());
                let halo: Vec<Features> = (2..)
                    .zip(problem.part.halo_blocks())
                    .map(|(seed, block)| features(seed, block.column_ids.len()))
                    .collect();
                let ctx = context(&problem.backend, &problem.structure, None);
                let kept = KeptAggregate::new(kind, ctx, &problem.part, &own, &halo);
                problem.kept = Some(kept);
                problem.check(31);
            }
        }
    }
}

/// Random features, about one in forty stored when sparse: the aggregate then is sparse too.
fn features(seed: u64, n_rows: usize, width: usize, is_sparse: bool) -> Features {
    let values = reals(seed, n_rows * width);
    if !is_sparse {
        return Features::Dense(DenseMatrix::new(n_rows, width, values).expect("features"));
    }
    let (mut indptr, mut indices, mut stored) = (vec![0], Vec::new(), Vec::new());
    for row in values.chunks_exact(width) {
        for (column, &value) in (0..).zip(row) {
            if value > 0.95 {
                indices.push(column);
                stored.push(value);
            }
        }
        indptr.push(indices.len() as u64);
    }
    Features::Sparse(SparseMatrix::new(width, &indptr, &indices, &stored).expect("features"))
}
