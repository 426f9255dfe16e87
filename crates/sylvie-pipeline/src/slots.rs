//! What is under way and what is kept, for each layer and pass.

use sylvie_comm::Purpose;
use sylvie_random::Pass;
use sylvie_tensor::Wire;

use crate::communication::{Arrived, CommHandle, Job, MAX_DUE, Smoothing};
use crate::error::TrainError;

/// One slot for each layer and pass of training, and one for evaluation.
pub(crate) struct Slots<B: Wire> {
    slots: Vec<Slot<B>>,
}

struct Slot<B: Wire> {
    /// Deliveries that are due.
    n_due: usize,
    /// Epoch of the exchange that was started last.
    newest: Option<u32>,
    /// Rows of a synchronous epoch that the next one uses again.
    kept: Option<Arrived<B>>,
}

impl<B: Wire> Slots<B> {
    /// How many slots a network of `n_layers` needs.
    pub(crate) const fn count(n_layers: usize) -> usize {
        2 * n_layers + 1
    }

    pub(crate) fn new(n_layers: usize) -> Self {
        let slot = |_| Slot { n_due: 0, newest: None, kept: None };
        Self { slots: (0..Self::count(n_layers)).map(slot).collect() }
    }

    /// The slot of an exchange. Evaluation's comes first: one exchange at a time uses it.
    pub(crate) const fn number(layer: usize, pass: Pass, purpose: Purpose) -> usize {
        match (purpose, pass) {
            (Purpose::Evaluation | Purpose::Setup, _) => 0,
            (Purpose::Training, Pass::Forward) => 1 + 2 * layer,
            (Purpose::Training, Pass::Backward) => 2 + 2 * layer,
        }
    }

    pub(crate) fn start(&mut self, handle: &CommHandle<B>, job: Job<B>) -> Result<(), TrainError> {
        let n_deliveries = if matches!(job.smoothing, Smoothing::Beside(_)) { 2 } else { 1 };
        let Slot { n_due, newest, .. } = &mut self.slots[job.slot];
        *newest = Some(job.call.epoch);
        *n_due += n_deliveries;
        assert!(
            *n_due <= MAX_DUE,
            "{n_due} deliveries are due in slot {}, {MAX_DUE} fit",
            job.slot
        );
        handle.start(job)
    }

    fn next(&mut self, handle: &CommHandle<B>, number: usize) -> Result<Arrived<B>, TrainError> {
        let slot = &mut self.slots[number];
        assert!(slot.n_due > 0, "nothing is under way for slot {number}");
        slot.n_due -= 1;
        handle.arrived(number)
    }

    /// The rows of the exchange just started; `keeps` them for the next epoch, unless their average
    /// follows.
    pub(crate) fn wait(
        &mut self,
        handle: &CommHandle<B>,
        number: usize,
        keeps: bool,
    ) -> Result<Arrived<B>, TrainError> {
        let arrived = self.next(handle, number)?;
        let slot = &mut self.slots[number];
        if keeps && slot.n_due == 0 {
            slot.kept = Some(arrived.clone());
        }
        Ok(arrived)
    }

    /// The rows of the epoch before `epoch`, whose own exchange may have been started; nothing in the first.
    pub(crate) fn take_stale(
        &mut self,
        handle: &CommHandle<B>,
        number: usize,
        epoch: u32,
    ) -> Result<Option<Arrived<B>>, TrainError> {
        let slot = &mut self.slots[number];
        if let Some(kept) = slot.kept.take() {
            return Ok(Some(kept));
        }
        let n_newer = usize::from(slot.newest == Some(epoch));
        if slot.n_due <= n_newer {
            return Ok(None);
        }
        self.next(handle, number).map(Some)
    }

    /// Waits for what is under way, and drops it with what is kept.
    pub(crate) fn drain(
        &mut self,
        handle: &CommHandle<B>,
        number: usize,
    ) -> Result<(), TrainError> {
        while self.slots[number].n_due > 0 {
            drop(self.next(handle, number)?);
        }
        self.slots[number].kept = None;
        Ok(())
    }

    /// Waits for what is under way and keeps it for the next epoch, which uses it as it would have used
    /// it coming in late.
    pub(crate) fn settle(&mut self, handle: &CommHandle<B>) -> Result<(), TrainError> {
        for number in 0..self.slots.len() {
            while self.slots[number].n_due > 0 {
                let arrived = self.next(handle, number)?;
                let before = self.slots[number].kept.replace(arrived);
                assert!(before.is_none(), "two epochs' rows are kept in slot {number}");
            }
        }
        Ok(())
    }

    /// What each slot keeps.
    pub(crate) fn kept(&self) -> impl Iterator<Item = Option<&Arrived<B>>> {
        self.slots.iter().map(|slot| slot.kept.as_ref())
    }

    /// Keeps rows of an epoch for the next.
    pub(crate) fn keep(&mut self, number: usize, rows: Arrived<B>) {
        self.slots[number].kept = Some(rows);
    }

    /// Drains all slots.
    pub(crate) fn drain_all(&mut self, handle: &CommHandle<B>) -> Result<(), TrainError> {
        (0..self.slots.len()).try_for_each(|number| self.drain(handle, number))
    }
}
