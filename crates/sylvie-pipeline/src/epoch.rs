//! Runs the steps of an epoch on one rank.

use std::sync::Arc;

use sylvie_comm::{Communicator, Purpose};
use sylvie_gnn::{
    Context, Dropout, Gradients, Input, KeptAggregate, ModelConfig, ModelKind, Network, SavedLayer,
    Structure, Targets, Weights, loss_and_gradient,
};
use sylvie_graph::{Direction, PartGraph};
use sylvie_random::{Coordinates, Pass, Stream};
use sylvie_tensor::Wire;

use crate::clock::Stopwatch;
use crate::error::TrainError;
use crate::exchange::{Call, ExchangePlan, Exchanger, InFlight};
use crate::features::exchange_features;
use crate::part_data::PartData;
use crate::policy::ExchangePolicy;
use crate::record::RankEpoch;
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
    ///
    /// # Panics
    /// If the data are not those of this rank, or do not fit the network.
    pub(crate) fn new<C: Communicator<Buffer = B::Bytes>>(
        backend: &B,
        comm: &mut C,
        model: &ModelConfig,
        data: &PartData,
        round: u16,
    ) -> Result<Self, TrainError> {
        let kind = model.kind;
        let part: &PartGraph = &data.graph;
        assert_eq!(part.part as usize, comm.rank(), "part and rank");
        assert_eq!(part.n_parts as usize, comm.size(), "parts and ranks");
        assert_eq!(data.features.n_rows(), part.n_local(), "rows of features and own rows");
        assert_eq!(data.labels.n_nodes(), part.n_local(), "labels and own rows");
        assert_eq!(data.roles.len(), part.n_local(), "roles and own rows");
        let (n_features, n_classes) = (data.features.n_cols(), data.labels.n_classes() as usize);
        assert_eq!(model.widths.first(), Some(&n_features), "network inputs and features");
        assert_eq!(model.widths.last(), Some(&n_classes), "network outputs and classes");
        if kind == ModelKind::Gcn && data.direction == Direction::Directed {
            return Err(TrainError::DirectedGcn);
        }
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
pub(crate) struct Pace<'a, B: Wire> {
    pub(crate) network: &'a Network,
    pub(crate) weights: &'a Weights<B>,
    pub(crate) stage: &'a Stage<B>,
    pub(crate) epoch: u32,
    pub(crate) purpose: Purpose,
    pub(crate) policy: ExchangePolicy,
}

impl<B: Wire> Clone for Pace<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Wire> Copy for Pace<'_, B> {}

impl<'a, B: Wire> Pace<'a, B> {
    fn call(&self, layer: usize, pass: Pass) -> Call {
        let Self { epoch, purpose, .. } = *self;
        Call { epoch, layer, pass, purpose, codec: self.policy.codec(pass) }
    }

    fn context<'c>(&self, layer: usize, backend: &'c B, seed: u64) -> Context<'c, B>
    where
        'a: 'c,
    {
        let rate = self.network.config().dropout;
        let draws = |stream| {
            let coordinates = Coordinates::new(seed, stream);
            coordinates.at(self.epoch, layer as u8, Pass::Forward).family()
        };
        let is_dropping = self.purpose == Purpose::Training && rate > 0.0;
        let dropout = is_dropping.then(|| Dropout {
            rate,
            rows: draws(Stream::Dropout),
            aggregate: draws(Stream::DropoutAggregate),
        });
        Context { backend, structure: &self.stage.structure, dropout }
    }
}

/// What flows from step to step.
pub(crate) struct Flow<B: Wire, P> {
    /// Output of the layer computed last.
    rows: Option<Arc<B::Matrix>>,
    halo: Vec<Input<B>>,
    flight: Option<InFlight<P>>,
    saved: Vec<SavedLayer<B>>,
    /// Gradient of the own rows, and of the halo rows of the layer computed last.
    gradient: Option<B::Matrix>,
    halo_gradient: Vec<B::Matrix>,
    layer_gradients: Vec<Vec<B::Matrix>>,
}

impl<B: Wire, P> Default for Flow<B, P> {
    fn default() -> Self {
        Self {
            rows: None,
            halo: Vec::new(),
            flight: None,
            saved: Vec::new(),
            gradient: None,
            halo_gradient: Vec::new(),
            layer_gradients: Vec::new(),
        }
    }
}

impl<B: Wire, P> Flow<B, P> {
    /// Output of the layer computed last.
    ///
    /// # Panics
    /// If none was.
    pub(crate) fn output(&self) -> &B::Matrix {
        self.rows.as_ref().expect("a layer was computed")
    }

    /// Gradients of all layers, first layer first.
    pub(crate) fn take_gradients(&mut self) -> Gradients<B> {
        self.layer_gradients.reverse();
        Gradients::new(std::mem::take(&mut self.layer_gradients))
    }

