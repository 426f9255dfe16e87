//! A part's edges on a backend, with the factors that layers need.

use sylvie_graph::{Block, PartGraph};
use sylvie_tensor::Backend;

/// A part of a graph, ready to compute on.
///
/// # Example
/// ```
/// use sylvie_gnn::{HaloBlock, Structure};
/// use sylvie_tensor::CpuBackend;
/// # use sylvie_graph::{Assignment, Direction, clean_edges};
/// # use sylvie_partition::build_parts;
/// # let (graph, _) = clean_edges(3, &[(0, 1), (1, 2)], Direction::Symmetric)?;
/// # let part = &build_parts(&graph, &Assignment::new(2, vec![0, 0, 1])?, None)[0];
///
/// // The path 0 - 1 - 2. `part` owns nodes 0 and 1, and reads node 2 of part 1.
/// let structure = Structure::new(&CpuBackend::new(1), part);
/// assert_eq!((structure.n_local, structure.own_keys), (2, vec![0, 1]));
/// let HaloBlock { owner, n_rows, keys, .. } = &structure.halo[0];
/// assert_eq!((*owner, *n_rows, keys), (1, 1, &vec![2]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Structure<B: Backend> {
    /// Number of own rows.
    pub n_local: usize,
    /// Global ids of the own rows: their keys in random draws.
    pub own_keys: B::Index,
    /// Edges between own rows.
    pub own: B::Adjacency,
    /// Edges from halo rows, one block an owner, owners ascending.
    pub halo: Vec<HaloBlock<B>>,
    /// GCN's `1 / sqrt(degree + 1)` of the own rows, `n_local x 1`.
    pub(crate) gcn_factors: B::Matrix,
    /// Number of edges between own rows.
    n_own_edges: usize,
    /// SAGE's `1 / degree` of the own rows, 0 without neighbours, `n_local x 1`.
    pub(crate) mean_factors: B::Matrix,
}

/// Edges from the halo rows of one owner.
pub struct HaloBlock<B: Backend> {
    /// The part that owns the rows.
    pub owner: u32,
    /// Number of halo rows.
    pub n_rows: usize,
    /// Global ids of the halo rows.
    pub keys: B::Index,
    pub(crate) edges: B::Adjacency,
    pub(crate) gcn_factors: B::Matrix,
}

impl<B: Backend> Structure<B> {
    /// Brings a part to the backend.
    #[must_use]
    pub fn new(backend: &B, part: &PartGraph) -> Self {
        let n_local = part.n_local();
        let mean: Vec<f32> = part.degrees.iter().map(|&degree| mean_factor(degree)).collect();
        Self {
            n_local,
            own_keys: backend.upload_index(&part.own_ids),
            own: backend.upload_block(part.own_block()),
            halo: part.halo_blocks().iter().map(|block| HaloBlock::new(backend, block)).collect(),
            gcn_factors: gcn_factors(backend, &part.degrees),
            n_own_edges: part.own_block().edges.n_edges(),
            mean_factors: backend.upload(n_local, 1, &mean),
        }
    }

    /// Whether sums over neighbours, times weights of `n_in x n_out`, are cheaper as sums of products.
    ///
    /// What is saved is gathering `n_in - n_out` columns of every own edge, forward and backward. Where
    /// there is a halo, its sum is one more matrix that is multiplied, forward and backward: three
    /// products.
    pub(crate) fn multiplies_first(&self, n_in: usize, n_out: usize) -> bool {
        /// Products that take as long as gathering one value: of processors' arithmetic and memory.
        const PRODUCTS_A_VALUE: f64 = 8.0;
        if n_out >= n_in {
            return false;
        }
        let n_saved = 2.0 * self.n_own_edges as f64 * (n_in - n_out) as f64;
        let n_products = 3.0 * self.n_local as f64 * n_in as f64 * n_out as f64;
        self.halo.is_empty() || n_saved * PRODUCTS_A_VALUE > n_products
    }
}

impl<B: Backend> HaloBlock<B> {
    fn new(backend: &B, block: &Block) -> Self {
        Self {
            owner: block.owner,
            n_rows: block.column_ids.len(),
            keys: backend.upload_index(&block.column_ids),
            edges: backend.upload_block(block),
            gcn_factors: gcn_factors(backend, &block.column_degrees),
        }
    }
}

fn gcn_factors<B: Backend>(backend: &B, degrees: &[u32]) -> B::Matrix {
    let factors: Vec<f32> = degrees.iter().map(|&degree| gcn_factor(degree)).collect();
    backend.upload(degrees.len(), 1, &factors)
}

/// GCN's `1 / sqrt(degree + 1)`: the edge to oneself counts.
pub(crate) fn gcn_factor(degree: u32) -> f32 {
    (1.0 / (f64::from(degree) + 1.0).sqrt()) as f32
}

/// SAGE's `1 / degree`, 0 without neighbours.
pub(crate) fn mean_factor(degree: u32) -> f32 {
    if degree == 0 { 0.0 } else { 1.0 / degree as f32 }
}
