//! Graphs and assignments to test on.

use proptest::prelude::*;
use sylvie_graph::{Assignment, Csr, Direction, clean_edges};
use sylvie_random::{Coordinates, Sequence, Stream};

/// What a random case consists of.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) graph: Csr,
    pub(crate) assignment: Assignment,
    pub(crate) flags: Vec<bool>,
}

/// Directed or symmetric graphs of up to 24 nodes, many of them sparse, in up to 6 parts of which some
/// are empty.
pub(crate) fn cases() -> impl Strategy<Value = Case> {
    (1_usize..24, 1_u32..7, any::<bool>()).prop_flat_map(|(n_nodes, n_parts, directed)| {
        let node = 0..n_nodes as u32;
        (
            prop::collection::vec((node.clone(), node), 0..70),
            prop::collection::vec(0..n_parts, n_nodes),
            prop::collection::vec(any::<bool>(), n_nodes),
        )
            .prop_map(move |(edges, parts, flags)| {
                let direction = if directed { Direction::Directed } else { Direction::Symmetric };
                let (graph, _) = clean_edges(n_nodes, &edges, direction).unwrap();
                Case { graph, assignment: Assignment::new(n_parts, parts).unwrap(), flags }
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
