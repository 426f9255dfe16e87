//! Single layers against numbers from an independent implementation in double precision.
//!
//! The cases lie in `testdata/`, or in the folder that `SYLVIE_REFERENCE_DIR` names.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sylvie_graph::{Assignment, Direction, clean_edges};
use sylvie_partition::build_parts;
use sylvie_tensor::{Backend, CpuBackend};

use crate::gat::{self, Heads};
use crate::gcn;
use crate::input::{Context, Input, LayerRows};
use crate::sage;
use crate::structure::Structure;

type Matrix = <CpuBackend as Backend>::Matrix;

fn folder() -> PathBuf {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    std::env::var_os("SYLVIE_REFERENCE_DIR").map_or_else(own, PathBuf::from)
}

/// Values of a scalar, a vector or a matrix, row after row.
fn values(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(entries) => entries.iter().flat_map(values).collect(),
        number => vec![number.as_f64().expect("a number")],
    }
}

fn matrix(backend: &CpuBackend, value: &Value) -> Matrix {
    let n_rows = match &value[0] {
        Value::Array(_) => value.as_array().expect("rows").len(),
        _ => 1,
    };
    let values: Vec<f32> = values(value).iter().map(|&v| v as f32).collect();
    backend.upload(n_rows, values.len() / n_rows, &values)
}

/// Output, own gradient and weight gradients of one layer on one part.
fn run_layer(case: &Value, names: &[&str]) -> (Matrix, Matrix, Vec<Matrix>) {
    let n_nodes = case["n_nodes"].as_u64().expect("n_nodes") as usize;
    let pairs = case["edges"].as_array().expect("edges").iter().map(|edge| {
        let end = |i: usize| edge[i].as_u64().expect("a node") as u32;
        (end(0), end(1))
    });
    let edges: Vec<(u32, u32)> = pairs.collect();
    let (graph, _) = clean_edges(n_nodes, &edges, Direction::Directed).expect("edges");
    let assignment = Assignment::new(1, vec![0; n_nodes]).expect("one part");
    let part = build_parts(&graph, &assignment, None).remove(0);
    let backend = CpuBackend::new(1);
    let structure = Structure::new(&backend, &part);
    let ctx = Context { backend: &backend, structure: &structure, dropout: None, keeps_halo: true };
    let weights: Vec<Matrix> =
        names.iter().map(|name| matrix(&backend, &case["weights"][name])).collect();
    let x = matrix(&backend, &case["x"]);
    let dy = matrix(&backend, &case["dy"]);
    let mut grads: Vec<Matrix> = weights
        .iter()
        .map(|w| {
            let (n_rows, n_cols) = backend.shape(w);
            backend.zeros(n_rows, n_cols)
        })
        .collect();
    let (y, dx) = match case["kind"].as_str() {
        Some("gcn") => {
            let x = LayerRows::as_they_are(Input::dense(x));
            let (y, saved) = gcn::finish(ctx, &weights, gcn::begin(ctx, &weights, &x));
            let state = gcn::begin_backward(ctx, &weights, saved, &dy, false);
            gcn::weight_gradients(ctx, &state, &dy, &mut grads);
            (y, gcn::own_gradient(ctx, &weights, &state))
        }
        Some("sage") => {
            let x = LayerRows::as_they_are(Input::dense(x));
            let (y, saved) = sage::finish(ctx, &weights, sage::begin(ctx, &weights, &x));
            let state = sage::begin_backward(ctx, &weights, saved, &dy, false);
            sage::weight_gradients(ctx, &state, &dy, &mut grads);
            (y, sage::own_gradient(ctx, &weights, &dy, &state))
        }
        Some("gat") => {
            let is_last = case["last"].as_bool().expect("last");
            let heads = if is_last { Heads::Averaged } else { Heads::Concatenated };
            let state = gat::begin(ctx, &weights, LayerRows::as_they_are(Input::dense(x)));
            let (y, saved) = gat::finish(ctx, &weights, heads, state);
            let state = gat::begin_backward(ctx, &weights, heads, saved, &dy);
            let down = gat::finish_backward(ctx, &weights, &dy, state, &mut grads);
            (y, down.of_input(&backend, &weights))
        }
        kind => panic!("unknown kind {kind:?}"),
    };
    (y, dx, grads)
}

#[test]
fn layers() {
    let backend = CpuBackend::new(1);
    let mut n_cases = 0;
    for entry in fs::read_dir(folder()).expect("the folder of reference cases") {
        let path = entry.expect("a folder entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if !name.starts_with("layer_") {
            continue;
        }
        n_cases += 1;
        let text = fs::read_to_string(&path).expect("a reference case");
        let case: Value = serde_json::from_str(&text).expect("a JSON file");
        let names: &[&str] = match case["kind"].as_str() {
            Some("gcn") => &["w", "b"],
            Some("sage") => &["w_self", "w_neigh", "b"],
            _ => &["w", "a_src", "a_dst", "b"],
        };
        let (y, dx, grads) = run_layer(&case, names);
        let mut pairs = vec![(&y, &case["y"]), (&dx, &case["dx"])];
        pairs.extend(grads.iter().zip(names.iter().map(|name| &case["dweights"][name])));
        let largest = pairs
            .iter()
            .flat_map(|(_, expected)| values(expected))
            .fold(0.0, |max: f64, v| max.max(v.abs()));
        for (place, (found, expected)) in pairs.into_iter().enumerate() {
            let (found, expected) = (backend.download(found), values(expected));
            assert_eq!(found.len(), expected.len(), "{name}, tensor {place}");
            for (&f, &e) in found.iter().zip(&expected) {
                let error = (f64::from(f) - e).abs();
                assert!(error <= 1e-5 * largest, "{name}, tensor {place}: {f} instead of {e}");
            }
        }
    }
    assert!(n_cases >= 9, "{n_cases} layer cases in {}", folder().display());
}
