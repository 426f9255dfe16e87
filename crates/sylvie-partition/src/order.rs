//! An order of nodes in which neighbours stand close to each other.

use std::fmt;
use std::str::FromStr;

use sylvie_graph::{Assignment, Csr};

use crate::error::PartitionError;

/// Nodes of a cluster, which measured best of 512 to 8192: the rows of a hidden layer that belong to one
/// take a megabyte.
const MAX_CLUSTER: u32 = 2048;
/// Nodes of a part from which on its rows are unlikely to fit a cache as they are.
const MIN_PART_NODES: usize = 8192;

/// In which order parts list their nodes; written `auto`, `given` or `cluster`.
///
/// The order changes neither draws nor what is exchanged, and results by no more than rounding.
///
/// # Example
/// ```
/// use sylvie_graph::{Direction, clean_edges};
/// use sylvie_partition::{Contiguous, NodeOrder, Partitioner, build_parts};
///
/// // Even nodes are joined to each other, and so are odd ones.
/// let edges = [(0, 2), (2, 4), (4, 0), (1, 3), (3, 5), (5, 1)];
/// let (graph, _) = clean_edges(6, &edges, Direction::Symmetric)?;
/// let assignment = Contiguous.partition(&graph, &[true; 6], 1)?;
/// let assignment = NodeOrder::Cluster.apply(&graph, assignment);
/// let part = &build_parts(&graph, &assignment, None)[0];
/// assert_eq!(part.own_ids, [0, 2, 4, 1, 3, 5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NodeOrder {
    /// By cluster where parts are large, else by number.
    #[default]
    Auto,
    /// By number.
    Given,
    /// As [`cluster_order`] lists them.
    Cluster,
}

impl NodeOrder {
    /// Gives an assignment of the nodes of `graph` this order.
    ///
    /// # Cost
    /// That of [`cluster_order`], where nodes are ordered at all.
    /// # Panics
    /// If `graph` is not square, or has another number of nodes.
    #[must_use]
    pub fn apply(self, graph: &Csr, assignment: Assignment) -> Assignment {
        let n_nodes = graph.n_rows() / (assignment.n_parts() as usize).max(1);
        match self {
            Self::Given => assignment,
            Self::Auto if n_nodes < MIN_PART_NODES => assignment,
            Self::Auto | Self::Cluster => assignment.in_order(&cluster_order(graph, MAX_CLUSTER)),
        }
    }
}

impl FromStr for NodeOrder {
    type Err = PartitionError;

    fn from_str(found: &str) -> Result<Self, Self::Err> {
        [Self::Auto, Self::Given, Self::Cluster]
            .into_iter()
            .find(|order| order.to_string() == found)
            .ok_or_else(|| PartitionError::UnknownOrder { found: found.to_owned() })
    }
}

impl fmt::Display for NodeOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Auto => "auto",
            Self::Given => "given",
            Self::Cluster => "cluster",
        })
    }
}

/// Rounds in which nodes join their neighbours' clusters.
const N_ROUNDS: usize = 5;
/// Marks a node or cluster that has no place yet.
const NOWHERE: u32 = u32::MAX;

/// Puts nodes that share neighbours next to each other, so that whoever gathers the rows of a node's
/// neighbours finds many of them in a cache.
///
/// Nodes form clusters of at most `max_cluster`: label propagation, in which a node joins, round after
/// round, the cluster that most of its neighbours are in and that has room. Clusters form clusters of
/// `16 * max_cluster` nodes in the same way. Nodes are listed cluster after cluster, and by number in a
/// cluster.
///
/// The same graph gives the same order. Each node is named once.
///
/// # Shapes
/// `graph`: square; result: one entry a node, the node that stands there.
/// # Cost
/// A few passes over all edges, on one thread. Memory: a few numbers a node.
/// # Panics
/// If `graph` is not square, or `max_cluster` is 0.
///
/// # Example
/// ```
/// use sylvie_graph::{Direction, clean_edges};
/// use sylvie_partition::cluster_order;
///
/// // Even nodes are joined to each other, and so are odd ones.
/// let edges = [(0, 2), (2, 4), (4, 0), (1, 3), (3, 5), (5, 1)];
/// let (graph, _) = clean_edges(6, &edges, Direction::Symmetric)?;
/// assert_eq!(cluster_order(&graph, 3), [0, 2, 4, 1, 3, 5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn cluster_order(graph: &Csr, max_cluster: u32) -> Vec<u32> {
    assert_eq!(graph.n_cols(), graph.n_rows(), "columns and rows of a graph to order");
    assert!(max_cluster > 0, "clusters of no node");
    let n_nodes = graph.n_rows();
    let mut clusters = Clusters::new(n_nodes);
    for _ in 0..N_ROUNDS {
        if clusters.join(graph, max_cluster) * 100 < n_nodes {
            break;
        }
    }
    // Nodes by cluster, clusters by the cluster of clusters that a second propagation gives them.
    let coarse = clusters.propagate_clusters(graph, max_cluster.saturating_mul(16));
    let mut order: Vec<u32> = (0..n_nodes as u32).collect();
    order.sort_by_key(|&node| {
        let cluster = clusters.label[node as usize];
        (coarse[cluster as usize], cluster)
    });
    order
}

