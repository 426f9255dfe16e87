//! The backward pass of a layer, block by block.

use sylvie_tensor::Backend;

use crate::config::ModelKind;
use crate::factors::ColumnFactors;
use crate::gat::{self, GatBackward};
use crate::gcn;
use crate::input::{Context, Input};
use crate::linear::{self, LinearSaved};
use crate::neighbours::SumBackward;
use crate::network::{BlockRead, Network, SavedLayer, SavedState};
use crate::post;
use crate::sage::{self, SageBackward};
use crate::weights::Weights;

/// A layer's backward pass that has gone through some of its blocks.
pub struct BackwardPartial<B: Backend> {
    layer: usize,
    n_blocks_done: usize,
    /// Of the forward pass, an entry a block: whether it had factors.
    has_factors: Vec<bool>,
    /// Gradient of the layer's output before LayerNorm and ReLU.
    dy: B::Matrix,
    state: BackwardState<B>,
    grads: Vec<B::Matrix>,
}

enum BackwardState<B: Backend> {
    Gcn(SumBackward<B>),
    Sage(SageBackward<B>),
    Gat(GatBackward<B>),
    Linear(LinearSaved<B>),
}

/// Gradients of one layer.
pub struct LayerGrads<B: Backend> {
    /// Of the weight tensors, in their order.
    pub weights: Vec<B::Matrix>,
    /// Of the own rows as the layer read them, after dropout; absent for the first layer, whose rows are
    /// raw features.
    pub own: Option<B::Matrix>,
}

impl Network {
    /// Starts the backward pass of a layer from the gradient `dy` of its output, and computes what its
    /// blocks need.
    pub fn begin_backward<B: Backend>(
        &self,
        ctx: Context<'_, B>,
        weights: &Weights<B>,
        saved: SavedLayer<B>,
        mut dy: B::Matrix,
    ) -> BackwardPartial<B> {
        let SavedLayer { layer, has_factors, state, post } = saved;
        let tensors = weights.layer(layer);
        let shapes = self.config().tensors(layer);
        let mut grads: Vec<B::Matrix> =
            shapes.iter().map(|spec| ctx.backend.zeros(spec.n_rows, spec.n_cols)).collect();
        if let Some(post) = post {
            let norm_grads = &mut grads[self.n_layer_tensors(layer)..];
            post::backward(ctx.backend, &post, &mut dy, norm_grads);
        }
        let is_first = layer == 0;
        let state = match state {
            SavedState::Gcn(saved) => {
                BackwardState::Gcn(gcn::begin_backward(ctx, tensors, saved, &dy, is_first))
            }
            SavedState::Sage(saved) => {
                BackwardState::Sage(sage::begin_backward(ctx, tensors, saved, &dy, is_first))
            }
            SavedState::Gat(saved) => {
                let heads = self.heads(layer);
                BackwardState::Gat(gat::begin_backward(ctx, tensors, heads, saved, &dy))
            }
            SavedState::Linear(saved) => BackwardState::Linear(saved),
        };
        BackwardPartial { layer, n_blocks_done: 0, has_factors, dy, state, grads }
    }

    /// The gradient of block `block`'s rows as the layer read them, after dropout; GAT adds what they
    /// bring to the weights' gradients. Blocks go back in their order.
    ///
    /// `halo` are the rows given to [`Network::add_block`]: only GAT reads them, and only where
    /// [`Context::keeps_halo`] was false. `factors` are those given there.
    ///
    /// # Panics
    /// If the layer is the first or linear, its blocks come in another order, GAT lacks rows that it
    /// did not keep, or there are factors in one direction only.
    pub fn block_gradient<B: Backend>(
        &self,
        ctx: Context<'_, B>,
        weights: &Weights<B>,
        block: usize,
        halo: Option<&Input<B>>,
        factors: Option<&ColumnFactors<B>>,
        partial: &mut BackwardPartial<B>,
    ) -> B::Matrix {
        let layer = partial.layer;
        assert!(layer > 0, "the first layer's rows are raw features, which have no gradients");
        partial.enter(block, factors.is_some());
        let tensors = weights.layer(layer);
        match &mut partial.state {
            BackwardState::Gcn(state) => gcn::block_gradient(ctx, block, factors, state),
            BackwardState::Sage(state) => sage::block_gradient(ctx, block, factors, state),
            BackwardState::Gat(state) => {
                let read = BlockRead { block, halo, factors };
                let (dy, grads) = (&partial.dy, &mut partial.grads);
                gat::block_backward(ctx, tensors, read, dy, state, grads)
                    .of_input(ctx.backend, tensors)
            }
            BackwardState::Linear(_) => panic!("layer {layer} is linear: it has no halo"),
        }
    }

