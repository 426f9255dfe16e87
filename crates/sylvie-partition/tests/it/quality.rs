//! Quality figures against sets.

use std::collections::BTreeSet;

use proptest::prelude::*;
use sylvie_graph::{Assignment, Csr};
use sylvie_partition::{build_parts, quality};

use crate::graphs::{Case, cases};

fn max_over_mean(counts: &[usize]) -> f64 {
    let total: usize = counts.iter().sum();
    if total == 0 {
        return 1.0;
    }
    *counts.iter().max().unwrap() as f64 / (total as f64 / counts.len() as f64)
}

proptest! {
    #[test]
    fn figures_match_sets(Case { graph, assignment, flags, .. } in cases()) {
        let owners = assignment.parts();
        let figures = quality(&graph, &assignment, &flags);
        let mut cut_edges = 0;
        let mut halo = BTreeSet::new();
        for v in 0..graph.n_rows() {
            for &u in graph.row(v).iter().filter(|&&u| owners[u as usize] != owners[v]) {
                cut_edges += 1;
                halo.insert((owners[v], u));
            }
        }
        prop_assert_eq!(figures.n_parts, assignment.n_parts());
        prop_assert_eq!(figures.cut_edges, cut_edges);
        prop_assert_eq!(figures.communication_volume, halo.len() as u64);
        for part in 0..assignment.n_parts() {
            let own: Vec<usize> =
                (0..graph.n_rows()).filter(|&v| owners[v] == part).collect();
            let found = figures.parts[part as usize];
            let n_halo = halo.iter().filter(|&&(reader, _)| reader == part).count();
            prop_assert_eq!(found.n_nodes, own.len());
            prop_assert_eq!(found.n_edges, own.iter().map(|&v| graph.row(v).len()).sum::<usize>());
            prop_assert_eq!(found.n_train, own.iter().filter(|&&v| flags[v]).count());
            prop_assert_eq!(found.n_halo, n_halo);
            let ratio = if own.is_empty() { 0.0 } else { n_halo as f64 / own.len() as f64 };
            prop_assert_eq!(found.halo_ratio, ratio);
        }
        for (found, counts) in [
            (figures.node_balance, figures.parts.iter().map(|p| p.n_nodes).collect::<Vec<_>>()),
            (figures.edge_balance, figures.parts.iter().map(|p| p.n_edges).collect()),
            (figures.train_balance, figures.parts.iter().map(|p| p.n_train).collect()),
        ] {
            prop_assert!((found - max_over_mean(&counts)).abs() < 1e-12);
        }
        let n_sent: usize =
            build_parts(&graph, &assignment, None).iter().map(|p| p.plan.n_sent_rows()).sum();
        prop_assert_eq!(figures.communication_volume, n_sent as u64);
    }
}

#[test]
fn figures_of_a_star() {
    // Node 0 reads and is read by 1, 2, 3; it lives alone with 1.
    let pairs = [(0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (3, 0)];
    let graph = Csr::from_pairs(4, 4, &pairs).unwrap();
    let assignment = Assignment::new(2, vec![0, 0, 1, 1]).unwrap();
    let figures = quality(&graph, &assignment, &[true, false, false, false]);
    assert_eq!((figures.cut_edges, figures.communication_volume), (4, 3));
    assert_eq!((figures.parts[0].n_halo, figures.parts[1].n_halo), (2, 1));
    assert_eq!((figures.parts[0].halo_ratio, figures.parts[1].halo_ratio), (1.0, 0.5));
    assert_eq!((figures.node_balance, figures.train_balance), (1.0, 2.0));
    assert!((figures.edge_balance - 4.0 / 3.0).abs() < 1e-12);
}