/// Which cluster each node is in; a cluster has the number of one of its first nodes.
struct Clusters {
    label: Vec<u32>,
    size: Vec<u32>,
    /// Neighbours in each cluster, of the node that is looked at.
    count: Vec<u32>,
    touched: Vec<u32>,
}

impl Clusters {
    fn new(n_nodes: usize) -> Self {
        Self {
            label: (0..n_nodes as u32).collect(),
            size: vec![1; n_nodes],
            count: vec![0; n_nodes],
            touched: Vec::new(),
        }
    }

    /// Lets each node join the cluster with room that most of its neighbours are in, its own where
    /// none has more; returns how many moved.
    fn join(&mut self, graph: &Csr, max_cluster: u32) -> usize {
        let mut n_moved = 0;
        for node in 0..graph.n_rows() {
            let own = self.label[node];
            for &neighbour in graph.row(node) {
                let label = self.label[neighbour as usize];
                if self.count[label as usize] == 0 {
                    self.touched.push(label);
                }
                self.count[label as usize] += 1;
            }
            let (mut best, mut most) = (own, self.count[own as usize]);
            for &label in &self.touched {
                let n = self.count[label as usize];
                let has_room = self.size[label as usize] < max_cluster;
                if has_room && (n > most || n == most && label < best && best != own) {
                    (best, most) = (label, n);
                }
            }
            for label in self.touched.drain(..) {
                self.count[label as usize] = 0;
            }
            if best != own {
                self.size[own as usize] -= 1;
                self.size[best as usize] += 1;
                self.label[node] = best;
                n_moved += 1;
            }
        }
        n_moved
    }

    /// A cluster of clusters for each cluster: that of an earlier one with room to which most of its
    /// edges lead.
    fn propagate_clusters(&mut self, graph: &Csr, max_cluster: u32) -> Vec<u32> {
        let n_nodes = graph.n_rows();
        let mut members: Vec<u32> = (0..n_nodes as u32).collect();
        members.sort_by_key(|&node| self.label[node as usize]);
        let mut coarse = vec![NOWHERE; n_nodes];
        let mut coarse_size = vec![0_u32; n_nodes];
        for nodes in members.chunk_by(|&a, &b| self.label[a as usize] == self.label[b as usize]) {
            let cluster = self.label[nodes[0] as usize];
            let n_own = nodes.len() as u32;
            for &node in nodes {
                for &neighbour in graph.row(node as usize) {
                    let to = coarse[self.label[neighbour as usize] as usize];
                    if to != NOWHERE {
                        if self.count[to as usize] == 0 {
                            self.touched.push(to);
                        }
                        self.count[to as usize] += 1;
                    }
                }
            }
            let (mut best, mut most) = (cluster, 0);
            for label in self.touched.drain(..) {
                let n = std::mem::take(&mut self.count[label as usize]);
                let has_room = coarse_size[label as usize] + n_own <= max_cluster;
                if has_room && (n > most || n == most && label < best) {
                    (best, most) = (label, n);
                }
            }
            coarse[cluster as usize] = best;
            coarse_size[best as usize] += n_own;
        }
        coarse
    }
}

#[cfg(test)]
mod tests {
    use super::cluster_order;
    use sylvie_graph::Csr;

    /// Cliques of `size` nodes, whose numbers are strewn.
    fn cliques(n_cliques: u32, size: u32) -> Csr {
        let number = |clique: u32, member: u32| member * n_cliques + clique;
        let mut edges = Vec::new();
        for clique in 0..n_cliques {
            for a in 0..size {
                edges.extend(
                    (0..size).filter(|&b| b != a).map(|b| (number(clique, a), number(clique, b))),
                );
            }
        }
        let n_nodes = (n_cliques * size) as usize;
        Csr::from_pairs(n_nodes, n_nodes, &edges).expect("edges below the number of nodes")
    }

    #[test]
    fn members_of_a_clique_stand_together() {
        let order = cluster_order(&cliques(10, 8), 8);
        for clique in order.chunks(8) {
            assert!(clique.iter().all(|node| node % 10 == clique[0] % 10), "{order:?}");
        }
    }

    #[test]
    fn every_node_is_named_once() {
        for max_cluster in [1, 3, 1000] {
            let mut order = cluster_order(&cliques(5, 7), max_cluster);
            order.sort_unstable();
            assert_eq!(order, (0..35).collect::<Vec<u32>>(), "clusters of {max_cluster}");
        }
        let empty = Csr::from_pairs(4, 4, &[]).expect("no edges");
        assert_eq!(cluster_order(&empty, 2), [0, 1, 2, 3]);
    }
}
