//! Figures that describe a graph.

use crate::csr::Csr;
use crate::labels::Labels;

/// Spread of the in-degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DegreeSummary {
    /// Smallest.
    pub min: u32,
    /// Median (the lower one of two).
    pub median: u32,
    /// Mean.
    pub mean: f64,
    /// Largest.
    pub max: u32,
    /// Nodes that read nobody.
    pub n_isolated: usize,
}

/// Summarises the in-degrees; all zero for a graph without nodes.
///
/// # Example
/// ```
/// use sylvie_graph::{DegreeSummary, Direction, clean_edges, degree_summary};
///
/// // A star of three around node 0, and a node that nobody knows.
/// let (graph, _) = clean_edges(5, &[(0, 1), (0, 2), (0, 3)], Direction::Symmetric)?;
/// let expected = DegreeSummary { min: 0, median: 1, mean: 1.2, max: 3, n_isolated: 1 };
/// assert_eq!(degree_summary(&graph), expected);
/// # Ok::<(), sylvie_graph::GraphError>(())
/// ```
#[must_use]
pub fn degree_summary(graph: &Csr) -> DegreeSummary {
    let mut degrees: Vec<u32> = (0..graph.n_rows()).map(|row| graph.degree(row)).collect();
    degrees.sort_unstable();
    let at = |position: usize| degrees.get(position).copied().unwrap_or(0);
    DegreeSummary {
        min: at(0),
        median: at(degrees.len().saturating_sub(1) / 2),
        mean: graph.n_edges() as f64 / degrees.len().max(1) as f64,
        max: at(degrees.len().saturating_sub(1)),
        n_isolated: degrees.partition_point(|&degree| degree == 0),
    }
}

/// Share of the edges between labelled nodes that join nodes of the same class; for multi-labels, the
/// mean Jaccard index of the two ends' class sets (1 where both are empty). `None` without such edges.
///
/// # Panics
/// If graph and labels are of different numbers of nodes.
///
/// # Example
/// ```
/// use sylvie_graph::{Csr, Labels, degree_summary, edge_homophily};
///
/// let graph = Csr::from_pairs(3, 3, &[(0, 1), (1, 0), (1, 2), (2, 1)])?;
/// let labels = Labels::single(2, vec![0, 0, 1])?;
/// assert_eq!(edge_homophily(&graph, &labels), Some(0.5));
/// assert_eq!(degree_summary(&graph).max, 2);
/// # Ok::<(), sylvie_graph::GraphError>(())
/// ```
#[must_use]
pub fn edge_homophily(graph: &Csr, labels: &Labels) -> Option<f64> {
    assert_eq!(graph.n_rows(), labels.n_nodes(), "nodes of graph and labels");
    let (mut sum, mut n_edges) = (0.0, 0_u64);
    for target in 0..graph.n_rows() {
        for &source in graph.row(target) {
            let source = source as usize;
            if labels.is_labelled(target) && labels.is_labelled(source) {
                sum += agreement(labels, target, source);
                n_edges += 1;
            }
        }
    }
    (n_edges > 0).then(|| sum / n_edges as f64)
}

fn agreement(labels: &Labels, a: usize, b: usize) -> f64 {
    match labels {
        Labels::Single { classes, .. } => f64::from(u8::from(classes[a] == classes[b])),
        Labels::Multi { n_classes, values, .. } => {
            let width = *n_classes as usize;
            let pairs = values[a * width..][..width].iter().zip(&values[b * width..][..width]);
            let (mut both, mut either) = (0_u32, 0_u32);
            for (&x, &y) in pairs {
                both += u32::from(x & y);
                either += u32::from(x | y);
            }
            if either == 0 { 1.0 } else { f64::from(both) / f64::from(either) }
        }
    }
}
