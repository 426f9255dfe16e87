//! Several parts compute what one part computes, dropout included.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sylvie_gnn::{Dropout, Input, ModelKind, Network, NormKind, Structure, Weights};
use sylvie_graph::{Assignment, Csr, Direction, PartGraph};
use sylvie_partition::build_parts;
use sylvie_tensor::{Backend, CpuBackend};

use crate::{KINDS, assert_close, config, context, dropout, gather, graph, reals, split, whole};

const WIDTH_IN: usize = 6;

/// Output and input gradients by global node id, and weight gradients summed over the parts.
struct Results {
    y: Vec<f32>,
    dx: Vec<f32>,
    dweights: Vec<Vec<f32>>,
}

/// Runs the second layer of a network on every part.
fn run(
    network: &Network,
    parts: &[PartGraph],
    x: &[f32],
    dy: &[f32],
    dropout: Option<Dropout>,
) -> Results {
    let backend = CpuBackend::new(1);
    let config = network.config();
    let weights = Weights::glorot(&backend, config, 4);
    let width_out = config.n_columns_out(1);
    let n_nodes = x.len() / WIDTH_IN;
    let mut results = Results {
        y: vec![f32::NAN; n_nodes * width_out],
        dx: vec![0.0; x.len()],
        dweights: config.tensors(1).iter().map(|s| vec![0.0; s.n_rows * s.n_cols]).collect(),
    };
    for part in parts {
        let structure = Structure::new(&backend, part);
        let ctx = context(&backend, &structure, dropout);
        let rows = |ids: &[u32]| {
            Input::dense(backend.upload(ids.len(), WIDTH_IN, &gather(x, WIDTH_IN, ids)))
        };
        let mut partial = network.begin(1, ctx, &weights, &rows(&part.own_ids));
        for (index, block) in part.halo_blocks().iter().enumerate() {
            let halo = rows(&block.column_ids);
            network.add_block(ctx, &weights, index, &halo, None, &mut partial);
        }
        let (y, saved) = network.finish(ctx, &weights, partial);
        for (row, &id) in part.own_ids.iter().enumerate() {
            results.y[id as usize * width_out..][..width_out].copy_from_slice(y.row(row));
        }
        let dy = gather(dy, width_out, &part.own_ids);
        let dy = backend.upload(part.n_local(), width_out, &dy);
        let (grads, halo) = network.backward(ctx, &weights, saved, dy);
        let own = grads.own.expect("gradients of a second layer's rows");
        let ids = part.blocks.iter().map(|block| &block.column_ids);
        for (ids, gradient) in ids.zip(std::iter::once(own).chain(halo)) {
            assert_eq!(ids.len(), gradient.n_rows(), "rows read and their gradients");
            for (row, &id) in ids.iter().enumerate() {
                let sums = &mut results.dx[id as usize * WIDTH_IN..][..WIDTH_IN];
                sums.iter_mut().zip(gradient.row(row)).for_each(|(sum, value)| *sum += value);
            }
        }
        for (sums, gradient) in results.dweights.iter_mut().zip(grads.weights) {
            sums.iter_mut().zip(gradient.values()).for_each(|(sum, value)| *sum += value);
        }
    }
    // Masked once, by the owner, when the gradients of all readers have been added.
    let ids: Vec<u32> = (0..n_nodes as u32).collect();
    let structure = Structure::new(&backend, &parts[0]);
    let mut dx = backend.upload(n_nodes, WIDTH_IN, &results.dx);
    let ctx = context(&backend, &structure, dropout);
    ctx.drop_gradient(&backend.upload_index(&ids), &mut dx);
    results.dx = backend.download(&dx);
    results
}

/// Compares `parts` of a graph with the graph in one part, in the middle of a network and at its end.
fn check(kind: ModelKind, graph: &Csr, parts: &[PartGraph], what: &str) {
    let x = reals(5, graph.n_rows() * WIDTH_IN);
    for widths in [&[2, WIDTH_IN, 6, 3][..], &[2, WIDTH_IN, 4]] {
        let network = Network::new(config(kind, widths, 0, NormKind::Layer)).expect("a network");
        let dy = reals(6, graph.n_rows() * widths[2]);
        for dropout in [None, Some(dropout(0.5, 1))] {
            let one = run(&network, &[whole(graph)], &x, &dy, dropout);
            let many = run(&network, parts, &x, &dy, dropout);
            assert_close(&many.y, &one.y, 1e-5, &format!("{kind}, {what}: output"));
            assert_close(&many.dx, &one.dx, 1e-5, &format!("{kind}, {what}: input gradients"));
            for (many, one) in many.dweights.iter().zip(&one.dweights) {
                assert_close(many, one, 1e-5, &format!("{kind}, {what}: weight gradients"));
            }
        }
    }
}

