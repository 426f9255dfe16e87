//! A network, computed layer by layer.

use std::sync::Arc;

use sylvie_tensor::Backend;

use crate::config::{ConfigError, ModelConfig, ModelKind};
use crate::first_layer::KeptAggregate;
use crate::gat::{self, GatState, Heads};
use crate::gcn::{self, GcnPartial, GcnSaved};
use crate::input::{Context, Input, InputGrads};
use crate::linear::{self, LinearSaved};
use crate::post::{self, PostSaved};
use crate::sage::{self, SagePartial, SageSaved};
use crate::weights::Weights;

/// A network of graph layers followed by linear layers, with LayerNorm and ReLU between layers.
///
/// The weights are not part of it: every replica holds its own [`Weights`].
#[derive(Clone, Debug)]
pub struct Network {
    config: ModelConfig,
}

/// A layer that has read some of its blocks.
pub struct Partial<B: Backend> {
    layer: usize,
    n_blocks_added: usize,
    state: PartialState<B>,
}

enum PartialState<B: Backend> {
    Gcn(GcnPartial<B>),
    Sage(SagePartial<B>),
    Gat(GatState<B>),
    Linear(Input<B>),
}

/// What a layer's backward pass needs of its forward pass.
pub struct SavedLayer<B: Backend> {
    layer: usize,
    state: SavedState<B>,
    post: Option<PostSaved<B>>,
}

enum SavedState<B: Backend> {
    Gcn(GcnSaved<B>),
    Sage(SageSaved<B>),
    Gat(GatState<B>),
    Linear(LinearSaved<B>),
}

/// Gradients of one layer.
pub struct LayerGrads<B: Backend> {
    /// Of the weight tensors, in their order.
    pub weights: Vec<B::Matrix>,
    /// Of the rows read, after dropout was undone; absent for the first layer.
    pub inputs: Option<InputGrads<B>>,
}

