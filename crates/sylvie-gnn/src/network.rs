//! A network, computed layer by layer.

use std::sync::Arc;

use sylvie_tensor::Backend;

use crate::config::{ConfigError, ModelConfig, ModelKind};
use crate::factors::ColumnFactors;
use crate::first_layer::KeptAggregate;
use crate::gat::{self, GatState, Heads};
use crate::gcn::{self, GcnPartial};
use crate::input::{Context, Input, LayerRows};
use crate::linear::{self, LinearSaved};
use crate::neighbours::SavedSum;
use crate::post::{self, PostSaved};
use crate::sage::{self, SagePartial, SageSaved};
use crate::weights::Weights;

/// A network of graph layers followed by linear layers, with LayerNorm and ReLU between layers.
///
/// The weights are not part of it: every replica holds its own [`Weights`].
///
/// # Example
/// A layer of GraphSAGE on one of two parts, forward and back. What another part owns comes in between.
///
/// ```
/// use sylvie_gnn::{
///     BackwardPartial, Context, Input, LayerGrads, ModelConfig, ModelKind, Network, NormKind,
///     Partial, SavedLayer, Structure, Weights,
/// };
/// use sylvie_graph::{Assignment, Direction, clean_edges};
/// use sylvie_partition::build_parts;
/// use sylvie_tensor::{Backend, CpuBackend};
///
/// // The path 0 - 1 - 2. This part owns nodes 0 and 1, and reads node 2.
/// let (graph, _) = clean_edges(3, &[(0, 1), (1, 2)], Direction::Symmetric)?;
/// let part = &build_parts(&graph, &Assignment::new(2, vec![0, 0, 1])?, None)[0];
/// let config = ModelConfig::new(ModelKind::Sage, vec![1, 1, 1]);
/// let network = Network::new(ModelConfig { norm: NormKind::None, ..config })?;
/// let backend = CpuBackend::new(1);
/// let structure = Structure::new(&backend, part);
/// let ctx = Context { backend: &backend, structure: &structure, dropout: None, keeps_halo: true };
/// // Of each layer the weights of own rows and of neighbours' means, and the bias.
/// let tensors = [0.0, 1.0, 0.0, 0.0, 1.0, 0.0].map(|value| vec![value]);
/// let weights = Weights::from_host(&backend, network.config(), &tensors);
///
/// let own = Input::dense(backend.upload(2, 1, &[1.0, 2.0]));
/// let mut partial: Partial<_> = network.begin(1, ctx, &weights, &own);
/// let halo = Input::dense(backend.upload(1, 1, &[6.0])); // node 2's row has arrived
/// network.add_block(ctx, &weights, 0, &halo, None, &mut partial);
/// let (y, saved): (_, SavedLayer<_>) = network.finish(ctx, &weights, partial);
/// assert_eq!(backend.download(&y), [2.0, 3.5]); // the means of {2} and of {1, 6}
///
/// let dy = backend.upload(2, 1, &[1.0, 1.0]);
/// let mut partial: BackwardPartial<_> = network.begin_backward(ctx, &weights, saved, dy);
/// let of_halo = network.block_gradient(ctx, &weights, 0, None, None, &mut partial);
/// assert_eq!(backend.download(&of_halo), [0.5]); // leaves for the owner of node 2
/// let LayerGrads { weights: of_weights, own } = network.finish_backward(ctx, &weights, partial);
/// assert_eq!(own.map(|own| backend.download(&own)), Some(vec![0.5, 1.0]));
/// let of_weights: Vec<f32> = of_weights.iter().flat_map(|x| backend.download(x)).collect();
/// assert_eq!(of_weights, [3.0, 5.5, 2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Network {
    config: ModelConfig,
}

/// A layer that has read some of its blocks.
pub struct Partial<B: Backend> {
    layer: usize,
    /// An entry a block added: whether it had factors.
    has_factors: Vec<bool>,
    state: PartialState<B>,
}

enum PartialState<B: Backend> {
    Gcn(GcnPartial<B>),
    Sage(SagePartial<B>),
    Gat(GatState<B>),
    Linear(LayerRows<B>),
}

/// What a layer's backward pass needs of its forward pass.
pub struct SavedLayer<B: Backend> {
    pub(crate) layer: usize,
    pub(crate) has_factors: Vec<bool>,
    pub(crate) state: SavedState<B>,
    pub(crate) post: Option<PostSaved<B>>,
}

pub(crate) enum SavedState<B: Backend> {
    Gcn(SavedSum<B>),
    Sage(SageSaved<B>),
    Gat(GatState<B>),
    Linear(LinearSaved<B>),
}

/// A block as its layer reads it.
pub(crate) struct BlockRead<'a, B: Backend> {
    pub(crate) block: usize,
    pub(crate) halo: Option<&'a Input<B>>,
    pub(crate) factors: Option<&'a ColumnFactors<B>>,
}

