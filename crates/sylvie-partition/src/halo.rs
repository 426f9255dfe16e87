//! From an assignment to parts that know their halo.

use std::borrow::Cow;

use rayon::prelude::*;
use sylvie_graph::{Assignment, Block, Csr, HaloPlan, PartGraph, SendList};

/// Marks a node that no part has seen yet; no part has this number.
const NOBODY: u32 = u32::MAX;

/// Cuts `graph`, restricted to `members`, into its parts.
///
/// The graph that is cut is the one that the members induce: edges to and from others are dropped, and
/// all degrees are those of that graph. Global ids stay those of `graph`. A part without members is
/// there nevertheless, with an empty own block.
///
/// What part `p` sends to `q` mirrors the block of `p` in `q`: row `i` of the send list is column `i`
/// of the block. In a directed graph that may be so in one direction only.
///
/// # Shapes
/// `members`: one flag a node; `None` for all nodes.
/// # Cost
/// Linear in nodes, edges and parts, plus sorting each part's halo ids; parts are cut by all threads.
/// Memory: the parts, twelve bytes a node and eight more a thread, and the induced graph when there are
/// members.
/// # Panics
/// If `graph` is not square, or `assignment` or `members` is of another number of nodes.
///
/// # Example
/// ```
/// use sylvie_graph::{Direction, clean_edges};
/// use sylvie_partition::{Contiguous, Partitioner, build_parts};
///
/// // A path of four nodes, cut in the middle: each part reads one row of the other.
/// let (graph, _) = clean_edges(4, &[(0, 1), (1, 2), (2, 3)], Direction::Symmetric)?;
/// let assignment = Contiguous.partition(&graph, &[true; 4], 2)?;
/// let parts = build_parts(&graph, &assignment, None);
/// assert_eq!((parts[0].own_ids.as_slice(), parts[1].n_halo()), (&[0, 1][..], 1));
/// let send = &parts[0].plan.sends[0]; // local row 1, which is node 1
/// assert_eq!((send.reader, send.rows.as_slice()), (1, &[1][..]));
/// assert_eq!(parts[1].halo_blocks()[0].column_ids, [1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn build_parts(
    graph: &Csr,
    assignment: &Assignment,
    members: Option<&[bool]>,
) -> Vec<PartGraph> {
    let own_ids = own_ids(assignment, members);
    let cutter = Cutter::new(induced(graph, assignment, members), assignment, &own_ids);
    let mut parts: Vec<PartGraph> = own_ids
        .into_par_iter()
        .enumerate()
        .map_init(
            || cutter.scratch(),
            |scratch, (part, own_ids)| cutter.cut(scratch, part as u32, own_ids),
        )
        .collect();
    // Readers ascending, so each owner's send lists come out in their order.
    for reader in 0..parts.len() {
        for at in 1..parts[reader].blocks.len() {
            let owner = parts[reader].blocks[at].owner as usize;
            let column_ids = &parts[reader].blocks[at].column_ids;
            let rows = column_ids.iter().map(|&id| cutter.local[id as usize]).collect();
            push_send(&mut parts[owner].plan, reader as u32, rows);
        }
    }
    for part in &mut parts {
        finish_plan(&mut part.plan, part.own_ids.len());
    }
    parts
}

/// Cuts one part out of `graph`, restricted to `members`: what [`build_parts`] has at `part`, without
/// holding the others.
///
/// # Shapes
/// `members`: one flag a node; `None` for all nodes.
/// # Cost
/// Linear in nodes and edges of the whole graph, plus sorting halo ids and the pairs of reader and row
/// sent.
/// # Panics
/// As [`build_parts`], and if there is no such part.
///
/// # Example
/// ```
/// use sylvie_graph::{Direction, clean_edges};
/// use sylvie_partition::{Contiguous, Partitioner, build_part, build_parts};
///
/// // A path of four nodes, of which the last is left out.
/// let (graph, _) = clean_edges(4, &[(0, 1), (1, 2), (2, 3)], Direction::Symmetric)?;
/// let assignment = Contiguous.partition(&graph, &[true; 4], 2)?;
/// let members = [true, true, true, false];
/// let part = build_part(&graph, &assignment, Some(&members), 1);
/// assert_eq!(part.own_ids, [2]);
/// assert_eq!(part.degrees, [1]); // it reads node 1, and node 3 no more
/// assert_eq!(part, build_parts(&graph, &assignment, Some(&members))[1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn build_part(
    graph: &Csr,
    assignment: &Assignment,
    members: Option<&[bool]>,
    part: u32,
) -> PartGraph {
    assert!(part < assignment.n_parts(), "part {part} of {}", assignment.n_parts());
    let graph = induced(graph, assignment, members);
    let owners = assignment.parts();
    let mut own_ids: Vec<u32> = (0_u32..)
        .zip(owners)
        .filter(|&(node, &owner)| owner == part && is_member(members, node))
        .map(|(node, _)| node)
        .collect();
    sort_by_place(assignment, &mut own_ids);
    let cutter = Cutter::new(graph, assignment, std::slice::from_ref(&own_ids));
    let mut built = cutter.cut(&mut cutter.scratch(), part, own_ids);
    for (reader, rows) in cutter.readers(part) {
        push_send(&mut built.plan, reader, rows);
    }
    finish_plan(&mut built.plan, built.own_ids.len());
    built
}

