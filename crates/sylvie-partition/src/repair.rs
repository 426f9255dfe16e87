//! Nodes for parts that got none.

use std::collections::VecDeque;

use sylvie_graph::Csr;

/// Gives every part at least one node, by moving connected pieces out of the largest parts.
///
/// A part that is empty receives up to half of the largest part (of several, the first), but no more
/// than its fair share of all nodes. Depends on the arguments only.
///
/// # Cost
/// Nothing but a count when no part is empty; else linear in nodes, and in the edges of moved nodes,
/// for each empty part.
/// # Panics
/// If there are more parts than nodes.
pub(crate) fn fill_empty_parts(graph: &Csr, n_parts: u32, parts: &mut [u32]) {
    assert!(n_parts as usize <= parts.len(), "{n_parts} parts of {} nodes", parts.len());
    let mut sizes = vec![0_usize; n_parts as usize];
    for &part in parts.iter() {
        sizes[part as usize] += 1;
    }
    let fair_share = parts.len() / n_parts as usize;
    for empty in 0..n_parts {
        if sizes[empty as usize] > 0 {
            continue;
        }
        // With an empty part and no more parts than nodes, the largest has two nodes or more.
        let (largest, _) = (0_u32..)
            .zip(&sizes)
            .max_by_key(|&(part, &size)| (size, u32::MAX - part))
            .expect("parts");
        let n_moved = (sizes[largest as usize] / 2).min(fair_share);
        move_connected(graph, parts, largest, empty, n_moved);
        sizes[largest as usize] -= n_moved;
        sizes[empty as usize] = n_moved;
    }
}

/// Moves `n_moved` nodes breadth first, starting again at the lowest id where a component ends.
fn move_connected(graph: &Csr, parts: &mut [u32], from: u32, to: u32, n_moved: usize) {
    let mut queue = VecDeque::new();
    let mut next_start = 0;
    for _ in 0..n_moved {
        let node = loop {
            let candidate = queue.pop_front().unwrap_or_else(|| {
                next_start += 1;
                next_start - 1
            });
            if parts[candidate] == from {
                break candidate;
            }
        };
        parts[node] = to;
        queue.extend(graph.row(node).iter().map(|&column| column as usize));
    }
}

#[cfg(test)]
mod tests {
    use sylvie_graph::{Csr, Direction, clean_edges};

    use super::fill_empty_parts;

    fn path(n_nodes: u32) -> Csr {
        let edges: Vec<_> = (1..n_nodes).map(|node| (node - 1, node)).collect();
        clean_edges(n_nodes as usize, &edges, Direction::Symmetric).unwrap().0
    }

    #[test]
    fn nothing_moves_when_no_part_is_empty() {
        let mut parts = vec![2, 0, 1, 0, 0, 0];
        fill_empty_parts(&path(6), 3, &mut parts);
        assert_eq!(parts, [2, 0, 1, 0, 0, 0]);
    }

    #[test]
    fn empty_parts_take_connected_pieces_of_the_largest() {
        let mut parts = vec![3; 8];
        fill_empty_parts(&path(8), 4, &mut parts);
        assert_eq!(parts, [0, 0, 1, 1, 2, 2, 3, 3]);
        let mut lone = vec![0; 3];
        fill_empty_parts(&Csr::from_pairs(3, 3, &[]).unwrap(), 3, &mut lone);
        assert_eq!(lone, [1, 2, 0]);
    }

    #[test]
    fn the_first_of_the_largest_parts_gives() {
        let mut parts = vec![2, 2, 1, 1, 2, 1];
        fill_empty_parts(&path(6), 3, &mut parts);
        assert_eq!(parts, [2, 2, 0, 1, 2, 1]);
    }
}
