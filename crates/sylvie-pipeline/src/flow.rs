//! What the compute thread does at each step of a pass.

use std::sync::Arc;
use std::time::Duration;

use sylvie_comm::Purpose;
use sylvie_gnn::{
    BackwardPartial, Input, ModelKind, Partial, SavedLayer, Targets, loss_and_gradient,
};
use sylvie_random::Pass;
use sylvie_tensor::Wire;

use crate::communication::{Arrived, CommHandle, Delivery, Job, Rows, decode_error, encode_error};
use crate::error::TrainError;
use crate::instruments::Watch;
use crate::pace::Pace;
use crate::policy::{Memory, Scope};
use crate::sample::Sample;
use crate::schedule::{AfterUse, Parts, Stage as Third, Step, is_exchanged};
use crate::slots::Slots;
use crate::stage::FirstRows;

/// What the compute thread stood still for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stops {
    /// For rows of other ranks.
    pub(crate) blocked: Duration,
    /// For sums of weight gradients.
    pub(crate) reduce: Duration,
}

/// Halo rows that a layer reads.
struct Halo<B: Wire> {
    blocks: Vec<(usize, Input<B>)>,
    sample: Option<Arc<Sample<B>>>,
}

impl<B: Wire> Default for Halo<B> {
    fn default() -> Self {
        Self { blocks: Vec::new(), sample: None }
    }
}

/// A layer's forward pass, kept for its backward pass.
struct Saved<B: Wire> {
    layer: SavedLayer<B>,
    sample: Option<Arc<Sample<B>>>,
    /// Own rows before dropout, where the backward pass sends them once more.
    own: Option<Arc<B::Matrix>>,
}

/// A layer's backward pass under way.
struct GoingBack<B: Wire> {
    partial: BackwardPartial<B>,
    sample: Option<Arc<Sample<B>>>,
    own: Option<Arc<B::Matrix>>,
}

/// What flows from step to step.
pub(crate) struct Flow<B: Wire> {
    /// Output of the layer computed last.
    rows: Option<Arc<B::Matrix>>,
    halo: Halo<B>,
    partial: Option<Partial<B>>,
    own: Option<Arc<B::Matrix>>,
    saved: Vec<Saved<B>>,
    going_back: Option<GoingBack<B>>,
    /// Gradient of the output of the layer that goes back next.
    gradient: Option<B::Matrix>,
    halo_gradients: Vec<(usize, B::Matrix)>,
    /// The sample of the rows whose gradients these are.
    gradient_sample: Option<Arc<Sample<B>>>,
    /// Gradients of boundary rows, from their readers.
    boundary: Option<Arc<B::Matrix>>,
    /// Weight gradients of the layer that went back last.
    weight_gradients: Option<Vec<B::Matrix>>,
    pub(crate) loss_sum: f64,
    pub(crate) stops: Stops,
}

impl<B: Wire> Default for Flow<B> {
    fn default() -> Self {
        Self {
            rows: None,
            halo: Halo::default(),
            partial: None,
            own: None,
            saved: Vec::new(),
            going_back: None,
            gradient: None,
            halo_gradients: Vec::new(),
            gradient_sample: None,
            boundary: None,
            weight_gradients: None,
            loss_sum: 0.0,
            stops: Stops::default(),
        }
    }
}

impl<B: Wire> Flow<B> {
    /// Output of the layer computed last.
    ///
    /// # Panics
    /// If none was.
    pub(crate) fn output(&self) -> &B::Matrix {
        self.rows.as_ref().expect("a layer was computed")
    }

