//! The compute thread's end.

use crossbeam_channel::{Receiver, Sender};
use sylvie_comm::Traffic;
use sylvie_tensor::Wire;

use super::{Answer, Arrived, CommTimes, Command, Job};
use crate::error::TrainError;
use crate::state::HostRows;

/// Sends commands to the communication thread, and takes what comes of them.
///
/// A call fails with [`TrainError::CommunicationEnded`] once that thread has ended; why it did is its
/// own result, which takes precedence.
pub(crate) struct CommHandle<B: Wire> {
    rank: usize,
    size: usize,
    commands: Sender<Command<B>>,
    slots: Vec<Receiver<Arrived<B>>>,
    reduced: Receiver<Vec<f32>>,
    answers: Receiver<Answer>,
}

impl<B: Wire> CommHandle<B> {
    pub(super) fn new(
        (rank, size): (usize, usize),
        commands: Sender<Command<B>>,
        slots: Vec<Receiver<Arrived<B>>>,
        reduced: Receiver<Vec<f32>>,
        answers: Receiver<Answer>,
    ) -> Self {
        Self { rank, size, commands, slots, reduced, answers }
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    fn send(&self, command: Command<B>) -> Result<(), TrainError> {
        self.commands.send(command).map_err(|_| TrainError::CommunicationEnded)
    }

    /// Starts an exchange; its rows are delivered to the job's slot, after those started before.
    pub(crate) fn start(&self, job: Job<B>) -> Result<(), TrainError> {
        self.send(Command::Exchange(job))
    }

    /// Waits for the next rows of a slot.
    pub(crate) fn arrived(&self, slot: usize) -> Result<Arrived<B>, TrainError> {
        self.slots[slot].recv().map_err(|_| TrainError::CommunicationEnded)
    }

    /// Starts to sum a layer's weight gradients over the ranks.
    pub(crate) fn reduce(
        &self,
        (epoch, layer): (u32, usize),
        values: Vec<f32>,
    ) -> Result<(), TrainError> {
        self.send(Command::Reduce { epoch, layer, values })
    }

    /// Waits for the next sums, in the order in which they were started.
    pub(crate) fn reduced(&self) -> Result<Vec<f32>, TrainError> {
        self.reduced.recv().map_err(|_| TrainError::CommunicationEnded)
    }

    /// Gives `bytes` of every rank to every rank, in rank order.
    pub(crate) fn all_gather(
        &self,
        epoch: u32,
        bytes: Vec<u8>,
    ) -> Result<Vec<Vec<u8>>, TrainError> {
        self.send(Command::Gather { epoch, bytes })?;
        match self.answers.recv() {
            Ok(Answer::Gathered(all)) => Ok(all),
            Ok(_) => panic!("another answer than gathered bytes"),
            Err(_) => Err(TrainError::CommunicationEnded),
        }
    }

    /// The sum of a count over the ranks.
    pub(crate) fn sum(&self, epoch: u32, value: u64) -> Result<u64, TrainError> {
        let all = self.all_gather(epoch, value.to_le_bytes().to_vec())?;
        sum_counts(self.rank, &all, 1).map(|sums| sums[0])
    }

    /// What was sent, and what the communication thread did, since this was last asked.
    pub(crate) fn take_counts(&self) -> Result<(Traffic, CommTimes), TrainError> {
        self.send(Command::Counts)?;
        match self.answers.recv() {
            Ok(Answer::Counts(traffic, times)) => Ok((traffic, times)),
            Ok(_) => panic!("another answer than counts"),
            Err(_) => Err(TrainError::CommunicationEnded),
        }
    }

    /// Averages of all rows that have been delivered so far.
    pub(crate) fn averages(&self) -> Result<Vec<Option<Vec<HostRows>>>, TrainError> {
        self.send(Command::TakeAverages)?;
        match self.answers.recv() {
            Ok(Answer::Averages(averages)) => Ok(averages),
            Ok(_) => panic!("another answer than averages"),
            Err(_) => Err(TrainError::CommunicationEnded),
        }
    }

    /// Goes on from such averages, before the first exchange.
    pub(crate) fn set_averages(
        &self,
        averages: Vec<Option<Vec<HostRows>>>,
    ) -> Result<(), TrainError> {
        self.send(Command::SetAverages(averages))
    }
}

/// Adds up gathered lists of `n_values` counts.
pub(crate) fn sum_counts(
    rank: usize,
    all: &[Vec<u8>],
    n_values: usize,
) -> Result<Vec<u64>, TrainError> {
    let mut sums = vec![0_u64; n_values];
    for (peer, bytes) in all.iter().enumerate() {
        let damaged = || TrainError::Damaged { rank, peer, what: "counts" };
        let (words, rest) = bytes.as_chunks::<8>();
        if words.len() != n_values || !rest.is_empty() {
            return Err(damaged());
        }
        for (sum, word) in sums.iter_mut().zip(words) {
            *sum = sum.checked_add(u64::from_le_bytes(*word)).ok_or_else(damaged)?;
        }
    }
    Ok(sums)
}
