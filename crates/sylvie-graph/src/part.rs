//! One part of a split graph, and who sends it what.

use crate::csr::Csr;

/// The part of a graph that one rank trains: its own nodes, and their edges in blocks.
///
/// A row's neighbours are ordered own, then by owner, then by their place in the owner's order. Each
/// block holds the columns of one owner, so that aggregating block by block adds in that order, wherever
/// the blocks come from.
///
/// # Example
/// Made by hand here; `sylvie-partition` builds the parts of any graph.
///
/// ```
/// use sylvie_graph::{Block, Csr, HaloPlan, PartGraph, SendList};
///
/// // The path 0 - 1 - 2 - 3, of which this part owns 0 and 1, and part 1 the others.
/// let own = Block {
///     owner: 0,
///     column_ids: vec![0, 1],
///     column_degrees: vec![1, 2],
///     rows: vec![0, 1],
///     edges: Csr::from_pairs(2, 2, &[(0, 1), (1, 0)])?,
/// };
/// // Local row 1 reads node 2.
/// let halo = Block {
///     owner: 1,
///     column_ids: vec![2],
///     column_degrees: vec![2],
///     rows: vec![1],
///     edges: Csr::from_pairs(1, 1, &[(0, 0)])?,
/// };
/// // And node 2 reads it.
/// let send = SendList { reader: 1, rows: vec![1], positions: vec![0] };
/// let part = PartGraph {
///     part: 0,
///     n_parts: 2,
///     own_ids: vec![0, 1],
///     degrees: vec![1, 2],
///     blocks: vec![own, halo],
///     plan: HaloPlan { boundary: vec![1], sends: vec![send] },
/// };
/// assert_eq!((part.n_local(), part.n_halo(), part.n_edges()), (2, 1, 3));
/// assert_eq!(part.plan.n_sent_rows(), 1);
/// # Ok::<(), sylvie_graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PartGraph {
    /// This part's number; its rank.
    pub part: u32,
    /// Number of parts.
    pub n_parts: u32,
    /// Global ids of the own nodes, in the order of the assignment: ascending, unless it has another. Local
    /// row `i` is node `own_ids[i]`.
    pub own_ids: Vec<u32>,
    /// Number of nodes each own row reads, in the graph that was split: in inductive training, the
    /// graph of the training nodes.
    pub degrees: Vec<u32>,
    /// The own columns first (always there), then one block an owner of halo rows, owners ascending.
    pub blocks: Vec<Block>,
    /// Rows to send.
    pub plan: HaloPlan,
}

/// Edges from the nodes of one owner to the own rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The part that owns the columns.
    pub owner: u32,
    /// Global ids of the columns, in the order in which their owner lists them. For a halo block these are
    /// the halo rows of that owner.
    pub column_ids: Vec<u32>,
    /// Number of nodes each column's node reads, in the graph that was split.
    pub column_degrees: Vec<u32>,
    /// Local rows with at least one edge in this block, ascending.
    pub rows: Vec<u32>,
    /// `rows.len() x column_ids.len()`.
    pub edges: Csr,
}

/// What a part sends when boundary rows are exchanged. What it receives are the columns of its halo
/// blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HaloPlan {
    /// Local rows that at least one other part reads, ascending.
    pub boundary: Vec<u32>,
    /// One list a part that reads any, readers ascending.
    pub sends: Vec<SendList>,
}

/// The rows that one reader needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendList {
    /// The part that reads them.
    pub reader: u32,
    /// Local rows, ascending: the order of the columns of the reader's block.
    pub rows: Vec<u32>,
    /// Where each of `rows` stands in [`HaloPlan::boundary`].
    pub positions: Vec<u32>,
}

impl PartGraph {
    /// Number of own rows.
    #[must_use]
    pub fn n_local(&self) -> usize {
        self.own_ids.len()
    }

    /// Number of halo rows, of all owners.
    #[must_use]
    pub fn n_halo(&self) -> usize {
        self.halo_blocks().iter().map(|block| block.column_ids.len()).sum()
    }

    /// Number of edges into own rows.
    #[must_use]
    pub fn n_edges(&self) -> usize {
        self.blocks.iter().map(|block| block.edges.n_edges()).sum()
    }

    /// The block of own columns.
    ///
    /// # Panics
    /// If there are no blocks at all.
    #[must_use]
    pub fn own_block(&self) -> &Block {
        &self.blocks[0]
    }

    /// The blocks of other owners' columns.
    #[must_use]
    pub fn halo_blocks(&self) -> &[Block] {
        &self.blocks[1..]
    }
}

impl HaloPlan {
    /// Number of rows sent in one exchange, counted once a reader.
    #[must_use]
    pub fn n_sent_rows(&self) -> usize {
        self.sends.iter().map(|send| send.rows.len()).sum()
    }
}
