//! The first layer's rows: raw features, whose aggregate never changes.

use std::sync::Arc;

use sylvie_graph::{Block, DenseMatrix, Features, PartGraph, SparseMatrix};
use sylvie_tensor::Backend;

use crate::config::ModelKind;
use crate::gcn;
use crate::input::{Context, Input};
use crate::neighbours;
use crate::sage;
use crate::structure::{gcn_factor, mean_factor};

/// The raw features of the own rows, and their aggregate with the neighbours', computed once.
///
/// # Example
/// ```
/// use sylvie_gnn::{Context, KeptAggregate, ModelKind, Network, Structure, Weights};
/// use sylvie_graph::{DenseMatrix, Features};
/// use sylvie_tensor::{Backend, CpuBackend};
/// # use sylvie_gnn::{ModelConfig, NormKind};
/// # use sylvie_graph::{Assignment, Direction, clean_edges};
/// # use sylvie_partition::build_parts;
/// # let (graph, _) = clean_edges(3, &[(0, 1), (1, 2)], Direction::Symmetric)?;
/// # let part = &build_parts(&graph, &Assignment::new(2, vec![0, 0, 1])?, None)[0];
/// # let config = ModelConfig::new(ModelKind::Sage, vec![1, 1, 1]);
/// # let network = Network::new(ModelConfig { dropout: 0.0, norm: NormKind::None, ..config })?;
/// # let backend = CpuBackend::new(1);
/// # let structure = Structure::new(&backend, part);
/// # let ctx = Context { backend: &backend, structure: &structure, dropout: None, keeps_halo: true };
/// # let tensors = [0.0, 1.0, 0.0, 0.0, 1.0, 0.0].map(|value| vec![value]);
/// # let weights = Weights::from_host(&backend, network.config(), &tensors);
///
/// // `part` owns two nodes of a path of three, and reads the third; layer 0 takes means of neighbours.
/// let features = |values: Vec<f32>| DenseMatrix::new(values.len(), 1, values).map(Features::Dense);
/// let (own, halo) = (features(vec![1.0, 2.0])?, [features(vec![6.0])?]);
/// let kept = KeptAggregate::new(ModelKind::Sage, ctx, part, &own, &halo); // once
/// let (y, _) = network.first_layer_from_kept(ctx, &weights, &kept); // in every epoch
/// assert_eq!(backend.download(&y), [2.0, 3.5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KeptAggregate<B: Backend> {
    /// SAGE's own rows; absent for GCN, whose aggregate holds them.
    pub(crate) own: Option<Input<B>>,
    pub(crate) aggregate: Input<B>,
}

impl<B: Backend> Input<B> {
    /// Brings features to the backend; sparse ones stay sparse where that is smaller.
    #[must_use]
    pub fn from_features(backend: &B, features: &Features) -> Self {
        match features {
            Features::Dense(x) => Self::dense(backend.upload(x.n_rows(), x.n_cols(), x.values())),
            Features::Sparse(x) => Self::from_sparse(backend, x),
        }
    }

    /// Keeps sparse rows sparse, unless so many values are stored that dense rows are smaller.
    fn from_sparse(backend: &B, x: &SparseMatrix) -> Self {
        // A stored value takes about five words, with its places by row and by column.
        let is_sparse = x.n_stored() * 5 <= x.n_rows() * x.n_cols();
        if is_sparse {
            return Self::Sparse(Arc::new(backend.upload_sparse(x)));
        }
        let x = x.to_dense();
        Self::dense(backend.upload(x.n_rows(), x.n_cols(), x.values()))
    }
}

impl<B: Backend> KeptAggregate<B> {
    /// Aggregates the features of a part: `own` rows, and one entry of `halo` a halo block.
    ///
    /// Sparse features give a sparse aggregate, where that is smaller than a dense one.
    ///
    /// # Panics
    /// If `kind` is GAT, whose weights change what is aggregated, or if dense and sparse are mixed.
    #[must_use]
    pub fn new(
        kind: ModelKind,
        ctx: Context<'_, B>,
        part: &PartGraph,
        own: &Features,
        halo: &[Features],
    ) -> Self {
        assert!(kind != ModelKind::Gat, "GAT's first layer has no aggregate to keep");
        assert_eq!(halo.len(), part.halo_blocks().len(), "halo features and halo blocks");
        let aggregate = match own {
            Features::Dense(own) => dense_aggregate(kind, ctx, own, halo),
            Features::Sparse(own) => {
                Input::from_sparse(ctx.backend, &sparse_aggregate(kind, part, own, halo))
            }
        };
        let own = (kind == ModelKind::Sage).then(|| Input::from_features(ctx.backend, own));
        Self { own, aggregate }
    }
}

