//! What a layer reads, and under which circumstances.

use std::sync::Arc;

use sylvie_random::Family;
use sylvie_tensor::{Backend, Mode};

use crate::structure::Structure;

/// Rows that a layer reads.
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
/// They are kept as they were before dropout: the layer before has them anyway, or the part its features,
/// so that they take no memory, and their mask is drawn again, which gives the same bits.
pub(crate) struct KeptRows<B: Backend> {
    rows: Input<B>,
    mask: Mask,
}

#[derive(Clone, Copy)]
enum Mask {
    Nothing,
    Rows,
    Aggregate,
}

impl<B: Backend> Clone for KeptRows<B> {
    fn clone(&self) -> Self {
        Self { rows: self.rows.clone(), mask: self.mask }
    }
}

impl<B: Backend> LayerRows<B> {
    /// Own rows, to which dropout is done.
    pub(crate) fn own(ctx: Context<'_, B>, rows: &Input<B>) -> Self {
        Self::masked(ctx, rows, Mask::Rows)
    }

    /// The kept aggregate, to which dropout is done.
    pub(crate) fn aggregate(ctx: Context<'_, B>, rows: &Input<B>) -> Self {
        Self::masked(ctx, rows, Mask::Aggregate)
    }

    /// Rows that are read as they are.
    pub(crate) fn as_they_are(rows: Input<B>) -> Self {
        Self { read: rows.clone(), kept: KeptRows { rows, mask: Mask::Nothing } }
    }

    fn masked(ctx: Context<'_, B>, rows: &Input<B>, mask: Mask) -> Self {
        let kept = KeptRows { rows: rows.clone(), mask };
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
        self.rows.dropped(ctx.backend, dropout, &ctx.structure.own_keys)
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
