//! The partitioner alone: two squares joined by an edge, in two parts.
#![allow(clippy::print_stdout, reason = "an example shows its results")]

use std::error::Error;

use sylvie::graph::{Direction, clean_edges};
use sylvie::partition::{Metis, Partitioner, build_parts, quality};

fn main() -> Result<(), Box<dyn Error>> {
    let edges = [(0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (7, 4), (3, 4)];
    let (graph, _) = clean_edges(8, &edges, Direction::Symmetric)?;
    let train = [true; 8];
    let assignment = Metis::default().partition(&graph, &train, 2)?;
    println!("{} halo rows", quality(&graph, &assignment, &train).communication_volume);
    let parts = build_parts(&graph, &assignment, None);
    println!("part 0 sends part 1 the rows {:?}", parts[0].plan.sends[0].rows);
    Ok(())
}
