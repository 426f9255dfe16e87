//! What a layer reads, and under which circumstances.

use std::sync::Arc;

use sylvie_random::Family;
use sylvie_tensor::{Backend, Mode};

use crate::structure::Structure;

/// Rows that a layer reads.
///
/// # Example
/// ```
/// use sylvie_gnn::Input;
/// use sylvie_graph::{Features, SparseMatrix};
/// use sylvie_tensor::CpuBackend;
///
/// let backend = CpuBackend::new(1);
/// // One value in twelve is worth it; one in two is smaller as a dense row.
/// let sparse = Features::Sparse(SparseMatrix::new(12, &[0, 1], &[7], &[1.0])?);
/// assert!(matches!(Input::from_features(&backend, &sparse), Input::Sparse(_)));
/// let full = Features::Sparse(SparseMatrix::new(2, &[0, 1], &[1], &[1.0])?);
/// assert!(matches!(Input::from_features(&backend, &full), Input::Dense(_)));
/// # Ok::<(), sylvie_graph::GraphError>(())
/// ```
pub enum Input<B: Backend> {
    /// Every value stored.
    Dense(Arc<B::Matrix>),
    /// Raw sparse features.
    Sparse(Arc<B::Sparse>),
    /// Halo rows as they came: GCN and SAGE sum them, nobody multiplies them.
    Packed(Arc<B::Packed>),
}

impl<B: Backend> Clone for Input<B> {
    fn clone(&self) -> Self {
        match self {
            Self::Dense(matrix) => Self::Dense(Arc::clone(matrix)),
            Self::Sparse(matrix) => Self::Sparse(Arc::clone(matrix)),
            Self::Packed(rows) => Self::Packed(Arc::clone(rows)),
        }
    }
}

const PACKED_PRODUCT: &str = "packed rows are summed, not multiplied";

impl<B: Backend> Input<B> {
    /// Wraps a dense matrix.
    #[must_use]
    pub fn dense(matrix: B::Matrix) -> Self {
        Self::Dense(Arc::new(matrix))
    }

    /// `out (+)= self w`.
    pub(crate) fn matmul(&self, backend: &B, w: &B::Matrix, mode: Mode, out: &mut B::Matrix) {
        match self {
            Self::Dense(x) => backend.matmul(x, w, mode, out),
            Self::Sparse(x) => backend.sparse_matmul(x, w, mode, out),
            Self::Packed(_) => panic!("{PACKED_PRODUCT}"),
        }
    }

    /// `out (+)= self w`, then adds `bias` to each row.
    pub(crate) fn matmul_bias(
        &self,
        backend: &B,
        w: &B::Matrix,
        mode: Mode,
        bias: &B::Matrix,
        out: &mut B::Matrix,
    ) {
        match self {
            Self::Dense(x) => backend.matmul_bias(x, w, mode, bias, out),
            Self::Sparse(x) => {
                backend.sparse_matmul(x, w, mode, out);
                backend.add_bias(bias, out);
            }
            Self::Packed(_) => panic!("{PACKED_PRODUCT}"),
        }
    }

    /// `out (+)= self^T dy`.
    pub(crate) fn matmul_tn(&self, backend: &B, dy: &B::Matrix, mode: Mode, out: &mut B::Matrix) {
        match self {
            Self::Dense(x) => backend.matmul_tn(x, dy, mode, out),
            Self::Sparse(x) => backend.sparse_matmul_tn(x, dy, mode, out),
            Self::Packed(_) => panic!("{PACKED_PRODUCT}"),
        }
    }

    /// These rows after dropout; themselves without.
    pub(crate) fn dropped(
        &self,
        backend: &B,
        dropout: Option<(f32, Family)>,
        keys: &B::Index,
    ) -> Self {
        let Some((rate, draws)) = dropout else {
            return self.clone();
        };
        match self {
            Self::Dense(x) => Self::dense(backend.dropped(rate, draws, keys, x)),
            Self::Sparse(x) => Self::Sparse(Arc::new(backend.sparse_dropout(rate, draws, keys, x))),
            Self::Packed(x) => Self::Packed(Arc::new(backend.packed_dropped(rate, draws, keys, x))),
        }
    }
}

