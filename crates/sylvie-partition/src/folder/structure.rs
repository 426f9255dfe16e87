//! The structure of a part as arrays, and back, checked.

use sylvie_graph::{Block, Csr, GraphError, HaloPlan, PartGraph, SendList};

use super::arrays::{Arrays, NamedArray, ValuesRef};
use super::error::{ArrayFault, FolderFault};
use super::manifest::Manifest;
use crate::quality::PartQuality;

/// Names of the arrays of one graph.
#[derive(Clone, Copy)]
pub(super) struct Names {
    prefix: &'static str,
}

impl Names {
    /// Those of the whole graph's part.
    pub(super) const WHOLE: Self = Self { prefix: "" };
    /// Those of the part of the graph of training nodes.
    pub(super) const TRAINING: Self = Self { prefix: "train." };

    fn of(self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn block(self, at: usize, name: &str) -> String {
        format!("{}blocks.{at}.{name}", self.prefix)
    }

    fn send(self, at: usize) -> String {
        format!("{}sends.{at}.rows", self.prefix)
    }
}

/// Who owns the blocks of a part and reads from it, in arrays of their own.
#[derive(Debug)]
pub(super) struct Lists {
    owners: Vec<u32>,
    readers: Vec<u32>,
}

impl Lists {
    pub(super) fn of(graph: &PartGraph) -> Self {
        Self {
            owners: graph.blocks.iter().map(|block| block.owner).collect(),
            readers: graph.plan.sends.iter().map(|send| send.reader).collect(),
        }
    }
}

/// The arrays of a structure.
pub(super) fn graph_arrays<'a>(
    names: Names,
    graph: &'a PartGraph,
    lists: &'a Lists,
) -> Vec<NamedArray<'a>> {
    let ids = |name: String, values: &'a [u32]| NamedArray {
        name,
        shape: vec![values.len()],
        values: ValuesRef::U32(values),
    };
    let mut arrays = vec![
        ids(names.of("own_ids"), &graph.own_ids),
        ids(names.of("degrees"), &graph.degrees),
        ids(names.of("block_owners"), &lists.owners),
        ids(names.of("send_readers"), &lists.readers),
        ids(names.of("boundary"), &graph.plan.boundary),
    ];
    for (at, block) in graph.blocks.iter().enumerate() {
        let indptr = block.edges.indptr();
        arrays.push(NamedArray {
            name: names.block(at, "indptr"),
            shape: vec![indptr.len()],
            values: ValuesRef::U64(indptr),
        });
        arrays.push(ids(names.block(at, "rows"), &block.rows));
        arrays.push(ids(names.block(at, "indices"), block.edges.indices()));
        // Those of the own block are the own nodes.
        if at > 0 {
            arrays.push(ids(names.block(at, "column_ids"), &block.column_ids));
            arrays.push(ids(names.block(at, "column_degrees"), &block.column_degrees));
        }
    }
    for (at, send) in graph.plan.sends.iter().enumerate() {
        arrays.push(ids(names.send(at), &send.rows));
    }
    arrays
}

/// Reads the structure of one part.
pub(super) struct GraphReader<'a> {
    pub(super) manifest: &'a Manifest,
    pub(super) part: u32,
}

