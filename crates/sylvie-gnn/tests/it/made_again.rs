//! Rows between layers that nobody keeps: they are made again for the backward pass.

use std::sync::Arc;

use sylvie_gnn::{Dropout, Input, ModelKind, Network, NormKind, Structure, Weights};
use sylvie_graph::Direction;
use sylvie_tensor::{Backend, CpuBackend};

use crate::{KINDS, config, context, dropout, graph, reals, whole};

const N_NODES: u32 = 20;
const WIDTHS: [usize; 4] = [5, 8, 8, 3];

/// Output and gradients of a network; with `is_after`, each layer begins after the one before.
fn bits(
    (kind, norm): (ModelKind, NormKind),
    n_linear: usize,
    dropout: Option<Dropout>,
    is_after: bool,
) -> Vec<u32> {
    let network = Network::new(config(kind, &WIDTHS, n_linear, norm)).expect("a network");
    let backend = CpuBackend::new(1);
    let part = whole(&graph(3, N_NODES, 40, Direction::Symmetric));
    let structure = Structure::new(&backend, &part);
    let ctx = context(&backend, &structure, dropout);
    let weights = Weights::glorot(&backend, network.config(), 4);
    let n_rows = N_NODES as usize;
    let mut rows = Arc::new(backend.upload(n_rows, WIDTHS[0], &reals(1, n_rows * WIDTHS[0])));
    let mut saved = Vec::new();
    for layer in 0..WIDTHS.len() - 1 {
        let own = Input::Dense(Arc::clone(&rows));
        let partial = match saved.last() {
            Some(before) if is_after => network.begin_after(before, ctx, &weights, &own),
            _ => network.begin(layer, ctx, &weights, &own),
        };
        drop(own);
        let (y, layer_saved) = network.finish(ctx, &weights, partial);
        if is_after && layer > 0 && norm == NormKind::Layer {
            assert_eq!(Arc::strong_count(&rows), 1, "who keeps the output of layer {}", layer - 1);
        }
        saved.push(layer_saved);
        rows = y;
    }
    let mut values = backend.download(&rows);
    let mut dy = backend.upload(n_rows, WIDTHS[3], &reals(2, n_rows * WIDTHS[3]));
    while let Some(layer) = saved.pop() {
        let (grads, _) = network.backward(ctx, &weights, layer, dy);
        values.extend(grads.weights.iter().flat_map(|gradient| backend.download(gradient)));
        let Some(own) = grads.own else { break };
        values.extend(backend.download(&own));
        dy = own;
    }
    values.into_iter().map(f32::to_bits).collect()
}

#[test]
fn rows_made_again_give_the_same_bits_as_rows_kept() {
    for kind in KINDS {
        for norm in [NormKind::Layer, NormKind::None] {
            for (n_linear, dropout) in [(0, None), (0, Some(dropout(0.4, 1))), (1, None)] {
                let of = |is_after| bits((kind, norm), n_linear, dropout, is_after);
                assert_eq!(of(true), of(false), "{kind}, {norm:?}, {n_linear}, {dropout:?}");
            }
        }
    }
}
