//! Weighted sums over neighbours, times weights: what GCN and SAGE share.
//!
//! `S W`, where row `v` of `S` is a sum over the neighbours of `v`, is computed in one of two orders.
//! *Rows first* sums the rows read and multiplies the sums. *Products first* multiplies the own rows,
//! and sums the products: where `W` has fewer columns than rows, less is gathered. Halo rows are summed
//! as they come in either order, and their sum is multiplied once: what is exchanged stays the layer's
//! input, and nothing of the halo is kept.

use sylvie_tensor::{Backend, Mode, SumFactors};

use crate::factors::ColumnFactors;
use crate::input::{Context, Input, KeptRows, LayerRows};

/// What neighbours count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weighting {
    /// `D^-1/2 (A + I) D^-1/2`, D counting the edge to oneself.
    Symmetric,
    /// The mean over neighbours; 0 without any.
    Mean,
}

impl Weighting {
    /// Factors of the own rows that are read; those of the sums are apart.
    fn own<B: Backend>(self, ctx: Context<'_, B>) -> SumFactors<'_, B::Matrix> {
        let factors = match self {
            Self::Symmetric => Some(&ctx.structure.gcn_factors),
            Self::Mean => None,
        };
        SumFactors { column: factors, own: factors, row: None }
    }

    /// Factors of the sums.
    fn row<B: Backend>(self, ctx: Context<'_, B>) -> &B::Matrix {
        match self {
            Self::Symmetric => &ctx.structure.gcn_factors,
            Self::Mean => &ctx.structure.mean_factors,
        }
    }

    /// What the edges of each row of a halo block are multiplied by.
    fn halo<'a, B: Backend>(
        self,
        ctx: Context<'a, B>,
        block: usize,
        factors: Option<&'a ColumnFactors<B>>,
    ) -> Option<&'a B::Matrix> {
        match (self, factors) {
            (_, Some(factors)) => Some(factors.scale()),
            (Self::Symmetric, None) => Some(&ctx.structure.halo[block].gcn_factors),
            (Self::Mean, None) => None,
        }
    }
}

/// The sums over rows read so far.
pub(crate) enum PartialSum<B: Backend> {
    /// Of all rows.
    Rows(B::Matrix),
    /// Own rows as they were read, and the sum over halo rows, where there are any; the sum of the own
    /// rows' products is part of the layer's output.
    Products { own: KeptRows<B>, halo: Option<B::Matrix> },
}

/// What the backward pass needs.
pub(crate) enum SavedSum<B: Backend> {
    /// The sums of rows.
    Rows(KeptRows<B>),
    /// Own rows, and the sums of halo rows.
    Products { own: KeptRows<B>, halo: Option<B::Matrix> },
}

/// The sum over own rows, of all that there is where the part has no halo.
///
/// # Panics
/// If rows are sparse or packed.
fn begin_rows<B: Backend>(
    ctx: Context<'_, B>,
    weighting: Weighting,
    own: &Input<B>,
) -> PartialSum<B> {
    let row = ctx.structure.halo.is_empty().then(|| weighting.row(ctx));
    let factors = SumFactors { row, ..weighting.own(ctx) };
    let structure = ctx.structure;
    let own = dense(own);
    PartialSum::Rows(ctx.backend.aggregated(&structure.own, factors, own, structure.n_local))
}

/// Starts with the own rows, and with the layer's output where products come first.
pub(crate) fn begin<B: Backend>(
    ctx: Context<'_, B>,
    weighting: Weighting,
    w: &B::Matrix,
    own: &LayerRows<B>,
) -> (PartialSum<B>, Option<B::Matrix>) {
    let (n_in, n_out) = ctx.backend.shape(w);
    if !ctx.structure.multiplies_first(n_in, n_out) {
        return (begin_rows(ctx, weighting, &own.read), None);
    }
    let n_local = ctx.structure.n_local;
    let mut products = ctx.backend.matrix_to_assign(n_local, n_out);
    own.read.matmul(ctx.backend, w, Mode::Assign, &mut products);
    let factors = SumFactors { row: Some(weighting.row(ctx)), ..weighting.own(ctx) };
    let y = ctx.backend.aggregated(&ctx.structure.own, factors, &products, n_local);
    (PartialSum::Products { own: own.kept.clone(), halo: None }, Some(y))
}

