//! The kept aggregate: dense, sparse, and not kept at all.

use std::sync::Arc;

use sylvie_gnn::{Input, KeptAggregate, ModelKind, Network, NormKind, Structure, Weights};
use sylvie_graph::{DenseMatrix, Direction, Features, PartGraph, SparseMatrix};
use sylvie_tensor::CpuBackend;

use crate::{Matrix, config, context, dropout, gather, graph, reals, split};

const AGGREGATED: [ModelKind; 2] = [ModelKind::Gcn, ModelKind::Sage];
const WIDTH: usize = 60;

struct Case {
    part: PartGraph,
    /// Of all nodes, dense; zeros are not stored when sparse.
    x: Vec<f32>,
}

impl Case {
    /// About `n_stored` values a row are not zero.
    fn new(seed: u64, n_stored: usize) -> Self {
        let graph = graph(seed, 40, 90, Direction::Symmetric);
        let part = split(seed + 1, &graph, 4).remove(0);
        let bound = 1.0 - 2.0 * n_stored as f32 / WIDTH as f32;
        let keep = |value: f32| if value > bound { value } else { 0.0 };
        Self { part, x: reals(seed + 2, 40 * WIDTH).into_iter().map(keep).collect() }
    }

    fn dense(&self, ids: &[u32]) -> DenseMatrix {
        DenseMatrix::new(ids.len(), WIDTH, gather(&self.x, WIDTH, ids)).expect("features")
    }

    fn sparse(&self, ids: &[u32]) -> SparseMatrix {
        let dense = self.dense(ids);
        let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        for row in 0..ids.len() {
            let stored = (0..).zip(dense.row(row)).filter(|(_, value)| **value != 0.0);
            for (column, &value) in stored {
                indices.push(column);
                values.push(value);
            }
            indptr.push(indices.len() as u64);
        }
        SparseMatrix::new(WIDTH, &indptr, &indices, &values).expect("features")
    }

    /// The first layer's output from a kept aggregate of dense or sparse features.
    fn kept(
        &self,
        network: &Network,
        weights: &Weights<CpuBackend>,
        features: impl Fn(&[u32]) -> Features,
        rate: f32,
    ) -> Arc<Matrix> {
        let backend = CpuBackend::new(1);
        let structure = Structure::new(&backend, &self.part);
        let halo: Vec<Features> =
            self.part.halo_blocks().iter().map(|block| features(&block.column_ids)).collect();
        let ctx = context(&backend, &structure, None);
        let own = features(&self.part.own_ids);
        let kept = KeptAggregate::new(network.config().kind, ctx, &self.part, &own, &halo);
        let ctx = context(&backend, &structure, (rate > 0.0).then(|| dropout(rate, 0)));
        network.first_layer_from_kept(ctx, weights, &kept).0
    }

    /// The same layer from its rows, block by block.
    fn block_by_block(&self, network: &Network, weights: &Weights<CpuBackend>) -> Arc<Matrix> {
        let backend = CpuBackend::new(1);
        let structure = Structure::new(&backend, &self.part);
        let ctx = context(&backend, &structure, None);
        let rows = |ids: &[u32]| Input::from_features(&backend, &Features::Dense(self.dense(ids)));
        let mut partial = network.begin(0, ctx, weights, &rows(&self.part.own_ids));
        for (index, block) in self.part.halo_blocks().iter().enumerate() {
            let halo = rows(&block.column_ids);
            network.add_block(ctx, weights, index, &halo, None, &mut partial);
        }
        network.finish(ctx, weights, partial).0
    }
}

#[test]
fn kept_dense_is_what_block_by_block_gives_bit_for_bit() {
    for kind in AGGREGATED {
        // A layer that narrows sums products of own rows, in another order than the kept aggregate.
        let network = Network::new(config(kind, &[WIDTH, WIDTH, 3], 0, NormKind::Layer));
        let network = network.expect("a network");
        let weights = Weights::glorot(&CpuBackend::new(1), network.config(), 3);
        for (seed, n_stored) in [(1, 60), (2, 3)] {
            let case = Case::new(seed, n_stored);
            let kept = case.kept(&network, &weights, |ids| Features::Dense(case.dense(ids)), 0.0);
            let plain = case.block_by_block(&network, &weights);
            let bits = |y: &Matrix| y.values().iter().map(|v| v.to_bits()).collect::<Vec<u32>>();
            assert_eq!(bits(&kept), bits(&plain), "{kind}, {n_stored} stored");
        }
    }
}

