//! Runs the steps of an epoch on one rank.

use std::sync::Arc;

use sylvie_comm::{Communicator, Purpose};
use sylvie_gnn::{
    Context, Dropout, Gradients, Input, KeptAggregate, ModelKind, Network, SavedLayer, Structure,
    Targets, Weights, loss_and_gradient,
};
use sylvie_graph::PartGraph;
use sylvie_random::{Coordinates, Pass, Stream};
use sylvie_tensor::Wire;

use crate::clock::Stopwatch;
use crate::error::TrainError;
use crate::exchange::{Call, ExchangePlan, Exchanger, InFlight};
use crate::features::exchange_features;
use crate::part_data::PartData;
use crate::policy::ExchangePolicy;
use crate::schedule::Step;

/// A part on a backend, with its first layer's rows.
pub(crate) struct Stage<B: Wire> {
    pub(crate) structure: Structure<B>,
    pub(crate) plan: ExchangePlan<B>,
    first: FirstRows<B>,
}

/// What the first layer reads.
enum FirstRows<B: Wire> {
    /// GCN and SAGE: raw features aggregated once.
    Kept(KeptAggregate<B>),
    /// GAT: raw features, own and halo.
    Raw { own: Input<B>, halo: Vec<Input<B>> },
}

impl<B: Wire> Stage<B> {
    /// Brings a part to the backend and exchanges its raw halo features.
    pub(crate) fn new<C: Communicator<Buffer = B::Bytes>>(
        backend: &B,
        comm: &mut C,
        kind: ModelKind,
        data: &PartData,
        round: u16,
    ) -> Result<Self, TrainError> {
        let part: &PartGraph = &data.graph;
        let halo = exchange_features(backend, comm, part, &data.features, round)?;
        let structure = Structure::new(backend, part);
        let first = match kind {
            ModelKind::Gat => FirstRows::Raw {
                own: Input::from_features(backend, &data.features),
                halo: halo.iter().map(|rows| Input::from_features(backend, rows)).collect(),
            },
            ModelKind::Gcn | ModelKind::Sage => {
                let ctx = Context { backend, structure: &structure, dropout: None };
                FirstRows::Kept(KeptAggregate::new(kind, ctx, part, &data.features, &halo))
            }
        };
        let plan = ExchangePlan::new(backend, part);
        Ok(Self { structure, plan, first })
    }
}

/// What stays the same during a pass.
#[derive(Clone, Copy)]
pub(crate) struct Pace<'a> {
    pub(crate) network: &'a Network,
    pub(crate) epoch: u32,
    pub(crate) purpose: Purpose,
    pub(crate) policy: ExchangePolicy,
}

/// What flows from step to step.
pub(crate) struct Flow<'a, B: Wire, P> {
    pace: Pace<'a>,
    stage: &'a Stage<B>,
    weights: &'a Weights<B>,
    /// Output of the layers computed so far.
    rows: Option<Arc<B::Matrix>>,
    halo: Vec<Input<B>>,
    flight: Option<InFlight<P>>,
    saved: Vec<SavedLayer<B>>,
    /// Gradient of the own rows, and of the halo rows of the layer computed last.
    gradient: Option<B::Matrix>,
    halo_gradient: Vec<B::Matrix>,
    layer_gradients: Vec<Vec<B::Matrix>>,
    pub(crate) loss_sum: f64,
    pub(crate) times: Stopwatch,
}

impl<'a, B: Wire, P> Flow<'a, B, P> {
    pub(crate) fn new(pace: Pace<'a>, stage: &'a Stage<B>, weights: &'a Weights<B>) -> Self {
        Self {
            pace,
            stage,
            weights,
            rows: None,
            halo: Vec::new(),
            flight: None,
            saved: Vec::new(),
            gradient: None,
            halo_gradient: Vec::new(),
            layer_gradients: Vec::new(),
            loss_sum: 0.0,
            times: Stopwatch::default(),
        }
    }

    /// Output of the last layer computed.
    pub(crate) fn output(&self) -> &B::Matrix {
        let rows = self.rows.as_ref();
        rows.expect("a layer was computed")
    }

    /// Gradients of all layers, first layer first.
    pub(crate) fn gradients(&mut self) -> Gradients<B> {
        self.layer_gradients.reverse();
        Gradients::new(std::mem::take(&mut self.layer_gradients))
    }