/// Adds a block's rows.
///
/// # Panics
/// If they are sparse.
pub(crate) fn add_block<B: Backend>(
    ctx: Context<'_, B>,
    weighting: Weighting,
    block: usize,
    rows: &Input<B>,
    factors: Option<&ColumnFactors<B>>,
    partial: &mut PartialSum<B>,
) {
    let edges = &ctx.structure.halo[block].edges;
    let (column, n_local) = (weighting.halo(ctx, block, factors), ctx.structure.n_local);
    let sum = match partial {
        PartialSum::Rows(sum) => sum,
        PartialSum::Products { halo: Some(sum), .. } => sum,
        PartialSum::Products { halo, .. } => match rows {
            Input::Packed(rows) => {
                let n_cols = ctx.backend.packed_shape(rows).1;
                halo.insert(ctx.backend.zeros(n_local, n_cols))
            }
            _ => {
                let factors = SumFactors { column, own: None, row: None };
                *halo = Some(ctx.backend.aggregated(edges, factors, dense(rows), n_local));
                return;
            }
        },
    };
    match rows {
        Input::Packed(rows) => ctx.backend.aggregate_packed(edges, column, rows, sum),
        _ => ctx.backend.aggregate(edges, column, dense(rows), sum),
    }
}

/// # Panics
/// If rows are sparse or packed.
fn dense<B: Backend>(rows: &Input<B>) -> &B::Matrix {
    match rows {
        Input::Dense(rows) => rows,
        Input::Sparse(_) => panic!("sparse rows enter sums of rows as a kept aggregate"),
        Input::Packed(_) => panic!("packed rows where only halo rows are"),
    }
}

/// The sums of rows, all of which were added.
///
/// # Panics
/// If products came first.
fn finish_rows<B: Backend>(
    ctx: Context<'_, B>,
    weighting: Weighting,
    partial: PartialSum<B>,
) -> B::Matrix {
    let PartialSum::Rows(mut sum) = partial else { panic!("sums of products, not of rows") };
    if !ctx.structure.halo.is_empty() {
        ctx.backend.scale_rows(weighting.row(ctx), &mut sum);
    }
    sum
}

/// The sums over own rows and all blocks, without products.
pub(crate) fn aggregate<'a, B: Backend>(
    ctx: Context<'_, B>,
    weighting: Weighting,
    own: &Input<B>,
    blocks: impl Iterator<Item = B::Matrix> + 'a,
) -> B::Matrix {
    let mut sum = begin_rows(ctx, weighting, own);
    for (block, rows) in blocks.enumerate() {
        add_block(ctx, weighting, block, &Input::dense(rows), None, &mut sum);
    }
    finish_rows(ctx, weighting, sum)
}

/// Adds `S W + bias` to `y`, or assigns it where there is none yet.
pub(crate) fn finish<B: Backend>(
    ctx: Context<'_, B>,
    weighting: Weighting,
    (w, bias): (&B::Matrix, &B::Matrix),
    y: Option<B::Matrix>,
    partial: PartialSum<B>,
) -> (B::Matrix, SavedSum<B>) {
    match partial {
        PartialSum::Rows(_) => {
            let sum = Input::dense(finish_rows(ctx, weighting, partial));
            from_rows(ctx, (w, bias), y, LayerRows::as_they_are(sum))
        }
        PartialSum::Products { own, halo } => {
            let Some(mut y) = y else { panic!("sums of products are part of the output") };
            let halo = halo.map(|mut sum| {
                ctx.backend.scale_rows(weighting.row(ctx), &mut sum);
                sum
            });
            match &halo {
                Some(sum) => ctx.backend.matmul_bias(sum, w, Mode::Add, bias, &mut y),
                None => ctx.backend.add_bias(bias, &mut y),
            }
            (y, SavedSum::Products { own, halo })
        }
    }
}

/// The same from sums of rows that are there already.
pub(crate) fn from_rows<B: Backend>(
    ctx: Context<'_, B>,
    (w, bias): (&B::Matrix, &B::Matrix),
    y: Option<B::Matrix>,
    sum: LayerRows<B>,
) -> (B::Matrix, SavedSum<B>) {
    let mode = if y.is_some() { Mode::Add } else { Mode::Assign };
    let n_out = ctx.backend.shape(w).1;
    let mut y = y.unwrap_or_else(|| ctx.backend.matrix_to_assign(ctx.structure.n_local, n_out));
    sum.read.matmul_bias(ctx.backend, w, mode, bias, &mut y);
    (y, SavedSum::Rows(sum.kept))
}