/// With the identity for a weight the layer gives the aggregate itself, which dense and sparse sums
/// reach in the same order.
#[test]
fn kept_sparse_is_kept_dense() {
    let backend = CpuBackend::new(1);
    let mut identity = vec![0.0; WIDTH * WIDTH];
    for column in 0..WIDTH {
        identity[column * WIDTH + column] = 1.0;
    }
    let (zeros, bias) = (vec![0.0; WIDTH * WIDTH], vec![0.0; WIDTH]);
    for (kind, tensors) in [
        (ModelKind::Gcn, vec![identity.clone(), bias.clone()]),
        (ModelKind::Sage, vec![zeros.clone(), identity.clone(), bias.clone()]),
        (ModelKind::Sage, vec![identity.clone(), zeros.clone(), bias.clone()]),
    ] {
        let network = Network::new(config(kind, &[WIDTH, WIDTH], 0, NormKind::None)).expect("one");
        let weights = Weights::from_host(&backend, network.config(), &tensors);
        for (seed, n_stored) in [(1, 60), (2, 6), (3, 1)] {
            let case = Case::new(seed, n_stored);
            for rate in [0.0, 0.5] {
                let dense = |ids: &[u32]| Features::Dense(case.dense(ids));
                let sparse = |ids: &[u32]| Features::Sparse(case.sparse(ids));
                let dense = case.kept(&network, &weights, dense, rate);
                let sparse = case.kept(&network, &weights, sparse, rate);
                assert!(dense.values().iter().any(|&value| value != 0.0));
                assert_eq!(dense.values(), sparse.values(), "{kind}, {n_stored} stored");
            }
        }
    }
}

#[test]
fn kept_sparse_is_kept_dense_to_rounding_for_any_weights() {
    for kind in AGGREGATED {
        let network =
            Network::new(config(kind, &[WIDTH, 6, 3], 0, NormKind::Layer)).expect("a network");
        let weights = Weights::glorot(&CpuBackend::new(1), network.config(), 3);
        for rate in [0.0, 0.5] {
            let case = Case::new(4, 1);
            let dense = case.kept(&network, &weights, |ids| Features::Dense(case.dense(ids)), rate);
            let sparse =
                case.kept(&network, &weights, |ids| Features::Sparse(case.sparse(ids)), rate);
            crate::assert_close(sparse.values(), dense.values(), 1e-5, "kept sparse");
        }
    }
}

/// Own row and aggregate are dropped by masks of their own.
#[test]
fn the_aggregate_is_dropped_by_its_own_mask() {
    let backend = CpuBackend::new(1);
    let network =
        Network::new(config(ModelKind::Sage, &[1, 1], 0, NormKind::None)).expect("a network");
    let graph = graph(1, 300, 900, Direction::Symmetric);
    let part = crate::whole(&graph);
    let structure = Structure::new(&backend, &part);
    let ones = Features::Dense(DenseMatrix::new(300, 1, vec![1.0; 300]).expect("features"));
    let kept =
        KeptAggregate::new(ModelKind::Sage, context(&backend, &structure, None), &part, &ones, &[]);
    let masks = [[1.0, 0.0], [0.0, 1.0]].map(|[w_self, w_neigh]| {
        let tensors = [vec![w_self], vec![w_neigh], vec![0.0]];
        let weights = Weights::from_host(&backend, network.config(), &tensors);
        let ctx = context(&backend, &structure, Some(dropout(0.5, 0)));
        let (y, _) = network.first_layer_from_kept(ctx, &weights, &kept);
        y.values().iter().map(|&value| value > 0.0).collect::<Vec<bool>>()
    });
    let with_neighbours = (0..300).filter(|&row| part.degrees[row] > 0);
    let n_equal = with_neighbours.filter(|&row| masks[0][row] == masks[1][row]).count();
    // Half of 300 coins agree; 80 or fewer, or 220 or more, have a probability below 1e-15.
    assert!((80..220).contains(&n_equal), "{n_equal} of 300 places agree");
}