impl GraphReader<'_> {
    /// Takes the arrays of the structure, of `n_local` own nodes and such figures.
    ///
    /// # Errors
    /// The first array that does not agree with the others, with the manifest or with these.
    pub(super) fn graph(
        &self,
        arrays: &mut Arrays,
        names: Names,
        (n_own, figures): (usize, &PartQuality),
    ) -> Result<PartGraph, FolderFault> {
        let n_nodes = self.manifest.n_nodes;
        let own_ids = arrays.u32s(&names.of("own_ids"), None)?;
        check_distinct(&names.of("own_ids"), &own_ids, n_nodes)?;
        let n_local = own_ids.len();
        let degrees = arrays.u32s(&names.of("degrees"), Some(&[n_local]))?;
        let owners = arrays.u32s(&names.of("block_owners"), None)?;
        self.check_owners(&names.of("block_owners"), &owners)?;
        let mut blocks = vec![self.own_block(arrays, names, &own_ids, &degrees)?];
        for (at, &owner) in owners.iter().enumerate().skip(1) {
            blocks.push(self.halo_block(arrays, names, (at, owner), n_local)?);
        }
        check_degrees(&names.of("degrees"), &degrees, &blocks)?;
        let plan = self.plan(arrays, names, n_local, &blocks)?;
        let (part, n_parts) = (self.part, self.manifest.n_parts());
        let graph = PartGraph { part, n_parts, own_ids, degrees, blocks, plan };
        check_counts(&graph, n_own, figures)?;
        Ok(graph)
    }

    fn check_owners(&self, name: &str, owners: &[u32]) -> Result<(), FolderFault> {
        let (first, others) = owners.split_first().unwrap_or((&u32::MAX, &[]));
        if *first != self.part {
            let (found, expected) = (u64::from(*first), "the part itself first");
            let problem = ArrayFault::Value { position: 0, found, expected };
            return Err(FolderFault::array(name, problem));
        }
        self.check_others(name, others)
    }

    /// Checks that numbers of other parts ascend.
    fn check_others(&self, name: &str, parts: &[u32]) -> Result<(), FolderFault> {
        check_ascending(name, parts, self.manifest.parts.len())?;
        check(name, parts, "another part", |_, part| part != self.part)
    }

    fn own_block(
        &self,
        arrays: &mut Arrays,
        names: Names,
        own_ids: &[u32],
        degrees: &[u32],
    ) -> Result<Block, FolderFault> {
        let (rows, edges) = rows_and_edges(arrays, names, 0, (own_ids.len(), own_ids.len()))?;
        let (column_ids, column_degrees) = (own_ids.to_vec(), degrees.to_vec());
        Ok(Block { owner: self.part, column_ids, column_degrees, rows, edges })
    }

    fn halo_block(
        &self,
        arrays: &mut Arrays,
        names: Names,
        (at, owner): (usize, u32),
        n_local: usize,
    ) -> Result<Block, FolderFault> {
        let n_nodes = self.manifest.n_nodes;
        let name = names.block(at, "column_ids");
        let column_ids = arrays.u32s(&name, None)?;
        check_distinct(&name, &column_ids, n_nodes)?;
        let name = names.block(at, "column_degrees");
        let column_degrees = arrays.u32s(&name, Some(&[column_ids.len()]))?;
        check(&name, &column_degrees, "less than the number of nodes", |_, degree| {
            (degree as usize) < n_nodes
        })?;
        let (rows, edges) = rows_and_edges(arrays, names, at, (n_local, column_ids.len()))?;
        Ok(Block { owner, column_ids, column_degrees, rows, edges })
    }

    fn plan(
        &self,
        arrays: &mut Arrays,
        names: Names,
        n_local: usize,
        blocks: &[Block],
    ) -> Result<HaloPlan, FolderFault> {
        let name = names.of("send_readers");
        let readers = arrays.u32s(&name, None)?;
        self.check_others(&name, &readers)?;
        let boundary = arrays.u32s(&names.of("boundary"), None)?;
        check_ascending(&names.of("boundary"), &boundary, n_local)?;
        let mut is_sent = vec![false; boundary.len()];
        let mut sends = Vec::with_capacity(readers.len().min(self.manifest.parts.len()));
        for (at, reader) in readers.into_iter().enumerate() {
            let rows = arrays.u32s(&names.send(at), None)?;
            check_ascending(&names.send(at), &rows, n_local)?;
            let mut positions = Vec::with_capacity(rows.len());
            for (position, &row) in rows.iter().enumerate() {
                let Ok(place) = boundary.binary_search(&row) else {
                    let (found, expected) = (u64::from(row), "a row of `boundary`");
                    let problem = ArrayFault::Value { position, found, expected };
                    return Err(FolderFault::array(names.send(at), problem));
                };
                is_sent[place] = true;
                positions.push(place as u32);
            }
            sends.push(SendList { reader, rows, positions });
        }
        if let Some(position) = is_sent.iter().position(|&is_sent| !is_sent) {
            let (found, expected) = (u64::from(boundary[position]), "a row that is sent");
            let problem = ArrayFault::Value { position, found, expected };
            return Err(FolderFault::array(names.of("boundary"), problem));
        }
        if !self.manifest.directed {
            check_symmetric(names, &sends, blocks)?;
        }
        Ok(HaloPlan { boundary, sends })
    }
}

/// Local rows and edges of a block of `n_rows x n_cols`.
fn rows_and_edges(
    arrays: &mut Arrays,
    names: Names,
    at: usize,
    (n_rows, n_cols): (usize, usize),
) -> Result<(Vec<u32>, Csr), FolderFault> {
    let rows = arrays.u32s(&names.block(at, "rows"), None)?;
    check_ascending(&names.block(at, "rows"), &rows, n_rows)?;
    let name = names.block(at, "indptr");
    let indptr = arrays.u64s(&name, Some(&[rows.len() + 1]))?;
    check(&name, &indptr, "more than the one before: listed rows have edges", |before, value| {
        before.is_none_or(|before| before < value)
    })?;
    let name = names.block(at, "indices");
    let indices = arrays.u32s(&name, None)?;
    let edges = Csr::new(n_cols, indptr, indices).map_err(graph_fault(&name))?;
    Ok((rows, edges))
}