    /// Goes back through block `block` for the weights' gradients alone: for the first layer, in place
    /// of [`Network::block_gradient`]. GCN and SAGE have nothing to do here.
    ///
    /// # Panics
    /// As [`Network::block_gradient`], but for the first layer.
    pub fn block_weight_gradients<B: Backend>(
        &self,
        ctx: Context<'_, B>,
        weights: &Weights<B>,
        block: usize,
        halo: Option<&Input<B>>,
        factors: Option<&ColumnFactors<B>>,
        partial: &mut BackwardPartial<B>,
    ) {
        partial.enter(block, factors.is_some());
        if let BackwardState::Gat(state) = &mut partial.state {
            let (tensors, read) =
                (weights.layer(partial.layer), BlockRead { block, halo, factors });
            gat::block_backward(ctx, tensors, read, &partial.dy, state, &mut partial.grads);
        }
    }

    /// Ends the backward pass of a layer: the gradients of the own rows and of the weights.
    ///
    /// Masks of dropout are not applied: add other parts' gradients to those of the own rows, then call
    /// [`Context::drop_gradient`].
    ///
    /// # Panics
    /// If a block has not gone back; those of the first layer need not in GCN and SAGE.
    pub fn finish_backward<B: Backend>(
        &self,
        ctx: Context<'_, B>,
        weights: &Weights<B>,
        partial: BackwardPartial<B>,
    ) -> LayerGrads<B> {
        let BackwardPartial { layer, n_blocks_done, has_factors, dy, state, mut grads } = partial;
        if layer > 0 || self.config().kind == ModelKind::Gat {
            assert_eq!(n_blocks_done, has_factors.len(), "blocks gone back and blocks read");
        }
        let tensors = weights.layer(layer);
        let own = match state {
            BackwardState::Gcn(state) => {
                gcn::weight_gradients(ctx, &state, &dy, &mut grads);
                (layer > 0).then(|| gcn::own_gradient(ctx, tensors, &state))
            }
            BackwardState::Sage(state) => {
                sage::weight_gradients(ctx, &state, &dy, &mut grads);
                (layer > 0).then(|| sage::own_gradient(ctx, tensors, &dy, &state))
            }
            BackwardState::Gat(state) => {
                let down = gat::finish_backward(ctx, tensors, &dy, state, &mut grads);
                (layer > 0).then(|| down.of_input(ctx.backend, tensors))
            }
            BackwardState::Linear(saved) => {
                linear::weight_gradients(ctx, &saved, &dy, &mut grads);
                (layer > 0).then(|| linear::own_gradient(ctx, tensors, &dy))
            }
        };
        LayerGrads { weights: grads, own }
    }

    /// The whole backward pass of a layer that kept its halo rows and had no factors; also returns the
    /// gradients of the halo rows as the layer read them, an entry a block, none for the first layer.
    ///
    /// # Panics
    /// If the layer had factors, or is GAT's and kept no halo rows.
    pub fn backward<B: Backend>(
        &self,
        ctx: Context<'_, B>,
        weights: &Weights<B>,
        saved: SavedLayer<B>,
        dy: B::Matrix,
    ) -> (LayerGrads<B>, Vec<B::Matrix>) {
        let (layer, n_blocks) = (saved.layer, saved.has_factors.len());
        let mut partial = self.begin_backward(ctx, weights, saved, dy);
        let mut halo = Vec::new();
        for block in 0..n_blocks {
            if layer > 0 {
                halo.push(self.block_gradient(ctx, weights, block, None, None, &mut partial));
            } else {
                self.block_weight_gradients(ctx, weights, block, None, None, &mut partial);
            }
        }
        (self.finish_backward(ctx, weights, partial), halo)
    }
}

impl<B: Backend> BackwardPartial<B> {
    /// Enters a block.
    ///
    /// # Panics
    /// If another is next, or factors were given in one direction only.
    fn enter(&mut self, block: usize, has_factors: bool) {
        assert_eq!(block, self.n_blocks_done, "order of the blocks gone back");
        self.n_blocks_done += 1;
        // A first layer from a kept aggregate read no blocks.
        if let Some(&had_factors) = self.has_factors.get(block) {
            assert_eq!(has_factors, had_factors, "factors of block {block}, backward and forward");
        }
    }
}
