//! A run's state, taken and given back.

use std::sync::Arc;

use sylvie_gnn::{Adam, Weights};
use sylvie_tensor::Wire;

use super::Run;
use crate::communication::CommHandle;
use crate::error::TrainError;
use crate::sample::Sample;
use crate::state::{CheckpointSink, HaloState, RankState, SharedState};

impl<B: Wire> Run<'_, B> {
    /// Keeps the state after `epoch`, on all ranks or on none.
    pub(super) fn keep(
        &mut self,
        handle: &CommHandle<B>,
        epoch: u32,
        sink: &mut dyn CheckpointSink,
    ) -> Result<(), TrainError> {
        let rank = handle.rank();
        let failed = |source| TrainError::Checkpoint { epoch, rank, source };
        let state = self.state(handle, epoch + 1)?;
        sink.store(&state).map_err(failed)?;
        // A rank that failed has ended the job, so that this comes back only if all have stored theirs.
        handle.all_gather(epoch, Vec::new())?;
        sink.commit(epoch + 1).map_err(failed)
    }

    fn state(&mut self, handle: &CommHandle<B>, n_epochs: u32) -> Result<RankState, TrainError> {
        self.slots.settle(handle)?;
        let averages = handle.averages()?;
        Ok(RankState {
            shared: SharedState {
                n_epochs,
                weights: self.weights.to_host(self.backend),
                moments: self.adam.moments(self.backend),
                best: self.best.clone(),
                last: self.last,
                n_since_best: self.n_since_best,
                eval_bytes: self.eval_bytes,
            },
            halo: HaloState::download(self.backend, self.slots.kept(), averages),
        })
    }

    /// Goes on from a state; gives the number of epochs that are done.
    pub(super) fn resume(
        &mut self,
        handle: &CommHandle<B>,
        state: RankState,
    ) -> Result<u32, TrainError> {
        let RankState { shared, halo } = state;
        let settings = self.settings;
        let (backend, model) = (self.backend, &settings.model);
        let is_best = shared.best.as_ref().is_none_or(|best| model.fits(&best.weights));
        let policy = &settings.exchange;
        for (fits, what) in [
            (model.fits(&shared.weights) && is_best, "weights"),
            (shared.moments.fit(model), "the optimiser's moments"),
            (halo.fits(model, &self.training.plan), "rows kept for the next epoch"),
        ] {
            if !fits {
                return Err(TrainError::OtherState { rank: handle.rank(), what });
            }
        }
        self.weights = Weights::from_host(backend, model, &shared.weights);
        let rates = (settings.learning_rate, settings.weight_decay);
        self.adam = Adam::resumed(backend, model, rates, &shared.moments);
        self.best = shared.best;
        self.last = shared.last;
        self.n_since_best = shared.n_since_best;
        self.eval_bytes = shared.eval_bytes;
        let sample = |epoch| {
            let draw = (settings.seed, epoch);
            let probability = policy.boundary_sampling.unwrap_or(1.0);
            Arc::new(Sample::draw(backend, model, &self.training, probability, draw))
        };
        for (number, kept) in halo.kept.iter().enumerate() {
            if let Some(kept) = kept {
                self.slots.keep(number, kept.upload(backend, sample));
            }
        }
        handle.set_averages(halo.averages)?;
        Ok(shared.n_epochs)
    }
}
