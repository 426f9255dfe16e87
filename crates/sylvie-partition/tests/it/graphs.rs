//! Graphs and assignments to test on.

use proptest::prelude::*;
use sylvie_graph::{
    Assignment, Cleaning, Csr, Dataset, DenseMatrix, Direction, Features, Labels, Role,
    SparseMatrix, Split, clean_edges,
};
use sylvie_random::{Coordinates, Sequence, Stream};

/// What a random case consists of.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) graph: Csr,
    pub(crate) assignment: Assignment,
    pub(crate) flags: Vec<bool>,
    pub(crate) direction: Direction,
}

/// How a data set is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Dense features, one class a node.
    Plain,
    /// Sparse features, several classes a node.
    Rich,
}

impl Case {
    /// Features and labels for the graph; flagged nodes are trained on.
    pub(crate) fn dataset(&self, kind: Kind) -> Dataset {
        let n_nodes = self.graph.n_rows();
        let nodes = 0..n_nodes as u32;
        let role = |(node, &flag): (u32, &bool)| match (flag, node % 3) {
            (true, _) => Role::Train,
            (false, 0) => Role::Val,
            (false, 1) => Role::Test,
            (false, _) => Role::None,
        };
        let values = nodes.clone().flat_map(|node| [node as f32 * 0.1, -0.0, 1e-40]).collect();
        let features = match kind {
            Kind::Plain => Features::Dense(DenseMatrix::new(n_nodes, 3, values).unwrap()),
            Kind::Rich => {
                let n_before = |row: u64| (2 * row).div_ceil(3);
                let indptr: Vec<u64> = (0..=n_nodes as u64).map(n_before).collect();
                let n_stored = (2 * n_nodes).div_ceil(3);
                let columns: Vec<u32> = (0..n_stored as u32).map(|at| at % 3).collect();
                let values = &values[..n_stored];
                Features::Sparse(SparseMatrix::new(3, &indptr, &columns, values).unwrap())
            }
        };
        let labels = match kind {
            Kind::Plain => {
                let class = |node: u32| if node % 5 == 4 { u32::MAX } else { node % 4 };
                Labels::single(4, nodes.clone().map(class).collect()).unwrap()
            }
            Kind::Rich => Labels::Multi {
                n_classes: 2,
                values: nodes.clone().flat_map(|node| [(node % 2) as u8, 1]).collect(),
                labelled: nodes.clone().map(|node| node % 4 != 3).collect(),
            },
        };
        Dataset {
            name: "case".to_owned(),
            graph: self.graph.clone(),
            direction: self.direction,
            cleaning: Cleaning { n_stored: 70, n_loops: 2, ..Cleaning::default() },
            features,
            labels,
            split: Split::new(nodes.zip(&self.flags).map(role).collect()),
        }
    }
}

/// A symmetric graph of two communities in four parts; a third of the nodes are trained on.
pub(crate) fn community_case() -> Case {
    let graph = planted(2, 3);
    let n_nodes = graph.n_rows() as u32;
    Case {
        assignment: Assignment::new(4, (0..n_nodes).map(|node| node % 4).collect()).unwrap(),
        flags: (0..n_nodes).map(|node| node % 3 == 0).collect(),
        direction: Direction::Symmetric,
        graph,
    }
}

/// Directed or symmetric graphs of up to 24 nodes, many of them sparse, in up to 6 parts of which some
/// are empty; half of them list their nodes in another order than by number.
pub(crate) fn cases() -> impl Strategy<Value = Case> {
    (1_usize..24, 1_u32..7, any::<bool>()).prop_flat_map(|(n_nodes, n_parts, directed)| {
        let node = 0..n_nodes as u32;
        (
            prop::collection::vec((node.clone(), node), 0..70),
            prop::collection::vec(0..n_parts, n_nodes),
            prop::collection::vec(any::<bool>(), n_nodes),
            prop::option::of(Just((0..n_nodes as u32).collect::<Vec<_>>()).prop_shuffle()),
        )
            .prop_map(move |(edges, parts, flags, order)| {
                let direction = if directed { Direction::Directed } else { Direction::Symmetric };
                let (graph, _) = clean_edges(n_nodes, &edges, direction).unwrap();
                let assignment = Assignment::new(n_parts, parts).unwrap();
                let assignment = match order {
                    Some(order) => assignment.in_order(&order),
                    None => assignment,
                };
                Case { graph, assignment, flags, direction }
            })
    })
}

/// Communities of 50 nodes in a ring of communities, ids shuffled: 6 edges a node inside its community,
/// one to a neighbouring community now and then.
pub(crate) fn planted(n_communities: u32, seed: u64) -> Csr {
    let n_nodes = n_communities * 50;
    let mut draws = Sequence::new(Coordinates::new(seed, Stream::Generator).family(), 0);
    let mut ids: Vec<u32> = (0..n_nodes).collect();
    draws.shuffle(&mut ids);
    let mut edges = Vec::new();
    for node in 0..n_nodes {
        let community = node / 50;
        for _ in 0..6 {
            edges.push((ids[node as usize], ids[(community * 50 + draws.below(50)) as usize]));
        }
        if draws.below(10) == 0 {
            let other = (community + 1) % n_communities * 50 + draws.below(50);
            edges.push((ids[node as usize], ids[other as usize]));
        }
    }
    clean_edges(n_nodes as usize, &edges, Direction::Symmetric).unwrap().0
}