/// Checks that each row's edges are as many as its degree.
fn check_degrees(name: &str, degrees: &[u32], blocks: &[Block]) -> Result<(), FolderFault> {
    let mut n_edges = vec![0_u64; degrees.len()];
    for block in blocks {
        for (at, &row) in block.rows.iter().enumerate() {
            n_edges[row as usize] += u64::from(block.edges.degree(at));
        }
    }
    let wrong = degrees.iter().zip(&n_edges).position(|(&degree, &n)| u64::from(degree) != n);
    wrong.map_or(Ok(()), |position| {
        let (found, expected) = (u64::from(degrees[position]), "the number of the row's edges");
        Err(FolderFault::array(name, ArrayFault::Value { position, found, expected }))
    })
}

/// Checks that a part of a symmetric graph sends the rows that read, to those that they read from.
fn check_symmetric(names: Names, sends: &[SendList], blocks: &[Block]) -> Result<(), FolderFault> {
    let halo = blocks.get(1..).unwrap_or_default();
    if sends.len() != halo.len() {
        let (expected, found) = (halo.len() as u64, sends.len() as u64);
        let what = "readers, in a symmetric graph as many as owners of halo rows,";
        return Err(FolderFault::Count { what, expected, found });
    }
    for (at, (send, block)) in sends.iter().zip(halo).enumerate() {
        if send.reader != block.owner || send.rows != block.rows {
            let problem = ArrayFault::NotMirrored { reader: send.reader, owner: block.owner };
            return Err(FolderFault::array(names.send(at), problem));
        }
    }
    Ok(())
}

/// Checks a part against the manifest's figures.
fn check_counts(graph: &PartGraph, n_own: usize, figures: &PartQuality) -> Result<(), FolderFault> {
    for (what, expected, found) in [
        ("own nodes", n_own, graph.n_local()),
        ("edges", figures.n_edges, graph.n_edges()),
        ("halo rows", figures.n_halo, graph.n_halo()),
    ] {
        if expected != found {
            let (expected, found) = (expected as u64, found as u64);
            return Err(FolderFault::Count { what, expected, found });
        }
    }
    Ok(())
}

/// What makes an array no matrix, as a fault of it.
pub(super) fn graph_fault(name: &str) -> impl FnOnce(GraphError) -> FolderFault {
    let name = name.to_owned();
    move |error| FolderFault::array(name, ArrayFault::Graph(error))
}

/// Checks each value of an array with the one before it.
pub(super) fn check<T: Copy + Into<u64>>(
    name: &str,
    values: &[T],
    expected: &'static str,
    is_right: impl Fn(Option<T>, T) -> bool,
) -> Result<(), FolderFault> {
    let mut before = None;
    for (position, &value) in values.iter().enumerate() {
        if !is_right(before, value) {
            let problem = ArrayFault::Value { position, found: value.into(), expected };
            return Err(FolderFault::array(name, problem));
        }
        before = Some(value);
    }
    Ok(())
}

/// Checks that numbers ascend strictly and stay below `bound`.
fn check_ascending(name: &str, values: &[u32], bound: usize) -> Result<(), FolderFault> {
    let expected = "a number above the one before and below the bound of its kind";
    check(name, values, expected, |before, value| {
        before.is_none_or(|before| before < value) && (value as usize) < bound
    })
}

/// Checks that node numbers, in whichever order, name each node once and stay below `bound`.
fn check_distinct(name: &str, values: &[u32], bound: usize) -> Result<(), FolderFault> {
    let mut places: Vec<usize> = (0..values.len()).collect();
    places.sort_unstable_by_key(|&place| (values[place], place));
    let twice = places.windows(2).filter(|pair| values[pair[0]] == values[pair[1]]);
    let twice = twice.map(|pair| pair[1]).min();
    let beyond = values.iter().position(|&value| value as usize >= bound);
    let wrong = twice.into_iter().chain(beyond).min();
    wrong.map_or(Ok(()), |position| {
        let expected = "a number that no other entry has, below the bound of its kind";
        let problem = ArrayFault::Value { position, found: values[position].into(), expected };
        Err(FolderFault::array(name, problem))
    })
}