impl Network {
    /// A network of that shape.
    ///
    /// # Errors
    /// A shape that cannot be built.
    pub fn new(config: ModelConfig) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self { config })
    }

    /// Its shape.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Starts layer `layer` with the own rows; dropout acts here.
    ///
    /// # Panics
    /// If sparse rows are given to a GCN or SAGE layer: they enter as a [`KeptAggregate`].
    pub fn begin<B: Backend>(
        &self,
        layer: usize,
        ctx: Context<'_, B>,
        weights: &Weights<B>,
        own: &Input<B>,
    ) -> Partial<B> {
        let own = own.dropped(ctx.backend, ctx.row_dropout(), &ctx.structure.own_keys);
        let state = if !self.config.is_graph_layer(layer) {
            PartialState::Linear(own)
        } else {
            match self.config.kind {
                ModelKind::Gcn => PartialState::Gcn(gcn::begin(ctx, dense(&own))),
                ModelKind::Sage => {
                    let rows = own.clone();
                    PartialState::Sage(sage::begin(ctx, own, dense(&rows)))
                }
                ModelKind::Gat => PartialState::Gat(gat::begin(ctx, weights.layer(layer), own)),
            }
        };
        Partial { layer, n_blocks_added: 0, state }
    }

    /// Adds block `block` of halo rows; dropout acts here. Blocks are added in their order.
    ///
    /// # Panics
    /// If the layer is linear, or gets its blocks in another order.
    pub fn add_block<B: Backend>(
        &self,
        ctx: Context<'_, B>,
        weights: &Weights<B>,
        block: usize,
        halo: &Input<B>,
        partial: &mut Partial<B>,
    ) {
        assert_eq!(block, partial.n_blocks_added, "order of the blocks added");
        partial.n_blocks_added += 1;
        let keys = &ctx.structure.halo[block].keys;
        let halo = halo.dropped(ctx.backend, ctx.row_dropout(), keys);
        match &mut partial.state {
            PartialState::Gcn(state) => gcn::add_block(ctx, block, dense(&halo), state),
            PartialState::Sage(state) => sage::add_block(ctx, block, dense(&halo), state),
            PartialState::Gat(state) => {
                gat::add_block(ctx, weights.layer(partial.layer), block, halo, state);
            }
            PartialState::Linear(_) => panic!("layer {} is linear: it has no halo", partial.layer),
        }
    }

    /// Ends a layer whose blocks have all been added.
    ///
    /// # Panics
    /// If a graph layer lacks some of its blocks.
    pub fn finish<B: Backend>(
        &self,
        ctx: Context<'_, B>,
        weights: &Weights<B>,
        partial: Partial<B>,
    ) -> (Arc<B::Matrix>, SavedLayer<B>) {
        let layer = partial.layer;
        if self.config.is_graph_layer(layer) {
            let n_blocks = ctx.structure.halo.len();
            assert_eq!(partial.n_blocks_added, n_blocks, "blocks added and blocks of the part");
        }
        let tensors = weights.layer(layer);
        let (y, state) = match partial.state {
            PartialState::Gcn(state) => {
                let aggregate = Input::dense(gcn::aggregate(ctx, state));
                let (y, saved) = gcn::update(ctx, tensors, aggregate);
                (y, SavedState::Gcn(saved))
            }
            PartialState::Sage(state) => {
                let (own, mean) = sage::aggregate(ctx, state);
                let (y, saved) = sage::update(ctx, tensors, own, Input::dense(mean));
                (y, SavedState::Sage(saved))
            }
            PartialState::Gat(state) => {
                let (y, saved) = gat::finish(ctx, tensors, self.heads(layer), state);
                (y, SavedState::Gat(saved))
            }
            PartialState::Linear(own) => {
                let (y, saved) = linear::forward(ctx, tensors, own);
                (y, SavedState::Linear(saved))
            }
        };
        self.end(layer, ctx, tensors, y, state)
    }

    /// The first layer of GCN and SAGE from the aggregate that was computed once.
    pub fn first_layer_from_kept<B: Backend>(
        &self,
        ctx: Context<'_, B>,
        weights: &Weights<B>,
        kept: &KeptAggregate<B>,
    ) -> (Arc<B::Matrix>, SavedLayer<B>) {
        let tensors = weights.layer(0);
        let keys = &ctx.structure.own_keys;
        let aggregate = kept.aggregate.dropped(ctx.backend, ctx.aggregate_dropout(), keys);
        let (y, state) = match &kept.own {
            None => {
                let (y, saved) = gcn::update(ctx, tensors, aggregate);
                (y, SavedState::Gcn(saved))
            }
            Some(own) => {
                let own = own.dropped(ctx.backend, ctx.row_dropout(), keys);
                let (y, saved) = sage::update(ctx, tensors, own, aggregate);
                (y, SavedState::Sage(saved))
            }
        };
        self.end(0, ctx, tensors, y, state)
    }

    fn end<B: Backend>(
        &self,
        layer: usize,
        ctx: Context<'_, B>,
        tensors: &[B::Matrix],
        y: B::Matrix,
        state: SavedState<B>,
    ) -> (Arc<B::Matrix>, SavedLayer<B>) {
        if self.config.is_last(layer) {
            return (Arc::new(y), SavedLayer { layer, state, post: None });
        }
        let norm = &tensors[self.n_layer_tensors(layer)..];
        let (y, post) = post::forward(ctx.backend, norm, y);
        (y, SavedLayer { layer, state, post: Some(post) })
    }

    /// Gradients of a layer from the gradient `dy` of its output.
    ///
    /// The gradients of the rows read are those of the rows before dropout; they are assigned, and are
    /// left out when `layer` is the first, whose rows are raw features.
    pub fn backward<B: Backend>(
        &self,
        ctx: Context<'_, B>,
        weights: &Weights<B>,
        saved: SavedLayer<B>,
        mut dy: B::Matrix,
    ) -> LayerGrads<B> {
        let SavedLayer { layer, state, post } = saved;
        let tensors = weights.layer(layer);
        let shapes = self.config.tensors(layer);
        let mut grads: Vec<B::Matrix> =
            shapes.iter().map(|spec| ctx.backend.zeros(spec.n_rows, spec.n_cols)).collect();
        let (layer_grads, norm_grads) = grads.split_at_mut(self.n_layer_tensors(layer));
        if let Some(post) = post {
            let norm = &tensors[self.n_layer_tensors(layer)..];
            post::backward(ctx.backend, norm, &post, &mut dy, norm_grads);
        }
        let with_inputs = layer > 0;
        let inputs = match state {
            SavedState::Gcn(saved) => {
                gcn::weight_gradients(ctx, &saved, &dy, layer_grads);
                with_inputs.then(|| gcn::input_gradients(ctx, tensors, &dy))
            }
            SavedState::Sage(saved) => {
                sage::weight_gradients(ctx, &saved, &dy, layer_grads);
                with_inputs.then(|| sage::input_gradients(ctx, tensors, &dy))
            }
            SavedState::Gat(saved) => {
                let heads = self.heads(layer);
                gat::backward(ctx, tensors, heads, &saved, &dy, with_inputs, layer_grads)
            }
            SavedState::Linear(saved) => {
                let own = linear::backward(ctx, tensors, &saved, &dy, layer_grads);
                with_inputs.then(|| InputGrads { own, halo: Vec::new() })
            }
        };
        let inputs = inputs.map(|mut inputs| {
            ctx.drop_gradient(&ctx.structure.own_keys, &mut inputs.own);
            for (block, gradient) in ctx.structure.halo.iter().zip(&mut inputs.halo) {
                ctx.drop_gradient(&block.keys, gradient);
            }
            inputs
        });
        LayerGrads { weights: grads, inputs }
    }

    fn heads(&self, layer: usize) -> Heads {
        if self.config.is_last(layer) { Heads::Averaged } else { Heads::Concatenated }
    }

    /// Tensors of the layer itself; those of its LayerNorm follow.
    fn n_layer_tensors(&self, layer: usize) -> usize {
        let n_tensors = self.config.tensors(layer).len();
        let has_norm = self.config.tensors(layer).iter().any(|spec| spec.name == "ln_w");
        if has_norm { n_tensors - 2 } else { n_tensors }
    }
}

fn dense<B: Backend>(rows: &Input<B>) -> &B::Matrix {
    match rows {
        Input::Dense(matrix) => matrix,
        Input::Sparse(_) => panic!("sparse rows enter GCN and SAGE as a kept aggregate"),
    }
}