/// Cuts one part after the other out of a graph: what [`build_parts`] has, one at a time.
///
/// # Example
/// ```
/// use sylvie_graph::{Direction, clean_edges};
/// use sylvie_partition::{Contiguous, PartCutter, Partitioner};
///
/// // A ring of six nodes in three parts, of which one lies in memory at a time.
/// let edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)];
/// let (graph, _) = clean_edges(6, &edges, Direction::Symmetric)?;
/// let assignment = Contiguous.partition(&graph, &[true; 6], 3)?;
/// let mut cutter = PartCutter::new(&graph, &assignment, None);
/// for number in 0..3 {
///     let part = cutter.cut(number);
///     assert_eq!((part.n_local(), part.n_halo()), (2, 2)); // a neighbour on each side
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PartCutter<'a> {
    cutter: Cutter<'a>,
    scratch: Scratch,
    own_ids: Vec<Vec<u32>>,
    /// Row `v` lists the nodes that read `v`; `None` where they are those that `v` reads.
    reversed: Option<Csr>,
}

impl<'a> PartCutter<'a> {
    /// Prepares to cut `graph`, restricted to `members`.
    ///
    /// # Shapes
    /// `members`: one flag a node; `None` for all nodes.
    /// # Cost
    /// Linear in nodes, edges and parts. Memory: a few numbers a node, the induced graph where there are
    /// members, and the reversed graph, which is kept only where it is another.
    /// # Panics
    /// As [`build_parts`].
    #[must_use]
    pub fn new(graph: &'a Csr, assignment: &'a Assignment, members: Option<&[bool]>) -> Self {
        Self::of(induced(graph, assignment, members), assignment, members)
    }

    /// As [`PartCutter::new`], where the graph that the members induce is there already.
    pub(crate) fn of_induced(graph: Csr, assignment: &'a Assignment, members: &[bool]) -> Self {
        Self::of(Cow::Owned(graph), assignment, Some(members))
    }

    fn of(graph: Cow<'a, Csr>, assignment: &'a Assignment, members: Option<&[bool]>) -> Self {
        let reversed = Some(graph.transpose()).filter(|reversed| *reversed != *graph);
        let own_ids = own_ids(assignment, members);
        let cutter = Cutter::new(graph, assignment, &own_ids);
        Self { scratch: cutter.scratch(), cutter, own_ids, reversed }
    }

    /// Cuts one part; nothing is left of those cut before.
    ///
    /// # Cost
    /// Linear in the part's edges, plus sorting halo ids and the pairs of reader and row sent.
    /// # Panics
    /// If there is no such part.
    #[must_use]
    pub fn cut(&mut self, part: u32) -> PartGraph {
        let n_parts = self.own_ids.len();
        assert!((part as usize) < n_parts, "part {part} of {n_parts}");
        let own_ids = self.own_ids[part as usize].clone();
        let mut built = self.cutter.cut(&mut self.scratch, part, own_ids);
        let reversed = self.reversed.as_ref().unwrap_or(&self.cutter.graph);
        let mut reads: Vec<(u32, u32)> = Vec::new();
        for (row, &id) in (0_u32..).zip(&built.own_ids) {
            let readers = reversed.row(id as usize).iter().map(|&node| self.cutter.owner(node));
            reads.extend(readers.filter(|&reader| reader != part).map(|reader| (reader, row)));
        }
        for (reader, rows) in by_reader(reads) {
            push_send(&mut built.plan, reader, rows);
        }
        finish_plan(&mut built.plan, built.own_ids.len());
        built
    }
}