/// A backward pass that has gone through some of the blocks.
pub(crate) struct SumBackward<B: Backend> {
    saved: SavedSum<B>,
    /// Gradient of the own rows' products, where they came first.
    dproducts: Option<B::Matrix>,
    /// Gradient of the sums of rows, before their factors; where only halo rows were summed and there
    /// are none, or nobody asks for gradients of rows, absent.
    dsum: Option<B::Matrix>,
}

/// Starts from the gradient `dy` of the output; `is_first` where nobody asks for gradients of rows.
pub(crate) fn begin_backward<B: Backend>(
    ctx: Context<'_, B>,
    weighting: Weighting,
    w: &B::Matrix,
    saved: SavedSum<B>,
    dy: &B::Matrix,
    is_first: bool,
) -> SumBackward<B> {
    let dproducts = match &saved {
        SavedSum::Rows(_) => None,
        SavedSum::Products { .. } => {
            let mut scaled = ctx.backend.copy(dy);
            ctx.backend.scale_rows(weighting.row(ctx), &mut scaled);
            let (edges, factors) = (&ctx.structure.own, weighting.own(ctx));
            let n_local = ctx.structure.n_local;
            Some(ctx.backend.aggregated_transposed(edges, factors, &scaled, n_local))
        }
    };
    let is_needed = !is_first && (dproducts.is_none() || !ctx.structure.halo.is_empty());
    let dsum = is_needed.then(|| ctx.backend.matmul_nt_scaled(dy, w, weighting.row(ctx)));
    SumBackward { saved, dproducts, dsum }
}

/// The gradient of a block's rows.
///
/// # Panics
/// If the layer is the first.
pub(crate) fn block_gradient<B: Backend>(
    ctx: Context<'_, B>,
    weighting: Weighting,
    block: usize,
    factors: Option<&ColumnFactors<B>>,
    state: &SumBackward<B>,
) -> B::Matrix {
    let Some(dsum) = &state.dsum else { panic!("gradients of the first layer's rows") };
    let rows = &ctx.structure.halo[block];
    let column = weighting.halo(ctx, block, factors);
    let factors = SumFactors { column, own: None, row: None };
    ctx.backend.aggregated_transposed(&rows.edges, factors, dsum, rows.n_rows)
}

/// The gradient of the own rows, as neighbours.
///
/// # Panics
/// If the layer is the first.
pub(crate) fn own_gradient<B: Backend>(
    ctx: Context<'_, B>,
    weighting: Weighting,
    w: &B::Matrix,
    state: &SumBackward<B>,
) -> B::Matrix {
    let n_local = ctx.structure.n_local;
    if let Some(dproducts) = &state.dproducts {
        let mut own = ctx.backend.matrix_to_assign(n_local, ctx.backend.shape(w).0);
        ctx.backend.matmul_nt(dproducts, w, Mode::Assign, &mut own);
        return own;
    }
    let Some(dsum) = &state.dsum else { panic!("gradients of the first layer's rows") };
    ctx.backend.aggregated_transposed(&ctx.structure.own, weighting.own(ctx), dsum, n_local)
}

/// Assigns the gradient of the weights; `own_rows` are those after dropout, where somebody has made them again.
pub(crate) fn weight_gradient<B: Backend>(
    ctx: Context<'_, B>,
    state: &SumBackward<B>,
    own_rows: Option<Input<B>>,
    dy: &B::Matrix,
    dw: &mut B::Matrix,
) {
    match (&state.saved, &state.dproducts) {
        (SavedSum::Rows(sum), _) => {
            // Not beside the sum: both may have been made again.
            drop(own_rows);
            sum.read_again(ctx).matmul_tn(ctx.backend, dy, Mode::Assign, dw);
        }
        (SavedSum::Products { own, halo }, Some(dproducts)) => {
            let own = own_rows.unwrap_or_else(|| own.read_again(ctx));
            own.matmul_tn(ctx.backend, dproducts, Mode::Assign, dw);
            if let Some(sum) = halo {
                ctx.backend.matmul_tn(sum, dy, Mode::Add, dw);
            }
        }
        (SavedSum::Products { .. }, None) => panic!("products without their gradient"),
    }
}