#[test]
fn random_parts_one_of_them_empty() {
    for kind in KINDS {
        for seed in 0..4 {
            let directions = [Direction::Symmetric, Direction::Directed];
            let graph = graph(seed, 40, 90, directions[usize::from(kind != ModelKind::Gcn)]);
            let parts = split(seed + 9, &graph, 4);
            assert_eq!(parts[3].n_local(), 0, "a part without nodes");
            check(kind, &graph, &parts, &format!("seed {seed}"));
        }
    }
}

/// A complete bipartite graph, one side a part: no node has a neighbour of its own part.
#[test]
fn nodes_with_halo_neighbours_only() {
    let edges: Vec<(u32, u32)> = (0..5).flat_map(|i| (5..11).map(move |j| (i, j))).collect();
    let graph = sylvie_graph::clean_edges(11, &edges, Direction::Symmetric).expect("edges").0;
    let sides = (0..11).map(|node| u32::from(node >= 5)).collect();
    let parts = build_parts(&graph, &Assignment::new(2, sides).expect("two parts"), None);
    assert!(parts.iter().all(|part| part.own_block().edges.n_edges() == 0));
    for kind in KINDS {
        check(kind, &graph, &parts, "bipartite");
    }
}

#[test]
fn no_edges_between_parts_and_none_at_all() {
    let pairs = [(0, 1), (1, 2), (3, 4)];
    for edges in [&pairs[..], &[]] {
        let graph = sylvie_graph::clean_edges(6, edges, Direction::Symmetric).expect("edges").0;
        let assignment = Assignment::new(2, vec![0, 0, 0, 1, 1, 1]).expect("two parts");
        let parts = build_parts(&graph, &assignment, None);
        assert!(parts.iter().all(|part| part.n_halo() == 0));
        for kind in KINDS {
            check(kind, &graph, &parts, "no halo");
        }
    }
}

/// A node without neighbours reads itself in GCN and GAT, and a mean of zero in SAGE.
#[test]
fn an_isolated_node() {
    let backend = CpuBackend::new(1);
    let graph = graph(1, 9, 12, Direction::Symmetric);
    let x = reals(2, 9 * WIDTH_IN);
    for kind in KINDS {
        let network =
            Network::new(config(kind, &[2, WIDTH_IN, 4], 0, NormKind::Layer)).expect("a network");
        let dy = reals(6, 9 * 4);
        let y = run(&network, &[whole(&graph)], &x, &dy, None).y;
        let tensors = Weights::glorot(&backend, network.config(), 4).to_host(&backend);
        let own = &x[8 * WIDTH_IN..];
        let n_first = network.config().tensors(0).len();
        // The tensor that multiplies the own row comes first; GAT's has both heads side by side.
        let w = &tensors[n_first];
        let width = w.len() / WIDTH_IN;
        let product: Vec<f32> = (0..width)
            .map(|j| own.iter().enumerate().map(|(i, x)| x * w[i * width + j]).sum())
            .collect();
        let expected: Vec<f32> = match kind {
            ModelKind::Gat => (0..4).map(|j| (product[j] + product[4 + j]) / 2.0).collect(),
            _ => product,
        };
        assert_close(&y[8 * 4..], &expected, 1e-6, &format!("{kind}"));
    }
}

#[test]
fn blocks_out_of_order_or_missing_are_refused() {
    let backend = CpuBackend::new(1);
    let graph = graph(3, 30, 80, Direction::Symmetric);
    let parts = split(4, &graph, 4);
    let structure = Structure::new(&backend, &parts[0]);
    let n_blocks = parts[0].halo_blocks().len();
    assert_eq!(n_blocks, 2);
    for kind in KINDS {
        let network =
            Network::new(config(kind, &[WIDTH_IN, 4], 0, NormKind::None)).expect("a network");
        for order in [&[1][..], &[0], &[0, 0], &[]] {
            let attempt = catch_unwind(AssertUnwindSafe(|| {
                let ctx = context(&backend, &structure, None);
                let weights = Weights::glorot(&backend, network.config(), 4);
                let rows = |n: usize| Input::dense(backend.zeros(n, WIDTH_IN));
                let mut partial = network.begin(0, ctx, &weights, &rows(parts[0].n_local()));
                for &block in order {
                    let halo = rows(structure.halo[block].n_rows);
                    network.add_block(ctx, &weights, block, &halo, None, &mut partial);
                }
                network.finish(ctx, &weights, partial).0
            }));
            assert!(attempt.is_err(), "{kind} took the blocks {order:?}");
        }
    }
}