/// Brings nodes that ascend into the order of the assignment.
fn sort_by_place(assignment: &Assignment, nodes: &mut [u32]) {
    if assignment.is_reordered() {
        nodes.sort_unstable_by_key(|&node| assignment.place(node));
    }
}

/// The members that each part owns, in the order of the assignment.
fn own_ids(assignment: &Assignment, members: Option<&[bool]>) -> Vec<Vec<u32>> {
    let mut own_ids = vec![Vec::new(); assignment.n_parts() as usize];
    for (node, &part) in (0_u32..).zip(assignment.parts()) {
        if is_member(members, node) {
            own_ids[part as usize].push(node);
        }
    }
    own_ids.iter_mut().for_each(|nodes| sort_by_place(assignment, nodes));
    own_ids
}

fn induced<'a>(graph: &'a Csr, assignment: &Assignment, members: Option<&[bool]>) -> Cow<'a, Csr> {
    assert_eq!(graph.n_cols(), graph.n_rows(), "columns and rows of a graph to cut");
    assert_eq!(assignment.parts().len(), graph.n_rows(), "assigned nodes and nodes of the graph");
    members.map_or(Cow::Borrowed(graph), |members| Cow::Owned(graph.induced(members)))
}

fn is_member(members: Option<&[bool]>, node: u32) -> bool {
    members.is_none_or(|members| members[node as usize])
}

/// What cutting any part needs.
#[derive(Debug)]
struct Cutter<'a> {
    graph: Cow<'a, Csr>,
    assignment: &'a Assignment,
    owners: &'a [u32],
    n_parts: u32,
    /// Where each node stands in its own part's `own_ids`.
    local: Vec<u32>,
}

/// What one part after the other is cut with.
#[derive(Debug)]
struct Scratch {
    /// The part that listed each node in its halo last.
    listed_by: Vec<u32>,
    /// Where each node stands in its block of the part that is being cut.
    column: Vec<u32>,
    /// Which block of the part that is being cut holds each owner's columns.
    block_of: Vec<u32>,
}

impl<'a> Cutter<'a> {
    /// For parts that own `own_ids`, or for some of them.
    fn new(graph: Cow<'a, Csr>, assignment: &'a Assignment, own_ids: &[Vec<u32>]) -> Self {
        let mut local = vec![0; graph.n_rows()];
        for ids in own_ids {
            for (position, &id) in (0_u32..).zip(ids) {
                local[id as usize] = position;
            }
        }
        let (owners, n_parts) = (assignment.parts(), assignment.n_parts());
        Self { graph, assignment, owners, n_parts, local }
    }

    fn scratch(&self) -> Scratch {
        let n_nodes = self.graph.n_rows();
        Scratch {
            listed_by: vec![NOBODY; n_nodes],
            column: vec![0; n_nodes],
            block_of: vec![0; self.n_parts as usize],
        }
    }

    /// The part with its blocks and an empty plan.
    fn cut(&self, scratch: &mut Scratch, part: u32, own_ids: Vec<u32>) -> PartGraph {
        let halo_ids = self.halo_ids(scratch, part, &own_ids);
        let mut blocks = vec![BlockBuilder::new(part, own_ids.clone())];
        for same_owner in halo_ids.chunk_by(|&a, &b| self.owner(a) == self.owner(b)) {
            blocks.push(BlockBuilder::new(self.owner(same_owner[0]), same_owner.to_vec()));
        }
        for (at, block) in (0_u32..).zip(&blocks) {
            scratch.block_of[block.owner as usize] = at;
            for (position, &id) in (0_u32..).zip(&block.column_ids) {
                scratch.column[id as usize] = position;
            }
        }
        for (row, &id) in (0_u32..).zip(&own_ids) {
            for &column in self.graph.row(id as usize) {
                let at = scratch.block_of[self.owner(column) as usize];
                blocks[at as usize].push(row, scratch.column[column as usize]);
            }
        }
        PartGraph {
            part,
            n_parts: self.n_parts,
            degrees: self.degrees(&own_ids),
            blocks: blocks
                .into_iter()
                .map(|block| block.finish(self.assignment, |ids| self.degrees(ids)))
                .collect(),
            own_ids,
            plan: HaloPlan::default(),
        }
    }