/// Rows as a layer reads them, and as its backward pass gets them again.
pub(crate) struct LayerRows<B: Backend> {
    /// After dropout.
    pub(crate) read: Input<B>,
    pub(crate) kept: KeptRows<B>,
}

/// Rows that a backward pass reads once more.
///
/// They are kept as they were before dropout, and their mask is drawn again, which gives the same bits. The part has its
/// features anyway; rows between layers are made again of what LayerNorm's own backward pass needs, where
/// there is a LayerNorm. So neither takes memory.
pub(crate) struct KeptRows<B: Backend> {
    source: Source<B>,
    mask: Mask,
}

enum Source<B: Backend> {
    Rows(Input<B>),
    Normalised(Arc<Normalised<B>>),
}

/// What LayerNorm and ReLU leave for the backward pass: their output can be made of it again.
pub(crate) struct Normalised<B: Backend> {
    /// Rows before gain and offset, `n x d`.
    pub(crate) rows: B::Matrix,
    /// Their inverse deviations, `n x 1`.
    pub(crate) inverse: B::Matrix,
    /// As they were, `1 x d`.
    pub(crate) gain: B::Matrix,
    pub(crate) offset: B::Matrix,
}

impl<B: Backend> Clone for Source<B> {
    fn clone(&self) -> Self {
        match self {
            Self::Rows(rows) => Self::Rows(rows.clone()),
            Self::Normalised(normalised) => Self::Normalised(Arc::clone(normalised)),
        }
    }
}

#[derive(Clone, Copy)]
enum Mask {
    Nothing,
    Rows,
    Aggregate,
}

impl<B: Backend> Clone for KeptRows<B> {
    fn clone(&self) -> Self {
        Self { source: self.source.clone(), mask: self.mask }
    }
}

impl<B: Backend> LayerRows<B> {
    /// Own rows, to which dropout is done.
    pub(crate) fn own(ctx: Context<'_, B>, rows: &Input<B>) -> Self {
        Self::masked(ctx, rows, Mask::Rows)
    }

    /// Own rows that LayerNorm and ReLU made, to which dropout is done.
    pub(crate) fn own_after(
        ctx: Context<'_, B>,
        rows: &Input<B>,
        normalised: &Arc<Normalised<B>>,
    ) -> Self {
        let read = rows.dropped(ctx.backend, ctx.row_dropout(), &ctx.structure.own_keys);
        let source = Source::Normalised(Arc::clone(normalised));
        Self { read, kept: KeptRows { source, mask: Mask::Rows } }
    }

    /// The kept aggregate, to which dropout is done.
    pub(crate) fn aggregate(ctx: Context<'_, B>, rows: &Input<B>) -> Self {
        Self::masked(ctx, rows, Mask::Aggregate)
    }

    /// Rows that are read as they are.
    pub(crate) fn as_they_are(rows: Input<B>) -> Self {
        let kept = KeptRows { source: Source::Rows(rows.clone()), mask: Mask::Nothing };
        Self { read: rows, kept }
    }

    fn masked(ctx: Context<'_, B>, rows: &Input<B>, mask: Mask) -> Self {
        let kept = KeptRows { source: Source::Rows(rows.clone()), mask };
        Self { read: kept.read_again(ctx), kept }
    }
}

impl<B: Backend> KeptRows<B> {
    /// The rows after dropout: those of the forward pass, in the circumstances of that pass.
    pub(crate) fn read_again(&self, ctx: Context<'_, B>) -> Input<B> {
        let dropout = match self.mask {
            Mask::Nothing => None,
            Mask::Rows => ctx.row_dropout(),
            Mask::Aggregate => ctx.aggregate_dropout(),
        };
        let keys = &ctx.structure.own_keys;
        match &self.source {
            Source::Rows(rows) => rows.dropped(ctx.backend, dropout, keys),
            Source::Normalised(of) => {
                let mut rows = ctx.backend.affine_relu(&of.gain, &of.offset, &of.rows);
                if let Some((rate, draws)) = dropout {
                    ctx.backend.dropout(rate, draws, keys, &mut rows);
                }
                Input::dense(rows)
            }
        }
    }
}

