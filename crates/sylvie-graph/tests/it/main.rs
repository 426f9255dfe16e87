//! Graph values against simple models of themselves.

use std::collections::BTreeSet;

use proptest::prelude::*;
use sylvie_graph::{
    Csr, Direction, Features, GraphError, Labels, Role, SparseMatrix, Split, UNLABELLED,
    clean_edges, degree_summary, edge_homophily,
};

fn edge_list() -> impl Strategy<Value = (usize, Vec<(u32, u32)>)> {
    (1_usize..20).prop_flat_map(|n_nodes| {
        let node = 0..n_nodes as u32;
        (Just(n_nodes), prop::collection::vec((node.clone(), node), 0..80))
    })
}

/// Enough edges that several threads sort and merge rows, one row long enough for a thread of its own.
#[test]
fn many_edges_are_cleaned_as_few_are() {
    let n_nodes = 100_000_u32;
    let mut state = 1_u64;
    let mut draw = |bound: u32| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % u64::from(bound)) as u32
    };
    let hub = (0..90_000).map(|node| (node, 7));
    let edges: Vec<(u32, u32)> =
        hub.chain((0..300_000).map(|_| (draw(n_nodes), draw(500)))).collect();
    let distinct: BTreeSet<_> = edges.iter().copied().filter(|(s, t)| s != t).collect();
    let both: BTreeSet<_> = distinct.iter().flat_map(|&(s, t)| [(t, s), (s, t)]).collect();
    for (direction, expected) in [(Direction::Directed, &distinct), (Direction::Symmetric, &both)] {
        let (graph, cleaning) = clean_edges(n_nodes as usize, &edges, direction).unwrap();
        let found: BTreeSet<_> = (0..n_nodes)
            .flat_map(|target| {
                graph.row(target as usize).iter().map(move |&source| (source, target))
            })
            .collect();
        assert!(found == *expected, "{direction:?}");
        assert_eq!(graph.n_edges(), expected.len());
        assert_eq!(cleaning.n_inverses_added, expected.len() - distinct.len());
        assert!((0..n_nodes as usize).all(|row| graph.row(row).is_sorted()));
    }
}

proptest! {
    #[test]
    fn cleaning_matches_sets((n_nodes, edges) in edge_list()) {
        let distinct: BTreeSet<_> = edges.iter().copied().filter(|(s, t)| s != t).collect();
        let both: BTreeSet<_> = distinct.iter().flat_map(|&(s, t)| [(s, t), (t, s)]).collect();
        let (graph, cleaning) = clean_edges(n_nodes, &edges, Direction::Symmetric).unwrap();
        let (directed, _) = clean_edges(n_nodes, &edges, Direction::Directed).unwrap();
        prop_assert_eq!(graph.n_edges(), both.len());
        prop_assert_eq!(directed.n_edges(), distinct.len());
        prop_assert!(graph.is_symmetric());
        for &(source, target) in &distinct {
            prop_assert!(directed.row(target as usize).contains(&source));
        }
        prop_assert_eq!(
            cleaning.n_stored - cleaning.n_loops - cleaning.n_duplicates, distinct.len());
        prop_assert_eq!(cleaning.n_inverses_added, both.len() - distinct.len());
        prop_assert_eq!(directed.transpose().transpose(), directed);
    }

    #[test]
    fn induced_keeps_edges_between_members(
        (n_nodes, edges) in edge_list(), seed in any::<u32>()) {
        let (graph, _) = clean_edges(n_nodes, &edges, Direction::Directed).unwrap();
        let members: Vec<bool> = (0..n_nodes).map(|v| seed >> (v % 32) & 1 == 1).collect();
        let induced = graph.induced(&members);
        for v in 0..n_nodes {
            let expected: Vec<u32> = graph.row(v).iter().copied()
                .filter(|&u| members[v] && members[u as usize]).collect();
            prop_assert_eq!(induced.row(v), &expected[..]);
        }
    }

    #[test]
    fn any_offsets_and_indices_are_taken_or_refused(
        indptr in prop::collection::vec(0_u64..6, 0..6),
        indices in prop::collection::vec(0_u32..6, 0..6),
    ) {
        let n_indices = indices.len();
        if let Ok(csr) = Csr::new(4, indptr.clone(), indices.clone()) {
            prop_assert_eq!(csr.n_edges(), n_indices);
        }
        let values = vec![1.0; n_indices];
        if let Ok(sparse) = SparseMatrix::new(4, &indptr, &indices, &values) {
            let sum: f32 = sparse.to_dense().values().iter().sum();
            prop_assert_eq!(sum, n_indices as f32);
        }
    }
}

#[test]
fn refusals_name_the_place() {
    let out = clean_edges(3, &[(0, 1), (3, 3)], Direction::Symmetric).unwrap_err();
    assert_eq!(out, GraphError::IndexOutOfRange { position: 1, index: 3, bound: 3 });
    let unsorted = Csr::new(3, vec![0, 2], vec![1, 0]).unwrap_err();
    assert_eq!(unsorted, GraphError::UnsortedRow { row: 0 });
    let label = Labels::single(2, vec![0, UNLABELLED, 2]).unwrap_err();
    assert_eq!(label, GraphError::LabelOutOfRange { node: 2, label: 2, n_classes: 2 });
    let overlap = Split::from_ids(3, &[0], &[1], &[0]).unwrap_err();
    assert!(matches!(overlap, GraphError::OverlappingSplit { node: 0, .. }), "{overlap}");
    let labels = Labels::single(2, vec![0, 1, UNLABELLED]).unwrap();
    let split = Split::new(vec![Role::Train, Role::Val, Role::Test]);
    let empty = split.check_usable(&labels).unwrap_err();
    assert_eq!(empty, GraphError::EmptySplit { set: "test" });
    let sparse = SparseMatrix::new(3, &[0, 0, 2], &[2, 0], &[1.0, f32::NAN]).unwrap();
    let bad = Features::Sparse(sparse).check_finite().unwrap_err();
    assert_eq!(bad, GraphError::NotFinite { row: 1, column: 0 });
}

#[test]
fn statistics_of_a_path() {
    let (graph, _) = clean_edges(4, &[(0, 1), (1, 2)], Direction::Symmetric).unwrap();
    let summary = degree_summary(&graph);
    assert_eq!((summary.min, summary.median, summary.max, summary.n_isolated), (0, 1, 2, 1));
    let labels = Labels::single(2, vec![0, 0, 1, UNLABELLED]).unwrap();
    assert_eq!(edge_homophily(&graph, &labels), Some(0.5));
    let multi = Labels::multi(2, vec![1, 0, 1, 1, 0, 0, 0, 0]).unwrap();
    assert_eq!(edge_homophily(&graph, &multi), Some(0.25));
}
