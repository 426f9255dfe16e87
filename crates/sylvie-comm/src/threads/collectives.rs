//! Collectives: every rank sends every other one message a step, in lockstep.

use std::ops::Range;

use super::Links;
use super::modelled::InTransit;
use super::watch::Watch;
use crate::{CommError, Operation, reduction};

#[derive(Debug)]
pub(super) enum Control {
    /// A rank's contribution to an `all_gather`.
    Gathered(Vec<u8>),
    /// The receiver's slice of the sender's vector, or the sender's summed slice: a rank sends the
    /// first before the second, and channels keep the order.
    Reduced { n_values: usize, slice: Vec<f32> },
}

impl Control {
    fn operation(&self) -> Operation {
        match self {
            Self::Gathered(_) => Operation::AllGather,
            Self::Reduced { .. } => Operation::Reduce,
        }
    }

    fn wrong(&self, peer: usize, watch: &Watch) -> CommError {
        let (expected, found) = (watch.operation(), self.operation());
        CommError::WrongCollective { peer, expected, found }
    }
}

#[derive(Debug)]
pub(super) struct Collectives {
    rank: usize,
    links: Links<InTransit<Control>>,
    /// Vectors that arrived in earlier reductions: as many as the next one sends.
    spare: Vec<Vec<f32>>,
}

impl Collectives {
    pub(super) fn new(rank: usize, links: Links<InTransit<Control>>) -> Self {
        Self { rank, links, spare: Vec::new() }
    }

    fn size(&self) -> usize {
        self.links.to.len()
    }

    fn peers(&self) -> impl Iterator<Item = usize> + use<> {
        let rank = self.rank;
        (0..self.size()).filter(move |&peer| peer != rank)
    }

    pub(super) fn all_gather(
        &self,
        bytes: &[u8],
        watch: &Watch,
    ) -> Result<Vec<Vec<u8>>, CommError> {
        for peer in self.peers() {
            let message = Control::Gathered(bytes.to_vec());
            watch.send(&self.links.to[peer], peer, message, bytes.len())?;
        }
        let mut gathered = Vec::with_capacity(self.size());
        for peer in 0..self.size() {
            gathered.push(if peer == self.rank {
                bytes.to_vec()
            } else {
                match watch.receive(&self.links.from[peer], peer)? {
                    Control::Gathered(bytes) => bytes,
                    other => return Err(other.wrong(peer, watch)),
                }
            });
        }
        Ok(gathered)
    }

    pub(super) fn reduce(&mut self, values: &mut [f32], watch: &Watch) -> Result<(), CommError> {
        let (rank, size) = (self.rank, self.size());
        let slice_of = |peer| reduction::slice_of(values.len(), size, peer);
        let slices: Vec<Range<usize>> = (0..size).map(slice_of).collect();
        for peer in self.peers() {
            self.send_slice(peer, values, slices[peer].clone(), watch)?;
        }
        let own = slices[rank].clone();
        let mut own_term = self.spare.pop().unwrap_or_default();
        own_term.clear();
        own_term.extend_from_slice(&values[own.clone()]);
        for peer in 0..size {
            let term = if peer == rank {
                std::mem::take(&mut own_term)
            } else {
                self.receive_slice(peer, values.len(), watch)?
            };
            reduction::accumulate(&mut values[own.clone()], &term, peer);
            self.spare.push(term);
        }
        for peer in self.peers() {
            self.send_slice(peer, values, own.clone(), watch)?;
        }
        for peer in self.peers() {
            let sum = self.receive_slice(peer, values.len(), watch)?;
            values[slices[peer].clone()].copy_from_slice(&sum);
            self.spare.push(sum);
        }
        Ok(())
    }

    fn send_slice(
        &mut self,
        peer: usize,
        values: &[f32],
        range: Range<usize>,
        watch: &Watch,
    ) -> Result<(), CommError> {
        let mut slice = self.spare.pop().unwrap_or_default();
        slice.clear();
        slice.extend_from_slice(&values[range]);
        let n_bytes = size_of_val(&*slice);
        let message = Control::Reduced { n_values: values.len(), slice };
        watch.send(&self.links.to[peer], peer, message, n_bytes)
    }

    fn receive_slice(
        &self,
        peer: usize,
        expected: usize,
        watch: &Watch,
    ) -> Result<Vec<f32>, CommError> {
        match watch.receive(&self.links.from[peer], peer)? {
            Control::Reduced { n_values, slice } if n_values == expected => Ok(slice),
            Control::Reduced { n_values, .. } => {
                Err(CommError::UnequalReduce { peer, expected, found: n_values })
            }
            other => Err(other.wrong(peer, watch)),
        }
    }
}