impl<B: Backend> Clone for BlockRead<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for BlockRead<'_, B> {}

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

    /// Starts layer `layer` with the own rows, and computes what needs no others; dropout acts here.
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
        self.begin_with(layer, ctx, weights, LayerRows::own(ctx, own))
    }

    /// As [`Network::begin`], where the own rows are what the layer before left, with LayerNorm: for the backward pass they
    /// are made again of what that layer saved, so that nobody need keep them.
    ///
    /// # Panics
    /// If `before` is the last layer.
    pub fn begin_after<B: Backend>(
        &self,
        before: &SavedLayer<B>,
        ctx: Context<'_, B>,
        weights: &Weights<B>,
        own: &Input<B>,
    ) -> Partial<B> {
        let own = match &before.post {
            Some(PostSaved::Normalised(normalised)) => LayerRows::own_after(ctx, own, normalised),
            Some(PostSaved::Output(_)) => LayerRows::own(ctx, own),
            None => panic!("nothing comes after layer {}", before.layer),
        };
        self.begin_with(before.layer + 1, ctx, weights, own)
    }

    fn begin_with<B: Backend>(
        &self,
        layer: usize,
        ctx: Context<'_, B>,
        weights: &Weights<B>,
        own: LayerRows<B>,
    ) -> Partial<B> {
        let tensors = weights.layer(layer);
        let state = if !self.config.is_graph_layer(layer) {
            PartialState::Linear(own)
        } else {
            match self.config.kind {
                ModelKind::Gcn => PartialState::Gcn(gcn::begin(ctx, tensors, &own)),
                ModelKind::Sage => PartialState::Sage(sage::begin(ctx, tensors, &own)),
                ModelKind::Gat => PartialState::Gat(gat::begin(ctx, tensors, own)),
            }
        };
        Partial { layer, has_factors: Vec::new(), state }
    }

    /// Adds block `block` of halo rows; dropout acts here. Blocks are added in their order.
    ///
    /// `factors` are those of the block's rows; absent, all are 1.
    ///
    /// # Panics
    /// If the layer is linear, gets its blocks in another order, or factors of another kind of model.
    pub fn add_block<B: Backend>(
        &self,
        ctx: Context<'_, B>,
        weights: &Weights<B>,
        block: usize,
        halo: &Input<B>,
        factors: Option<&ColumnFactors<B>>,
        partial: &mut Partial<B>,
    ) {
        assert_eq!(block, partial.has_factors.len(), "order of the blocks added");
        partial.has_factors.push(factors.is_some());
        let keys = &ctx.structure.halo[block].keys;
        let halo = halo.dropped(ctx.backend, ctx.row_dropout(), keys);
        match &mut partial.state {
            PartialState::Gcn(state) => gcn::add_block(ctx, block, &halo, factors, state),
            PartialState::Sage(state) => sage::add_block(ctx, block, &halo, factors, state),
            PartialState::Gat(state) => {
                gat::add_block(ctx, weights.layer(partial.layer), block, halo, factors, state);
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
        let Partial { layer, has_factors, state } = partial;
        if self.config.is_graph_layer(layer) {
            let n_blocks = ctx.structure.halo.len();
            assert_eq!(has_factors.len(), n_blocks, "blocks added and blocks of the part");
        }
        let tensors = weights.layer(layer);
        let (y, state) = match state {
            PartialState::Gcn(state) => {
                let (y, saved) = gcn::finish(ctx, tensors, state);
                (y, SavedState::Gcn(saved))
            }
            PartialState::Sage(state) => {
                let (y, saved) = sage::finish(ctx, tensors, state);
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
        let (y, post) = self.end(layer, ctx, tensors, y);
        (y, SavedLayer { layer, has_factors, state, post })
    }

    /// The first layer of GCN and SAGE from the aggregate that was computed once.
    pub fn first_layer_from_kept<B: Backend>(
        &self,
        ctx: Context<'_, B>,
        weights: &Weights<B>,
        kept: &KeptAggregate<B>,
    ) -> (Arc<B::Matrix>, SavedLayer<B>) {
        let tensors = weights.layer(0);
        let aggregate = LayerRows::aggregate(ctx, &kept.aggregate);
        let (y, state) = match &kept.own {
            None => {
                let (y, saved) = gcn::update(ctx, tensors, aggregate);
                (y, SavedState::Gcn(saved))
            }
            Some(own) => {
                let own = LayerRows::own(ctx, own);
                let (y, saved) = sage::from_mean(ctx, tensors, own, aggregate);
                (y, SavedState::Sage(saved))
            }
        };
        let (y, post) = self.end(0, ctx, tensors, y);
        (y, SavedLayer { layer: 0, has_factors: Vec::new(), state, post })
    }

    /// What follows a layer, unless it is the last.
    fn end<B: Backend>(
        &self,
        layer: usize,
        ctx: Context<'_, B>,
        tensors: &[B::Matrix],
        y: B::Matrix,
    ) -> (Arc<B::Matrix>, Option<PostSaved<B>>) {
        if self.config.is_last(layer) {
            return (Arc::new(y), None);
        }
        let norm = &tensors[self.n_layer_tensors(layer)..];
        let (y, post) = post::forward(ctx.backend, norm, y);
        (y, Some(post))
    }

    pub(crate) fn heads(&self, layer: usize) -> Heads {
        if self.config.is_last(layer) { Heads::Averaged } else { Heads::Concatenated }
    }

    /// Tensors of the layer itself; those of its LayerNorm follow.
    pub(crate) fn n_layer_tensors(&self, layer: usize) -> usize {
        let n_tensors = self.config.tensors(layer).len();
        let has_norm = self.config.tensors(layer).iter().any(|spec| spec.name == "ln_w");
        if has_norm { n_tensors - 2 } else { n_tensors }
    }
}
