//! The partitioner alone: two squares joined by an edge, in two parts.
#![allow(clippy::print_stdout, reason = "an example shows its results")]

use std::error::Error;

use sylvie::graph::{Direction, clean_edges};
use sylvie::partition::{Metis, Partitioner, build_parts, quality};

fn main() -> Result<(), Box<dyn Error>> {
    let edges = [(0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (7, 4), (3, 4)];
    // Inverses are added; duplicates and loops would be dropped, and counted in the second value.
    let (graph, _) = clean_edges(8, &edges, Direction::Symmetric)?;
    // METIS balances the nodes that train besides all nodes: here all of them do.
    let train = [true; 8];
    let assignment = Metis::default().partition(&graph, &train, 2)?;
    println!("nodes 0 to 7 are in parts {:?}", assignment.parts());

    let figures = quality(&graph, &assignment, &train);
    println!("{} halo rows, {} cut edges", figures.communication_volume, figures.cut_edges);
    // Only the joining edge is cut: each part reads one row of the other.
    assert_eq!((figures.communication_volume, figures.cut_edges), (2, 2));

    let parts = build_parts(&graph, &assignment, None);
    for part in &parts {
        for send in &part.plan.sends {
            let ids: Vec<_> = send.rows.iter().map(|&row| part.own_ids[row as usize]).collect();
            println!("part {} sends part {} the rows of nodes {ids:?}", part.part, send.reader);
            // Both sides know the same rows in the same order: a message needs no header.
            let reader = &parts[send.reader as usize];
            assert_eq!(reader.halo_blocks()[0].column_ids, ids);
        }
    }
    Ok(())
}
