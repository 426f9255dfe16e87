//! Figures that tell a good assignment from a bad one.

use serde::{Deserialize, Serialize};
use sylvie_graph::{Assignment, Csr};

/// How much an assignment makes its parts exchange, and how evenly it spreads the work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Number of parts, empty ones counted.
    pub n_parts: u32,
    /// Directed edges whose ends lie in different parts.
    pub cut_edges: u64,
    /// Rows that one exchange moves: halo rows, distinct within a part, summed over parts.
    pub communication_volume: u64,
    /// One entry a part.
    pub parts: Vec<PartQuality>,
    /// Nodes of the largest part as a multiple of the mean; 1 is even.
    pub node_balance: f64,
    /// The same of edges read by own nodes.
    pub edge_balance: f64,
    /// The same of training nodes.
    pub train_balance: f64,
}

/// Counts of one part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartQuality {
    /// Own nodes.
    pub n_nodes: usize,
    /// Edges into own nodes, from wherever.
    pub n_edges: usize,
    /// Own training nodes.
    pub n_train: usize,
    /// Nodes of other parts that own nodes read.
    pub n_halo: usize,
    /// Halo rows as a multiple of own nodes; 0 for a part without nodes.
    pub halo_ratio: f64,
}

/// Measures `assignment` on `graph`.
///
/// # Shapes
/// `train`: one flag a node.
/// # Cost
/// Linear in nodes, edges and parts.
/// # Panics
/// If `graph` is not square, or `assignment` or `train` is of another number of nodes.
///
/// # Example
/// ```
/// use sylvie_graph::{Direction, clean_edges};
/// use sylvie_partition::{Contiguous, PartQuality, Partitioner, Quality, quality};
///
/// // A path of four nodes, cut in the middle.
/// let (graph, _) = clean_edges(4, &[(0, 1), (1, 2), (2, 3)], Direction::Symmetric)?;
/// let train = [true, true, true, false];
/// let assignment = Contiguous.partition(&graph, &train, 2)?;
/// let figures: Quality = quality(&graph, &assignment, &train);
/// assert_eq!((figures.cut_edges, figures.communication_volume), (2, 2));
/// assert_eq!((figures.node_balance, figures.train_balance), (1.0, 4.0 / 3.0));
/// let first = PartQuality { n_nodes: 2, n_edges: 3, n_train: 2, n_halo: 1, halo_ratio: 0.5 };
/// assert_eq!(figures.parts[0], first);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn quality(graph: &Csr, assignment: &Assignment, train: &[bool]) -> Quality {
    let n_nodes = graph.n_rows();
    assert_eq!(graph.n_cols(), n_nodes, "columns and rows of a partitioned graph");
    assert_eq!(assignment.parts().len(), n_nodes, "assigned nodes and nodes of the graph");
    assert_eq!(train.len(), n_nodes, "training flags and nodes of the graph");
    let owners = assignment.parts();
    let n_parts = assignment.n_parts() as usize;
    let mut parts = vec![PartQuality::default(); n_parts];
    let mut cut_edges = 0;
    // The part that counted a node last: with one part's rows in a row, each counts a node once.
    let mut counted_by = vec![u32::MAX; n_nodes];
    for node in nodes_by_part(assignment) {
        let node = node as usize;
        let part = owners[node];
        let figures = &mut parts[part as usize];
        figures.n_nodes += 1;
        figures.n_train += usize::from(train[node]);
        figures.n_edges += graph.row(node).len();
        for &column in graph.row(node) {
            let column = column as usize;
            if owners[column] != part {
                cut_edges += 1;
                figures.n_halo += usize::from(counted_by[column] != part);
                counted_by[column] = part;
            }
        }
    }
    for figures in parts.iter_mut().filter(|figures| figures.n_nodes > 0) {
        figures.halo_ratio = figures.n_halo as f64 / figures.n_nodes as f64;
    }
    Quality {
        n_parts: assignment.n_parts(),
        cut_edges,
        communication_volume: parts.iter().map(|figures| figures.n_halo as u64).sum(),
        node_balance: balance(parts.iter().map(|figures| figures.n_nodes)),
        edge_balance: balance(parts.iter().map(|figures| figures.n_edges)),
        train_balance: balance(parts.iter().map(|figures| figures.n_train)),
        parts,
    }
}

/// All nodes, those of a part together and ascending, parts ascending.
fn nodes_by_part(assignment: &Assignment) -> Vec<u32> {
    let mut nodes: Vec<u32> = (0..assignment.parts().len() as u32).collect();
    let mut next = Vec::with_capacity(assignment.n_parts() as usize);
    let mut n_before = 0;
    for size in assignment.sizes() {
        next.push(n_before);
        n_before += size;
    }
    for (node, &part) in (0_u32..).zip(assignment.parts()) {
        nodes[next[part as usize]] = node;
        next[part as usize] += 1;
    }
    nodes
}

/// Largest count over the mean; 1 when all are 0 or there are none.
fn balance(counts: impl Iterator<Item = usize> + Clone) -> f64 {
    let n_counts = counts.clone().count();
    let total: usize = counts.clone().sum();
    match (counts.max(), total) {
        (None, _) | (_, 0) => 1.0,
        (Some(largest), _) => largest as f64 * n_counts as f64 / total as f64,
    }
}