    /// Runs one step that needs neither reduction nor optimiser.
    ///
    /// # Panics
    /// If the schedule asks for what earlier steps did not provide.
    pub(crate) fn run<C: Communicator<Buffer = B::Bytes, Pending = P>>(
        &mut self,
        step: Step,
        exchanger: &mut Exchanger<'_, B, C>,
        targets: &Targets<B>,
    ) -> Result<(), TrainError> {
        let backend = exchanger.backend;
        match step {
            Step::Start(layer, pass) => self.start(layer, pass, exchanger),
            Step::Finish(_, pass) => self.finish(pass, exchanger),
            Step::Compute(layer, Pass::Forward) => {
                self.forward(layer, backend, exchanger.seed);
                Ok(())
            }
            Step::Compute(layer, Pass::Backward) => {
                self.backward(layer, backend, exchanger.seed);
                Ok(())
            }
            Step::Loss => {
                let (loss, gradient) = loss_and_gradient(backend, self.output(), targets);
                self.loss_sum = loss;
                self.gradient = Some(gradient);
                Ok(())
            }
            Step::Reduce | Step::Update => panic!("{step} is not a step of a pass"),
        }
    }

    fn start<C: Communicator<Buffer = B::Bytes, Pending = P>>(
        &mut self,
        layer: usize,
        pass: Pass,
        exchanger: &mut Exchanger<'_, B, C>,
    ) -> Result<(), TrainError> {
        let Pace { epoch, purpose, policy, .. } = self.pace;
        let call = Call { epoch, layer, pass, purpose, codec: policy.codec(pass) };
        let Stage { structure, plan, .. } = self.stage;
        let times = &mut self.times;
        let flight = match pass {
            Pass::Forward => {
                let own = self.rows.as_ref().expect("rows to exchange");
                exchanger.start_forward(call, plan, structure, own, times)?
            }
            Pass::Backward => {
                let n_cols = self.pace.network.config().n_columns_in(layer);
                let gradients = std::mem::take(&mut self.halo_gradient);
                exchanger.start_backward(call, plan, structure, (gradients, n_cols), times)?
            }
        };
        self.flight = Some(flight);
        Ok(())
    }

    fn finish<C: Communicator<Buffer = B::Bytes, Pending = P>>(
        &mut self,
        pass: Pass,
        exchanger: &mut Exchanger<'_, B, C>,
    ) -> Result<(), TrainError> {
        let flight = self.flight.take().expect("an exchange in flight");
        let Stage { structure, plan, .. } = self.stage;
        match pass {
            Pass::Forward => {
                let halo = exchanger.finish_forward(flight, structure, &mut self.times)?;
                self.halo = halo.into_iter().map(Input::dense).collect();
            }
            Pass::Backward => {
                let own = self.gradient.as_mut().expect("gradients of own rows");
                exchanger.finish_backward(flight, plan, own, &mut self.times)?;
            }
        }
        Ok(())
    }

    fn context<'c>(&self, layer: usize, backend: &'c B, seed: u64) -> Context<'c, B>
    where
        'a: 'c,
    {
        let rate = self.pace.network.config().dropout;
        let draws = |stream| {
            let coordinates = Coordinates::new(seed, stream);
            coordinates.at(self.pace.epoch, layer as u8, Pass::Forward).family()
        };
        let is_dropping = self.pace.purpose == Purpose::Training && rate > 0.0;
        let dropout = is_dropping.then(|| Dropout {
            rate,
            rows: draws(Stream::Dropout),
            aggregate: draws(Stream::DropoutAggregate),
        });
        Context { backend, structure: &self.stage.structure, dropout }
    }

    fn forward(&mut self, layer: usize, backend: &B, seed: u64) {
        let (network, weights) = (self.pace.network, self.weights);
        let ctx = self.context(layer, backend, seed);
        let (y, saved) = match (&self.stage.first, layer) {
            (FirstRows::Kept(kept), 0) => network.first_layer_from_kept(ctx, weights, kept),
            (first, _) => {
                let received = std::mem::take(&mut self.halo);
                let own = self.rows.take().map(Input::Dense);
                let (own, halo) = match (first, own) {
                    (FirstRows::Raw { own, halo }, None) => (own.clone(), halo.as_slice()),
                    (_, own) => (own.expect("rows of the layer before"), received.as_slice()),
                };
                let mut partial = network.begin(layer, ctx, weights, &own);
                for (block, rows) in halo.iter().enumerate() {
                    network.add_block(ctx, weights, block, rows, &mut partial);
                }
                network.finish(ctx, weights, partial)
            }
        };
        self.rows = Some(y);
        if self.pace.purpose == Purpose::Training {
            self.saved.push(saved);
        }
    }

    fn backward(&mut self, layer: usize, backend: &B, seed: u64) {
        let (network, weights) = (self.pace.network, self.weights);
        let ctx = self.context(layer, backend, seed);
        let saved = self.saved.pop().expect("a saved layer for each backward step");
        let dy = self.gradient.take().expect("a gradient to go back with");
        let grads = network.backward(ctx, weights, saved, dy);
        self.layer_gradients.push(grads.weights);
        if let Some(inputs) = grads.inputs {
            self.gradient = Some(inputs.own);
            self.halo_gradient = inputs.halo;
        }
    }
}
