//! A partitioner that goes through the nodes one by one and keeps little more than their parts.

use sylvie_graph::{Assignment, Csr};

use crate::error::PartitionError;
use crate::partitioner::{Partitioner, assignment, check_input};
use crate::repair::fill_empty_parts;

/// Marks a node that no pass has come to yet; no part has this number.
const NOWHERE: u32 = u32::MAX;

/// Looser, nothing would keep parts from being empty.
const IMBALANCE_MAX: f64 = 1.5;

/// Streaming partitioning by Fennel, gone through several times.
///
/// Nodes come by id. Each goes to the part that has the most of the nodes it reads, less a price that rises
/// with the size of the part; parts that are full, of nodes or of training nodes, take no more. The first
/// pass sees only the nodes before; those after it move nodes with all others in place, until no node moves
/// or `passes` are over.
///
/// For graphs that METIS cannot count or that leave no memory for it. Which of the two cuts better depends on
/// the graph; docs/performance.md has figures.
///
/// # Cost
/// Linear in edges, and in nodes times parts, for each pass; on one thread. Memory: four bytes a node.
/// # Paper
/// Tsourakakis, Gkantsidis, Radunovic, Vojnovic: FENNEL, WSDM 2014 (exponent 3/2); Nishimura, Ugander:
/// Restreaming graph partitioning, KDD 2013, for the passes.
///
/// # Example
/// ```
/// use sylvie_graph::{Direction, clean_edges};
/// use sylvie_partition::{Fennel, Partitioner};
///
/// // Two triangles, joined by an edge.
/// let edges = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)];
/// let (graph, _) = clean_edges(6, &edges, Direction::Symmetric)?;
/// let assignment = Fennel::default().partition(&graph, &[true; 6], 2)?;
/// assert_eq!(assignment.sizes(), [3, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fennel {
    /// How often the nodes are gone through at most, at least once.
    pub passes: u32,
    /// Largest part allowed, of nodes and of training nodes, as a multiple of the mean: above 1, at most
    /// 1.5.
    pub imbalance: f64,
}

impl Default for Fennel {
    fn default() -> Self {
        Self { passes: 10, imbalance: 1.03 }
    }
}

impl Partitioner for Fennel {
    fn partition(
        &self,
        graph: &Csr,
        train: &[bool],
        n_parts: u32,
    ) -> Result<Assignment, PartitionError> {
        check_input(graph, train, n_parts)?;
        // Written so that NaN is refused too.
        if !(self.imbalance > 1.0 && self.imbalance <= IMBALANCE_MAX) {
            let (imbalance, limit) = (self.imbalance as f32, IMBALANCE_MAX as f32);
            return Err(PartitionError::BadImbalance { imbalance, limit });
        }
        let mut stream = Stream::new(self, graph, train, n_parts);
        for _ in 0..self.passes.max(1) {
            if stream.pass() == 0 {
                break;
            }
        }
        let mut parts = stream.parts;
        fill_empty_parts(graph, n_parts, &mut parts);
        Ok(assignment(n_parts, parts))
    }

    fn name(&self) -> &str {
        "fennel"
    }
}

/// Where nodes are, and how full parts are.
struct Stream<'a> {
    graph: &'a Csr,
    train: &'a [bool],
    parts: Vec<u32>,
    n_nodes: Vec<u32>,
    n_train: Vec<u32>,
    /// What a part's root of its size is multiplied with.
    price: f64,
    max_nodes: u32,
    max_train: u32,
    /// Of the node that is being placed: how many of its neighbours each part has.
    n_near: Vec<u32>,
}

impl<'a> Stream<'a> {
    fn new(settings: &Fennel, graph: &'a Csr, train: &'a [bool], n_parts: u32) -> Self {
        let total = graph.n_rows() as f64;
        let n_pairs = graph.n_edges() as f64 / 2.0;
        // The paper's price of a part of size s is a s^(3/2), with a = sqrt(parts) edges / nodes^(3/2);
        // what one more node costs is the derivative of it.
        let price = 1.5 * f64::from(n_parts).sqrt() * n_pairs / (total * total.sqrt());
        let share = |count: f64| (count * settings.imbalance / f64::from(n_parts)).ceil() as u32;
        let n_train = train.iter().filter(|&&is_training| is_training).count();
        Self {
            graph,
            train,
            parts: vec![NOWHERE; graph.n_rows()],
            n_nodes: vec![0; n_parts as usize],
            n_train: vec![0; n_parts as usize],
            price,
            max_nodes: share(total),
            max_train: share(n_train as f64),
            n_near: vec![0; n_parts as usize],
        }
    }

    /// Places every node once; tells how many went elsewhere than they were.
    fn pass(&mut self) -> usize {
        let mut n_moved = 0;
        for node in 0..self.parts.len() {
            let before = self.parts[node];
            let is_training = u32::from(self.train[node]);
            if before != NOWHERE {
                self.n_nodes[before as usize] -= 1;
                self.n_train[before as usize] -= is_training;
            }
            let part = self.choose(node);
            self.n_nodes[part as usize] += 1;
            self.n_train[part as usize] += is_training;
            self.parts[node] = part;
            n_moved += usize::from(part != before);
        }
        n_moved
    }

    fn choose(&mut self, node: usize) -> u32 {
        let neighbours = self.graph.row(node);
        for &neighbour in neighbours {
            if let Some(near) = self.n_near.get_mut(self.parts[neighbour as usize] as usize) {
                *near += 1;
            }
        }
        let mut best: Option<(f64, u32)> = None;
        let mut smallest = 0;
        for part in 0..self.n_nodes.len() {
            if self.n_nodes[part] < self.n_nodes[smallest] {
                smallest = part;
            }
            let is_full = self.n_nodes[part] >= self.max_nodes
                || self.train[node] && self.n_train[part] >= self.max_train;
            let score =
                f64::from(self.n_near[part]) - self.price * f64::from(self.n_nodes[part]).sqrt();
            if !is_full && best.is_none_or(|(best, _)| score > best) {
                best = Some((score, part as u32));
            }
        }
        for &neighbour in neighbours {
            if let Some(near) = self.n_near.get_mut(self.parts[neighbour as usize] as usize) {
                *near = 0;
            }
        }
        // Where parts with room for training nodes have none for nodes, sizes matter more.
        best.map_or(smallest as u32, |(_, part)| part)
    }
}