    /// The nodes of others that `part` reads, by owner, then in the order of the assignment.
    fn halo_ids(&self, scratch: &mut Scratch, part: u32, own_ids: &[u32]) -> Vec<u32> {
        let mut halo_ids = Vec::new();
        for &id in own_ids {
            for &column in self.graph.row(id as usize) {
                if self.owner(column) != part && scratch.listed_by[column as usize] != part {
                    scratch.listed_by[column as usize] = part;
                    halo_ids.push(column);
                }
            }
        }
        halo_ids.sort_unstable_by_key(|&id| (self.owner(id), self.assignment.place(id)));
        halo_ids
    }

    /// Who reads which local rows of `part`, readers ascending, rows ascending.
    fn readers(&self, part: u32) -> Vec<(u32, Vec<u32>)> {
        let mut reads: Vec<(u32, u32)> = Vec::new();
        for (reader, row) in self.owners.iter().zip(0..self.graph.n_rows()) {
            if *reader != part {
                let columns = self.graph.row(row).iter().filter(|&&c| self.owner(c) == part);
                reads.extend(columns.map(|&column| (*reader, self.local[column as usize])));
            }
        }
        by_reader(reads)
    }

    fn owner(&self, node: u32) -> u32 {
        self.owners[node as usize]
    }

    fn degrees(&self, ids: &[u32]) -> Vec<u32> {
        ids.iter().map(|&id| self.graph.degree(id as usize)).collect()
    }
}

/// A block whose edges arrive row by row, ascending; in a row they come by node number.
struct BlockBuilder {
    owner: u32,
    column_ids: Vec<u32>,
    rows: Vec<u32>,
    /// Where each row of `rows` begins in `columns`.
    starts: Vec<u64>,
    columns: Vec<u32>,
}

impl BlockBuilder {
    fn new(owner: u32, column_ids: Vec<u32>) -> Self {
        Self { owner, column_ids, rows: Vec::new(), starts: Vec::new(), columns: Vec::new() }
    }

    fn push(&mut self, row: u32, column: u32) {
        if self.rows.last() != Some(&row) {
            self.rows.push(row);
            self.starts.push(self.columns.len() as u64);
        }
        self.columns.push(column);
    }

    fn finish(mut self, assignment: &Assignment, degrees: impl Fn(&[u32]) -> Vec<u32>) -> Block {
        self.starts.push(self.columns.len() as u64);
        if assignment.is_reordered() {
            for row in self.starts.windows(2) {
                self.columns[row[0] as usize..row[1] as usize].sort_unstable();
            }
        }
        let edges = Csr::new(self.column_ids.len(), self.starts, self.columns)
            .expect("columns below the block's width, ascending in each row");
        Block {
            owner: self.owner,
            column_degrees: degrees(&self.column_ids),
            column_ids: self.column_ids,
            rows: self.rows,
            edges,
        }
    }
}

/// The rows that each reader reads, out of pairs of both in any order.
fn by_reader(mut reads: Vec<(u32, u32)>) -> Vec<(u32, Vec<u32>)> {
    reads.sort_unstable();
    reads.dedup();
    let same_reader = reads.chunk_by(|a, b| a.0 == b.0);
    same_reader.map(|pairs| (pairs[0].0, pairs.iter().map(|&(_, row)| row).collect())).collect()
}

fn push_send(plan: &mut HaloPlan, reader: u32, rows: Vec<u32>) {
    plan.sends.push(SendList { reader, rows, positions: Vec::new() });
}

/// Lists the boundary of the send lists, and where their rows stand in it.
fn finish_plan(plan: &mut HaloPlan, n_local: usize) {
    let mut position_of = vec![NOBODY; n_local];
    for &row in plan.sends.iter().flat_map(|send| &send.rows) {
        position_of[row as usize] = 0;
    }
    for (row, position) in (0_u32..).zip(&mut position_of) {
        if *position != NOBODY {
            *position = plan.boundary.len() as u32;
            plan.boundary.push(row);
        }
    }
    for send in &mut plan.sends {
        send.positions = send.rows.iter().map(|&row| position_of[row as usize]).collect();
    }
}