    /// The output of the layer that was computed last, alone.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn into_output(self) -> Arc<B::Matrix> {
        self.rows.expect("a layer was computed")
    }

    /// Weight gradients of the layer that went back last.
    ///
    /// # Panics
    /// If none did, or they were taken.
    pub(crate) fn take_weight_gradients(&mut self) -> Vec<B::Matrix> {
        self.weight_gradients.take().expect("a layer went back")
    }

    /// Runs one step that needs neither reduction nor optimiser.
    ///
    /// # Panics
    /// If the schedule asks for what earlier steps did not provide.
    pub(crate) fn run(
        &mut self,
        pace: Pace<'_, B>,
        step: Step,
        (handle, slots): (&CommHandle<B>, &mut Slots<B>),
        targets: &Targets<B>,
        watch: Watch<'_>,
    ) -> Result<(), TrainError> {
        let start = watch.now();
        match step {
            Step::Start(layer, pass, parts) => {
                let job = self.job(pace, layer, pass, parts);
                return slots.start(handle, job);
            }
            Step::Leave(layer) => {
                let job = self.job(pace, layer, Pass::Backward, Parts::All);
                return slots.start(handle, Job { delivery: Delivery::AfterFigures, ..job });
            }
            Step::Wait(layer, pass, _, after) => {
                let slot = Slots::<B>::number(layer, pass, pace.purpose);
                let arrived = slots.wait(handle, slot, after == AfterUse::Keep)?;
                self.take(arrived);
            }
            Step::Use(layer, pass) => {
                let slot = Slots::<B>::number(layer, pass, pace.purpose);
                match slots.take_stale(handle, slot, pace.epoch)? {
                    Some(arrived) => self.take(arrived),
                    None => self.take_zeros(pace, layer, pass),
                }
            }
            Step::Drain(layer, pass) => {
                slots.drain(handle, Slots::<B>::number(layer, pass, pace.purpose))?;
            }
            Step::Compute(layer, Pass::Forward, third) => {
                self.forward(pace, layer, third)?;
                return Ok(());
            }
            Step::Compute(layer, Pass::Backward, third) => {
                self.backward(pace, layer, third);
                return Ok(());
            }
            Step::Add(layer) => return self.add(pace, layer),
            Step::Loss => {
                let (loss, gradient) = loss_and_gradient(pace.backend, self.output(), targets);
                self.loss_sum = loss;
                self.gradient = Some(gradient);
                self.rows = None;
                return Ok(());
            }
            Step::Reduce(_) | Step::Collect | Step::Update => {
                panic!("{step} is not a step of a pass")
            }
        }
        self.stops.blocked += watch.now().saturating_sub(start);
        Ok(())
    }

    fn job(&mut self, pace: Pace<'_, B>, layer: usize, pass: Pass, parts: Parts) -> Job<B> {
        let rows = match pass {
            Pass::Forward => {
                let going_back = self.going_back.as_ref().and_then(|back| back.own.as_ref());
                let own = self.rows.as_ref().or(self.own.as_ref()).or(going_back);
                Rows::Own(Arc::clone(own.expect("rows to exchange")))
            }
            Pass::Backward => Rows::HaloGradients(std::mem::take(&mut self.halo_gradients)),
        };
        let is_synchronous =
            pace.purpose != Purpose::Training || pace.policy.is_synchronous(pace.epoch, pass);
        let dropout = pace.dropout(layer).map(|dropout| (dropout.rate, dropout.rows));
        Job {
            call: pace.call(layer, pass),
            slot: Slots::<B>::number(layer, pass, pace.purpose),
            n_cols: pace.network.config().n_columns_in(layer),
            parts,
            rows,
            stage: Arc::clone(pace.stage),
            // Backward that of the rows that were read, which may be those of the epoch before.
            sample: match pass {
                Pass::Forward => pace.sample.cloned(),
                Pass::Backward => self.gradient_sample.clone(),
            },
            mask: if pass == Pass::Backward { dropout } else { None },
            delivery: if is_synchronous { Delivery::AtOnce } else { Delivery::WhenThere },
            smoothing: pace.smoothing(pass),
        }
    }

    fn take(&mut self, arrived: Arrived<B>) {
        match arrived {
            Arrived::Halo { blocks, sample } => self.halo = Halo { blocks, sample },
            Arrived::Boundary(rows) => self.boundary = Some(rows),
            Arrived::Nothing => {}
        }
    }

    /// What the first epoch of an asynchronous schedule uses.
    fn take_zeros(&mut self, pace: Pace<'_, B>, layer: usize, pass: Pass) {
        if pass == Pass::Backward {
            return;
        }
        let n_cols = pace.network.config().n_columns_in(layer);
        let zeros = |n_rows| Input::dense(pace.backend.zeros(n_rows, n_cols));
        let blocks = pace.stage.structure.halo.iter().map(|block| zeros(block.n_rows));
        self.halo = Halo { blocks: blocks.enumerate().collect(), sample: pace.sample.cloned() };
    }

    fn forward(&mut self, pace: Pace<'_, B>, layer: usize, third: Third) -> Result<(), TrainError> {
        let Pace { network, weights, stage, .. } = pace;
        let ctx = pace.context(layer);
        match third {
            Third::Begin => {
                let own = match (&stage.first, layer) {
                    (FirstRows::Kept(_), 0) => return Ok(()),
                    (FirstRows::Raw { own, .. }, 0) => own.clone(),
                    _ => Input::Dense(self.begin_rows(pace, layer)?),
                };
                let mut partial = match self.before(pace, layer) {
                    Some(before) => network.begin_after(before, ctx, weights, &own),
                    None => network.begin(layer, ctx, weights, &own),
                };
                if let (FirstRows::Raw { halo, .. }, 0) = (&stage.first, layer) {
                    for (block, rows) in halo.iter().enumerate() {
                        network.add_block(ctx, weights, block, rows, None, &mut partial);
                    }
                }
                self.partial = Some(partial);
            }
            Third::Halo(_) => {
                let partial = self.partial.as_mut().expect("a layer begun");
                let Halo { blocks, sample } = std::mem::take(&mut self.halo);
                for (block, rows) in blocks {
                    let factors = sample.as_ref().map(|sample| &sample.halo[block].factors);
                    network.add_block(ctx, weights, block, &rows, factors, partial);
                }
                self.halo.sample = sample;
            }
            Third::Finish => {
                let (y, saved) = match (&stage.first, layer) {
                    (FirstRows::Kept(kept), 0) => network.first_layer_from_kept(ctx, weights, kept),
                    _ => {
                        let partial = self.partial.take().expect("a layer begun");
                        network.finish(ctx, weights, partial)
                    }
                };
                self.rows = Some(y);
                let own = self.own.take().filter(|_| is_sent_again(pace));
                let Halo { sample, .. } = std::mem::take(&mut self.halo);
                if pace.purpose == Purpose::Training {
                    self.saved.push(Saved { layer: saved, sample, own });
                }
            }
        }
        Ok(())
    }

    /// The layer before, where its output is what this one reads, and nobody keeps that for the backward pass.
    fn before(&self, pace: Pace<'_, B>, layer: usize) -> Option<&SavedLayer<B>> {
        let is_other =
            pace.policy.scope == Scope::All && is_exchanged(pace.network.config(), layer);
        let is_kept = self.own.is_some() && is_sent_again(pace);
        let before = self.saved.last().filter(|_| layer > 0 && !is_other && !is_kept)?;
        Some(&before.layer)
    }

    /// The own rows that a layer after the first reads.
    fn begin_rows(
        &mut self,
        pace: Pace<'_, B>,
        layer: usize,
    ) -> Result<Arc<B::Matrix>, TrainError> {
        let rows = self.rows.take().expect("rows of the layer before");
        let is_exchanged = is_exchanged(pace.network.config(), layer);
        if pace.policy.memory == Memory::Sequential && is_exchanged {
            self.own = Some(Arc::clone(&rows));
        }
        if pace.policy.scope == Scope::All && is_exchanged && pace.purpose == Purpose::Training {
            return through_codec(pace, layer, Pass::Forward, &rows).map(Arc::new);
        }
        Ok(rows)
    }

    fn backward(&mut self, pace: Pace<'_, B>, layer: usize, third: Third) {
        let Pace { network, weights, stage, .. } = pace;
        let ctx = pace.context(layer);
        match third {
            Third::Begin => {
                let saved = self.saved.pop().expect("a saved layer for each backward step");
                let Saved { layer: saved, sample, own } = saved;
                let dy = self.gradient.take().expect("a gradient to go back with");
                let mut partial = network.begin_backward(ctx, weights, saved, dy);
                if let (FirstRows::Raw { halo, .. }, 0) = (&stage.first, layer) {
                    for (block, rows) in halo.iter().enumerate() {
                        let rows = Some(rows);
                        network.block_weight_gradients(
                            ctx,
                            weights,
                            block,
                            rows,
                            None,
                            &mut partial,
                        );
                    }
                }
                self.going_back = Some(GoingBack { partial, sample, own });
            }
            Third::Halo(parts) => {
                let back = self.going_back.as_mut().expect("a layer going back");
                self.gradient_sample.clone_from(&back.sample);
                let Halo { blocks, .. } = std::mem::take(&mut self.halo);
                for (block, planned) in stage.plan.halo.iter().enumerate() {
                    if !parts.include(planned.owner) {
                        continue;
                    }
                    let halo = blocks.iter().find(|(number, _)| *number == block);
                    let halo = halo.map(|(_, rows)| rows);
                    let factors = back.sample.as_ref().map(|sample| &sample.halo[block].factors);
                    let partial = &mut back.partial;
                    let rows = network.block_gradient(ctx, weights, block, halo, factors, partial);
                    self.halo_gradients.push((block, rows));
                }
            }
            Third::Finish => {
                let GoingBack { partial, .. } = self.going_back.take().expect("a layer going back");
                let grads = network.finish_backward(ctx, weights, partial);
                self.weight_gradients = Some(grads.weights);
                self.gradient = grads.own.map(|mut own| {
                    ctx.drop_gradient(&stage.structure.own_keys, &mut own);
                    own
                });
            }
        }
    }

    /// Adds the gradients that readers sent to those of own rows.
    fn add(&mut self, pace: Pace<'_, B>, layer: usize) -> Result<(), TrainError> {
        let own = self.gradient.as_mut().expect("gradients of own rows");
        if let Some(boundary) = self.boundary.take() {
            pace.backend.scatter_add(&boundary, &pace.stage.plan.boundary, own);
        }
        if pace.policy.scope == Scope::All {
            self.gradient = Some(through_codec(pace, layer, Pass::Backward, own)?);
        }
        Ok(())
    }
}