fn dense_aggregate<B: Backend>(
    kind: ModelKind,
    ctx: Context<'_, B>,
    own: &DenseMatrix,
    halo: &[Features],
) -> Input<B> {
    let upload = |x: &DenseMatrix| ctx.backend.upload(x.n_rows(), x.n_cols(), x.values());
    let blocks = halo.iter().map(|block| match block {
        Features::Dense(block) => upload(block),
        Features::Sparse(_) => panic!("sparse halo features beside dense own ones"),
    });
    let own = Input::dense(upload(own));
    let weighting = match kind {
        ModelKind::Gcn => gcn::WEIGHTING,
        _ => sage::WEIGHTING,
    };
    Input::dense(neighbours::aggregate(ctx, weighting, &own, blocks))
}

/// Adds up sparse rows, one row of the result at a time.
struct RowSum {
    sums: Vec<f32>,
    touched: Vec<u32>,
    is_touched: Vec<bool>,
}

impl RowSum {
    fn new(n_cols: usize) -> Self {
        Self { sums: vec![0.0; n_cols], touched: Vec::new(), is_touched: vec![false; n_cols] }
    }

    fn add(&mut self, factor: f32, (columns, values): (&[u32], &[f32])) {
        for (&column, &value) in columns.iter().zip(values) {
            let at = column as usize;
            if !self.is_touched[at] {
                self.is_touched[at] = true;
                self.touched.push(column);
            }
            self.sums[at] += factor * value;
        }
    }

    /// Appends the sums times `factor`, and starts the next row.
    fn take(&mut self, factor: f32, indices: &mut Vec<u32>, values: &mut Vec<f32>) {
        self.touched.sort_unstable();
        for column in self.touched.drain(..) {
            let at = column as usize;
            indices.push(column);
            values.push(self.sums[at] * factor);
            self.sums[at] = 0.0;
            self.is_touched[at] = false;
        }
    }
}

/// The same sums as the dense aggregate, in the same order.
fn sparse_aggregate(
    kind: ModelKind,
    part: &PartGraph,
    own: &SparseMatrix,
    halo: &[Features],
) -> SparseMatrix {
    let sources: Vec<&SparseMatrix> = std::iter::once(own)
        .chain(halo.iter().map(|block| match block {
            Features::Sparse(block) => block,
            Features::Dense(_) => panic!("dense halo features beside sparse own ones"),
        }))
        .collect();
    let mut sum = RowSum::new(own.n_cols());
    let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    let mut next = vec![0; part.blocks.len()];
    for row in 0..part.n_local() {
        let degree = part.degrees[row];
        if kind == ModelKind::Gcn {
            sum.add(gcn_factor(degree), own.row(row));
        }
        for ((block, source), next) in part.blocks.iter().zip(&sources).zip(&mut next) {
            for &column in block_row(block, row, next) {
                let factor = match kind {
                    ModelKind::Gcn => gcn_factor(block.column_degrees[column as usize]),
                    _ => 1.0,
                };
                sum.add(factor, source.row(column as usize));
            }
        }
        let factor = match kind {
            ModelKind::Gcn => gcn_factor(degree),
            _ => mean_factor(degree),
        };
        sum.take(factor, &mut indices, &mut values);
        indptr.push(indices.len() as u64);
    }
    match SparseMatrix::new(own.n_cols(), &indptr, &indices, &values) {
        Ok(matrix) => matrix,
        Err(error) => panic!("an aggregate of sparse rows is a sparse matrix: {error}"),
    }
}

/// The columns of local row `row`, visited in ascending order; `next` is the cursor into the block.
fn block_row<'a>(block: &'a Block, row: usize, next: &mut usize) -> &'a [u32] {
    if block.rows.get(*next).is_some_and(|&candidate| candidate as usize == row) {
        *next += 1;
        block.edges.row(*next - 1)
    } else {
        &[]
    }
}