    /// Runs one step that needs neither reduction nor optimiser.
    ///
    /// # Panics
    /// If the schedule asks for what earlier steps did not provide.
    pub(crate) fn run<C: Communicator<Buffer = B::Bytes, Pending = P>>(
        &mut self,
        pace: Pace<'_, B>,
        step: Step,
        exchanger: &mut Exchanger<'_, B, C>,
        targets: &Targets<B>,
        rank: &mut RankEpoch,
    ) -> Result<(), TrainError> {
        let (backend, seed) = (exchanger.backend, exchanger.seed);
        match step {
            Step::Start(layer, pass) => {
                let call = pace.call(layer, pass);
                self.start(pace, call, exchanger, &mut rank.times)?;
            }
            Step::Finish(_, pass) => self.finish(pace.stage, pass, exchanger, &mut rank.times)?,
            Step::Compute(layer, Pass::Forward) => {
                self.forward(pace, layer, pace.context(layer, backend, seed));
            }
            Step::Compute(layer, Pass::Backward) => {
                self.backward(pace, pace.context(layer, backend, seed));
            }
            Step::Loss => {
                let (loss, gradient) = loss_and_gradient(backend, self.output(), targets);
                rank.loss_sum = loss;
                self.gradient = Some(gradient);
                self.rows = None;
            }
            Step::Reduce | Step::Update => panic!("{step} is not a step of a pass"),
        }
        Ok(())
    }

    fn start<C: Communicator<Buffer = B::Bytes, Pending = P>>(
        &mut self,
        pace: Pace<'_, B>,
        call: Call,
        exchanger: &mut Exchanger<'_, B, C>,
        times: &mut Stopwatch,
    ) -> Result<(), TrainError> {
        let Stage { structure, plan, .. } = pace.stage;
        self.flight = Some(match call.pass {
            Pass::Forward => {
                let own = self.rows.as_ref().expect("rows to exchange");
                exchanger.start_forward(call, plan, structure, own, times)?
            }
            Pass::Backward => {
                let n_cols = pace.network.config().n_columns_in(call.layer);
                let gradients = std::mem::take(&mut self.halo_gradient);
                exchanger.start_backward(call, plan, structure, (gradients, n_cols), times)?
            }
        });
        Ok(())
    }

    fn finish<C: Communicator<Buffer = B::Bytes, Pending = P>>(
        &mut self,
        stage: &Stage<B>,
        pass: Pass,
        exchanger: &mut Exchanger<'_, B, C>,
        times: &mut Stopwatch,
    ) -> Result<(), TrainError> {
        let flight = self.flight.take().expect("an exchange in flight");
        match pass {
            Pass::Forward => {
                let halo = exchanger.finish_forward(flight, &stage.structure, times)?;
                self.halo = halo.into_iter().map(Input::dense).collect();
            }
            Pass::Backward => {
                let own = self.gradient.as_mut().expect("gradients of own rows");
                exchanger.finish_backward(flight, &stage.plan, own, times)?;
            }
        }
        Ok(())
    }

    fn forward(&mut self, pace: Pace<'_, B>, layer: usize, ctx: Context<'_, B>) {
        let Pace { network, weights, .. } = pace;
        let (y, saved) = match (&pace.stage.first, layer) {
            (FirstRows::Kept(kept), 0) => network.first_layer_from_kept(ctx, weights, kept),
            (first, _) => {
                let received = std::mem::take(&mut self.halo);
                let (own, halo) = match (first, layer) {
                    (FirstRows::Raw { own, halo }, 0) => (own.clone(), halo.as_slice()),
                    _ => {
                        let rows = self.rows.take().expect("rows of the layer before");
                        (Input::Dense(rows), received.as_slice())
                    }
                };
                let mut partial = network.begin(layer, ctx, weights, &own);
                for (block, rows) in halo.iter().enumerate() {
                    network.add_block(ctx, weights, block, rows, &mut partial);
                }
                network.finish(ctx, weights, partial)
            }
        };
        self.rows = Some(y);
        if pace.purpose == Purpose::Training {
            self.saved.push(saved);
        }
    }

    fn backward(&mut self, pace: Pace<'_, B>, ctx: Context<'_, B>) {
        let saved = self.saved.pop().expect("a saved layer for each backward step");
        let dy = self.gradient.take().expect("a gradient to go back with");
        let grads = pace.network.backward(ctx, pace.weights, saved, dy);
        self.layer_gradients.push(grads.weights);
        if let Some(inputs) = grads.inputs {
            self.gradient = Some(inputs.own);
            self.halo_gradient = inputs.halo;
        }
    }
}
