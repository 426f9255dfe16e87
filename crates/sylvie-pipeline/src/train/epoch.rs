//! One epoch of a rank's run: its steps, in their order, and what is told of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sylvie_comm::Purpose;
use sylvie_gnn::Gradients;
use sylvie_tensor::Wire;

use super::Run;
use crate::communication::CommHandle;
use crate::error::TrainError;
use crate::flow::Stops;
use crate::instruments::{Activity, Lane};
use crate::pace::Pace;
use crate::record::{EpochRecord, RankEpoch, combine};
use crate::sample::Sample;
use crate::schedule::{Step, plan_epoch};

impl<B: Wire> Run<'_, B> {
    /// Trains one epoch.
    pub(crate) fn epoch(
        &mut self,
        handle: &CommHandle<B>,
        epoch: u32,
        stop: Option<&AtomicBool>,
    ) -> Result<EpochRecord, TrainError> {
        let start = self.watch.now();
        let policy = &self.settings.exchange;
        let model = self.network.config();
        let sample = policy.boundary_sampling.map(|probability| {
            let draw = (self.settings.seed, epoch);
            Arc::new(Sample::draw(self.backend, model, &self.training, probability, draw))
        });
        self.flow.stops = Stops::default();
        for step in plan_epoch(model, policy, handle.size() as u32, epoch) {
            let start = self.watch.now();
            self.step(handle, epoch, step, sample.as_ref())?;
            let when = (Purpose::Training, epoch);
            self.watch.note(Lane::Compute, Activity::Step(step), when, start);
        }
        let (traffic, comm) = handle.take_counts()?;
        // What left after the figures of the epoch before was counted there.
        let sent = traffic.sum(|tag| tag.purpose == Purpose::Training && tag.epoch == epoch);
        let rank = RankEpoch {
            loss_sum: self.flow.loss_sum,
            epoch: self.watch.now().saturating_sub(start),
            stops: self.flow.stops,
            comm,
            payload_bytes: sent.payload_bytes,
            metadata_bytes: sent.metadata_bytes,
            messages: sent.n_messages,
            reduce_bytes: traffic.reduced.n_bytes,
            // As late as can be: what comes now ends the run after this epoch and not after the next.
            is_stopping: stop.is_some_and(|stop| stop.load(Ordering::Relaxed)),
        };
        let ranks = handle.all_gather(epoch, rank.to_bytes())?;
        let record = combine(epoch, &ranks, self.objective.divisor).map_err(|peer| {
            let (rank, what) = (handle.rank(), "epoch figures");
            TrainError::Damaged { rank, peer, what }
        })?;
        if !record.loss.is_finite() {
            return Err(TrainError::NotFinite { epoch, loss: record.loss });
        }
        Ok(record)
    }

    fn step(
        &mut self,
        handle: &CommHandle<B>,
        epoch: u32,
        step: Step,
        sample: Option<&Arc<Sample<B>>>,
    ) -> Result<(), TrainError> {
        match step {
            Step::Reduce(layer) => self.reduce(handle, (epoch, layer)),
            Step::Collect => self.collect(handle),
            Step::Update => {
                let gradients = self.gradients.as_ref().expect("reduced gradients");
                self.adam.step(self.backend, gradients, &mut self.weights);
                Ok(())
            }
            step => {
                let pace = Pace {
                    backend: &self.summing,
                    network: &self.network,
                    weights: &self.weights,
                    stage: &self.training,
                    policy: &self.settings.exchange,
                    seed: self.settings.seed,
                    epoch,
                    purpose: Purpose::Training,
                    sample,
                };
                let exchange = (handle, &mut self.slots);
                self.flow.run(pace, step, exchange, &self.objective.targets, self.watch)
            }
        }
    }

    /// Starts to sum the gradients of the layer that went back last.
    fn reduce(&mut self, handle: &CommHandle<B>, of: (u32, usize)) -> Result<(), TrainError> {
        let tensors = self.flow.take_weight_gradients();
        let mut values = self.spare.pop().unwrap_or_default();
        values.clear();
        Gradients::append_layer(self.backend, &tensors, &mut values);
        self.going_back.push(tensors);
        handle.reduce(of, values)
    }

    /// Waits for the sums of all layers, and divides them by what the loss is divided by.
    fn collect(&mut self, handle: &CommHandle<B>) -> Result<(), TrainError> {
        let share = 1.0 / self.objective.divisor as f32;
        let mut layers = std::mem::take(&mut self.going_back);
        for tensors in &mut layers {
            let start = self.watch.now();
            let mut values = handle.reduced()?;
            self.flow.stops.reduce += self.watch.now().saturating_sub(start);
            values.iter_mut().for_each(|value| *value *= share);
            Gradients::assign_layer(self.backend, tensors, &values);
            self.spare.push(values);
        }
        layers.reverse();
        self.gradients = Some(Gradients::new(layers));
        Ok(())
    }
}