/// Dropout at the input of one layer in one epoch.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// Probability of dropping a value.
    pub rate: f32,
    /// Draws for rows.
    pub rows: Family,
    /// Draws for the first layer's kept aggregate.
    pub aggregate: Family,
}

/// Where and how a layer is computed.
///
/// # Example
/// ```
/// use sylvie_gnn::{Context, Dropout, Structure};
/// use sylvie_random::{Coordinates, Pass, Stream};
/// use sylvie_tensor::{Backend, CpuBackend};
/// # use sylvie_graph::{Assignment, Direction, clean_edges};
/// # use sylvie_partition::build_parts;
/// # let (graph, _) = clean_edges(3, &[(0, 1), (1, 2)], Direction::Symmetric)?;
/// # let part = &build_parts(&graph, &Assignment::new(2, vec![0, 0, 1])?, None)[0];
///
/// // Dropout of layer 1 in epoch 3.
/// let draws = |stream| Coordinates::new(7, stream).at(3, 1, Pass::Forward).family();
/// let dropout = Dropout {
///     rate: 0.5,
///     rows: draws(Stream::Dropout),
///     aggregate: draws(Stream::DropoutAggregate),
/// };
/// let backend = CpuBackend::new(1);
/// let structure = Structure::new(&backend, part); // two own rows
/// let ctx = Context {
///     backend: &backend,
///     structure: &structure,
///     dropout: Some(dropout),
///     keeps_halo: true,
/// };
/// // Gradients are masked as the rows were.
/// let (rows, mut gradient) = (backend.upload(2, 4, &[1.0; 8]), backend.upload(2, 4, &[1.0; 8]));
/// let read = backend.dropped(dropout.rate, dropout.rows, &structure.own_keys, &rows);
/// ctx.drop_gradient(&structure.own_keys, &mut gradient);
/// assert_eq!(backend.download(&read), backend.download(&gradient));
/// assert!(backend.download(&read).iter().all(|&value| value == 0.0 || value == 2.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Context<'a, B: Backend> {
    /// The machine.
    pub backend: &'a B,
    /// The part's edges.
    pub structure: &'a Structure<B>,
    /// Dropout; absent in evaluation or at rate 0.
    pub dropout: Option<Dropout>,
    /// Whether GAT keeps the halo rows it read, and what it computed of them, for its backward pass;
    /// otherwise they are given again there. GCN and SAGE keep nothing of them either way.
    ///
    /// # Paper
    /// False in SAR, so that a worker holds one remote part at a time.
    pub keeps_halo: bool,
}

impl<B: Backend> Clone for Context<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for Context<'_, B> {}

impl<B: Backend> Context<'_, B> {
    pub(crate) fn row_dropout(&self) -> Option<(f32, Family)> {
        self.dropout.map(|dropout| (dropout.rate, dropout.rows))
    }

    pub(crate) fn aggregate_dropout(&self) -> Option<(f32, Family)> {
        self.dropout.map(|dropout| (dropout.rate, dropout.aggregate))
    }

    /// Turns gradients with respect to rows after dropout into those before: applies the rows' mask.
    ///
    /// The mask is a function of the rows' keys, the same for each of their readers: the owner of rows
    /// may mask the sum of all readers' gradients once, with [`Structure::own_keys`].
    ///
    /// # Shapes
    /// `keys`: one a row of `gradient`.
    pub fn drop_gradient(&self, keys: &B::Index, gradient: &mut B::Matrix) {
        if let Some((rate, draws)) = self.row_dropout() {
            self.backend.dropout(rate, draws, keys, gradient);
        }
    }
}
