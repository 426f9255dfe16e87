//! Parts and their halo plans against the definition.

use std::collections::BTreeSet;

use proptest::prelude::*;
use sylvie_graph::{Assignment, Block, Csr, Direction, PartGraph, clean_edges};
use sylvie_partition::{Contiguous, PartCutter, Partitioner, build_part, build_parts};

use crate::graphs::{Case, cases};

/// Edges of a block as pairs of global ids, the reader first.
fn global_edges(part: &PartGraph, block: &Block) -> Vec<(u32, u32)> {
    let mut edges = Vec::new();
    for (at, &row) in block.rows.iter().enumerate() {
        for &column in block.edges.row(at) {
            edges.push((part.own_ids[row as usize], block.column_ids[column as usize]));
        }
    }
    edges
}

fn strictly_ascending<T: PartialOrd>(values: &[T]) -> bool {
    values.windows(2).all(|pair| pair[0] < pair[1])
}

/// Checks one part alone against the graph that is cut.
fn check_part(graph: &Csr, assignment: &Assignment, members: &[bool], part: &PartGraph) {
    let owners = assignment.parts();
    let mut own: Vec<u32> = (0..graph.n_rows() as u32)
        .filter(|&v| owners[v as usize] == part.part && members[v as usize])
        .collect();
    own.sort_by_key(|&v| assignment.place(v));
    assert_eq!(part.n_parts, assignment.n_parts());
    assert_eq!(part.own_ids, own);
    assert_eq!(part.degrees, degrees(graph, &own));
    assert_eq!(part.own_block().owner, part.part);
    assert_eq!(part.own_block().column_ids, own);
    let halo: BTreeSet<(u32, u32, u32)> = own
        .iter()
        .flat_map(|&v| graph.row(v as usize))
        .map(|&u| (owners[u as usize], assignment.place(u), u))
        .filter(|&(owner, ..)| owner != part.part)
        .collect();
    let found: Vec<(u32, u32, u32)> = part
        .halo_blocks()
        .iter()
        .flat_map(|block| {
            block.column_ids.iter().map(|&id| (block.owner, assignment.place(id), id))
        })
        .collect();
    // Sets iterate in order: owners ascending, then places.
    assert_eq!(found, halo.into_iter().collect::<Vec<_>>());
    assert!(strictly_ascending(&part.halo_blocks().iter().map(|b| b.owner).collect::<Vec<_>>()));
    for block in &part.blocks {
        assert_eq!(block.column_degrees, degrees(graph, &block.column_ids));
        assert!(strictly_ascending(&block.rows));
        assert_eq!(block.edges.n_rows(), block.rows.len());
        assert_eq!(block.edges.n_cols(), block.column_ids.len());
        assert!((0..block.rows.len()).all(|row| !block.edges.row(row).is_empty()));
    }
}

/// Checks that what is sent is what is read, row for row.
fn check_plans(parts: &[PartGraph]) {
    for owner in parts {
        let plan = &owner.plan;
        let sent: BTreeSet<u32> = plan.sends.iter().flat_map(|s| s.rows.iter().copied()).collect();
        assert_eq!(plan.boundary, sent.into_iter().collect::<Vec<_>>());
        assert!(strictly_ascending(&plan.sends.iter().map(|s| s.reader).collect::<Vec<_>>()));
        for send in &plan.sends {
            let at_boundary: Vec<u32> =
                send.positions.iter().map(|&at| plan.boundary[at as usize]).collect();
            assert_eq!(at_boundary, send.rows);
        }
        for reader in parts {
            let read = reader.halo_blocks().iter().find(|block| block.owner == owner.part);
            let send = plan.sends.iter().find(|send| send.reader == reader.part);
            let sent_ids: Option<Vec<u32>> =
                send.map(|s| s.rows.iter().map(|&row| owner.own_ids[row as usize]).collect());
            assert_eq!(sent_ids, read.map(|block| block.column_ids.clone()));
        }
    }
}

fn degrees(graph: &Csr, ids: &[u32]) -> Vec<u32> {
    ids.iter().map(|&v| graph.row(v as usize).len() as u32).collect()
}

