//! What stays the same during a pass of an epoch.

use std::sync::Arc;

use sylvie_comm::Purpose;
use sylvie_gnn::{Context, Dropout, Network, Weights};
use sylvie_random::{Coordinates, Pass, Stream};
use sylvie_tensor::Wire;

use crate::communication::{Call, Smoothing};
use crate::policy::{ExchangePolicy, Memory};
use crate::sample::Sample;
use crate::stage::Stage;

/// What stays the same during a pass.
pub(crate) struct Pace<'a, B: Wire> {
    pub(crate) backend: &'a B,
    pub(crate) network: &'a Network,
    pub(crate) weights: &'a Weights<B>,
    pub(crate) stage: &'a Arc<Stage<B>>,
    pub(crate) policy: &'a ExchangePolicy,
    pub(crate) seed: u64,
    pub(crate) epoch: u32,
    pub(crate) purpose: Purpose,
    /// The boundary rows that this epoch sends, where they are drawn.
    pub(crate) sample: Option<&'a Arc<Sample<B>>>,
}

impl<B: Wire> Clone for Pace<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Wire> Copy for Pace<'_, B> {}

impl<'a, B: Wire> Pace<'a, B> {
    pub(crate) fn call(&self, layer: usize, pass: Pass) -> Call {
        let Self { epoch, purpose, policy, .. } = *self;
        Call { epoch, layer, pass, purpose, codec: policy.codec(layer, pass) }
    }

    pub(crate) fn dropout(&self, layer: usize) -> Option<Dropout> {
        let rate = self.network.config().dropout;
        let draws = |stream| {
            let coordinates = Coordinates::new(self.seed, stream);
            coordinates.at(self.epoch, layer as u8, Pass::Forward).family()
        };
        let is_dropping = self.purpose == Purpose::Training && rate > 0.0;
        is_dropping.then(|| Dropout {
            rate,
            rows: draws(Stream::Dropout),
            aggregate: draws(Stream::DropoutAggregate),
        })
    }

    pub(crate) fn context(&self, layer: usize) -> Context<'a, B> {
        Context {
            backend: self.backend,
            structure: &self.stage.structure,
            dropout: self.dropout(layer),
            keeps_halo: self.policy.memory == Memory::All,
        }
    }

    pub(crate) fn smoothing(&self, pass: Pass) -> Smoothing {
        let decay = self.policy.smooth_decay;
        let is_smooth = self.policy.smooth.is_some_and(|directions| directions.include(pass));
        let is_synchronous = |epoch| self.policy.is_synchronous(epoch, pass);
        match (is_synchronous(self.epoch), is_synchronous(self.epoch.saturating_add(1))) {
            _ if !is_smooth || self.purpose != Purpose::Training => Smoothing::Off,
            (false, _) => Smoothing::Instead(decay),
            (true, false) => Smoothing::Beside(decay),
            // Synchronous throughout: nobody asks for the average.
            (true, true) => Smoothing::Off,
        }
    }
}
