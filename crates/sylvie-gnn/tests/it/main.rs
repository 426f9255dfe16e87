//! Layers, losses, metrics and weights through the crate's public face.

mod blocks;
mod config;
mod first_layer;
mod gradients;
mod loss;
mod made_again;
mod metrics;
mod parts;
mod sampling;
mod weights;

use sylvie_gnn::{Context, Dropout, ModelConfig, ModelKind, NormKind, Structure};
use sylvie_graph::{Assignment, Csr, Direction, PartGraph, clean_edges};
use sylvie_partition::build_parts;
use sylvie_random::{Coordinates, Pass, Sequence, Stream};
use sylvie_tensor::{Backend, CpuBackend};

type Matrix = <CpuBackend as Backend>::Matrix;

const KINDS: [ModelKind; 3] = [ModelKind::Gcn, ModelKind::Sage, ModelKind::Gat];

fn sequence(seed: u64) -> Sequence {
    Sequence::new(Coordinates::new(seed, Stream::Generator).family(), 0)
}

/// Uniform in [-1, 1).
fn reals(seed: u64, n: usize) -> Vec<f32> {
    let mut sequence = sequence(seed);
    (0..n).map(|_| (2.0 * sequence.next_f64() - 1.0) as f32).collect()
}

/// Random edges between all but the last node, which is isolated.
fn graph(seed: u64, n_nodes: u32, n_edges: usize, direction: Direction) -> Csr {
    let mut sequence = sequence(seed);
    let mut end = || sequence.below(n_nodes - 1);
    let edges: Vec<(u32, u32)> = (0..n_edges).map(|_| (end(), end())).collect();
    clean_edges(n_nodes as usize, &edges, direction).expect("edges").0
}

/// Parts at random; the last of them gets no nodes.
fn split(seed: u64, graph: &Csr, n_parts: u32) -> Vec<PartGraph> {
    let mut sequence = sequence(seed);
    let parts: Vec<u32> = (0..graph.n_rows()).map(|_| sequence.below(n_parts - 1)).collect();
    let assignment = Assignment::new(n_parts, parts).expect("an assignment");
    build_parts(graph, &assignment, None)
}

fn whole(graph: &Csr) -> PartGraph {
    let assignment = Assignment::new(1, vec![0; graph.n_rows()]).expect("an assignment");
    build_parts(graph, &assignment, None).remove(0)
}

/// A network of `kind` with these columns; heads of GAT: two.
fn config(kind: ModelKind, widths: &[usize], n_linear: usize, norm: NormKind) -> ModelConfig {
    ModelConfig { kind, widths: widths.to_vec(), n_linear, n_heads: 2, dropout: 0.0, norm }
}

/// Dropout as layer `layer` meets it in epoch 3.
fn dropout(rate: f32, layer: u8) -> Dropout {
    let family = |stream| Coordinates::new(8, stream).at(3, layer, Pass::Forward).family();
    let (rows, aggregate) = (family(Stream::Dropout), family(Stream::DropoutAggregate));
    Dropout { rate, rows, aggregate }
}

fn context<'a>(
    backend: &'a CpuBackend,
    structure: &'a Structure<CpuBackend>,
    dropout: Option<Dropout>,
) -> Context<'a, CpuBackend> {
    Context { backend, structure, dropout, keeps_halo: true }
}

/// The rows `ids` of a row-major matrix.
fn gather(x: &[f32], width: usize, ids: &[u32]) -> Vec<f32> {
    ids.iter().flat_map(|&id| &x[id as usize * width..][..width]).copied().collect()
}

fn assert_close(found: &[f32], expected: &[f32], tolerance: f32, what: &str) {
    assert_eq!(found.len(), expected.len(), "number of values of {what}");
    let largest = expected.iter().fold(1.0_f32, |max, value| max.max(value.abs()));
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found - expected).abs();
        assert!(error <= tolerance * largest, "{what}, {place}: {found} instead of {expected}");
    }
}