fn check(graph: &Csr, assignment: &Assignment, members: Option<&[bool]>) -> Vec<PartGraph> {
    let parts = build_parts(graph, assignment, members);
    let everybody = vec![true; graph.n_rows()];
    let members = members.unwrap_or(&everybody);
    let trained_on = graph.induced(members);
    assert_eq!(parts.len(), assignment.n_parts() as usize);
    for (number, part) in (0_u32..).zip(&parts) {
        assert_eq!(part.part, number);
        check_part(&trained_on, assignment, members, part);
    }
    check_plans(&parts);
    let mut reassembled: Vec<(u32, u32)> = parts
        .iter()
        .flat_map(|part| part.blocks.iter().flat_map(|block| global_edges(part, block)))
        .collect();
    reassembled.sort_unstable();
    let expected: Vec<(u32, u32)> = (0..graph.n_rows())
        .flat_map(|v| trained_on.row(v).iter().map(move |&u| (v as u32, u)))
        .collect();
    assert_eq!(reassembled, expected);
    parts
}

proptest! {
    #[test]
    fn parts_reassemble_and_mirror(Case { graph, assignment, flags, .. } in cases()) {
        for members in [None, Some(&flags[..])] {
            let parts = check(&graph, &assignment, members);
            let mut cutter = PartCutter::new(&graph, &assignment, members);
            for part in (0..assignment.n_parts()).rev() {
                prop_assert_eq!(&cutter.cut(part), &parts[part as usize]);
                let alone = build_part(&graph, &assignment, members, part);
                prop_assert_eq!(&alone, &parts[part as usize]);
            }
        }
    }
}

#[test]
fn a_path_in_two_parts() {
    // 0 - 1 - 2 - 3, and 4 with no edge.
    let (graph, _) = clean_edges(5, &[(0, 1), (1, 2), (2, 3)], Direction::Symmetric).unwrap();
    let assignment = Assignment::new(2, vec![0, 1, 0, 1, 1]).unwrap();
    let parts = check(&graph, &assignment, None);
    assert_eq!(parts[0].own_ids, [0, 2]);
    assert_eq!(parts[0].degrees, [1, 2]);
    assert_eq!(parts[0].own_block().edges.n_edges(), 0);
    assert_eq!(parts[0].halo_blocks()[0].column_ids, [1, 3]);
    assert_eq!(parts[0].halo_blocks()[0].column_degrees, [2, 1]);
    assert_eq!(parts[0].plan.boundary, [0, 1]);
    assert_eq!(parts[1].own_ids, [1, 3, 4]);
    assert_eq!(parts[1].plan.boundary, [0, 1]);
    assert_eq!(parts[1].plan.sends[0].positions, [0, 1]);
}

#[test]
fn a_directed_graph_sends_one_way() {
    // 1 reads 0, 2 reads 0, 2 reads 1.
    let edges = [(0, 1), (0, 2), (1, 2)];
    let (graph, _) = clean_edges(3, &edges, Direction::Directed).unwrap();
    let assignment = Assignment::new(3, vec![0, 1, 2]).unwrap();
    let parts = check(&graph, &assignment, None);
    let readers = |part: usize| -> Vec<u32> {
        parts[part].plan.sends.iter().map(|send| send.reader).collect()
    };
    assert_eq!((readers(0), readers(1), readers(2)), (vec![1, 2], vec![2], vec![]));
    assert_eq!(parts[0].n_halo(), 0);
    assert_eq!(parts[2].n_halo(), 2);
}

#[test]
fn parts_without_nodes_are_there() {
    let (graph, _) = clean_edges(4, &[(0, 3)], Direction::Symmetric).unwrap();
    let assignment = Assignment::new(4, vec![3, 3, 3, 1]).unwrap();
    let parts = check(&graph, &assignment, None);
    assert_eq!((parts[0].n_local(), parts[0].n_edges(), parts[0].blocks.len()), (0, 0, 1));
    let split = Contiguous.partition(&graph, &[false; 4], 2).unwrap();
    // Members on one side only: the other part keeps its place.
    let parts = check(&graph, &split, Some(&[true, true, false, false]));
    assert_eq!((parts[0].n_local(), parts[1].n_local()), (2, 0));
    let nothing = build_parts(
        &Csr::from_pairs(0, 0, &[]).unwrap(),
        &Assignment::new(2, vec![]).unwrap(),
        None,
    );
    assert_eq!(nothing.len(), 2);
}

#[test]
#[should_panic(expected = "part 2 of 2")]
fn a_part_that_does_not_exist_is_the_callers_fault() {
    let (graph, _) = clean_edges(2, &[(0, 1)], Direction::Symmetric).unwrap();
    let _ = build_part(&graph, &Assignment::new(2, vec![0, 1]).unwrap(), None, 2);
}