/// Whether the backward pass, too, reads halo rows, so that their owners send them once more: in sequential memory, for
/// attention.
fn is_sent_again<B: Wire>(pace: Pace<'_, B>) -> bool {
    pace.policy.memory == Memory::Sequential && pace.network.config().kind == ModelKind::Gat
}

/// Own rows encoded and decoded, as a reader would see them.
///
/// # Paper
/// Table 4: every row is quantised, not only those that are sent.
fn through_codec<B: Wire>(
    pace: Pace<'_, B>,
    layer: usize,
    pass: Pass,
    rows: &B::Matrix,
) -> Result<B::Matrix, TrainError> {
    let Pace { backend, stage, seed, .. } = pace;
    let (call, rank) = (pace.call(layer, pass), stage.plan.rank);
    let (draws, keys) = (call.rounding(seed, rank), &stage.structure.own_keys);
    let buffer = backend.bytes_from_host(Vec::new());
    let encoded = backend.encode_all_rows(call.codec, rows, keys, draws, buffer);
    let encoded =
        encoded.map_err(|source| encode_error(call, rank, &stage.plan.own_ids, source))?;
    let (n_rows, n_cols) = backend.shape(rows);
    let mut decoded = backend.matrix_to_assign(n_rows, n_cols);
    let result = backend.decode_rows(call.codec, &encoded, &mut decoded);
    result.map_err(|source| decode_error(call, rank, rank, source))?;
    Ok(decoded)
}
