//! What is known of an epoch.

use std::error::Error;

use crate::clock::Stopwatch;
use crate::evaluation::Scores;

/// Figures of one epoch over all ranks.
///
/// Times are means over the ranks, in milliseconds; `compute_ms` is what the others leave of
/// `epoch_ms`. Bytes and messages are sums over the ranks and leave
/// evaluation out; payload, metadata and messages are those of the halo exchange.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochRecord {
    /// Epoch, from 0.
    pub epoch: u32,
    /// Sum of the loss over labelled training nodes, divided by their number.
    pub loss: f64,
    /// The whole epoch, evaluation left out.
    pub epoch_ms: f64,
    /// Everything but exchange and reduction.
    pub compute_ms: f64,
    /// Encoding rows.
    pub encode_ms: f64,
    /// Waiting for rows.
    pub wait_ms: f64,
    /// Decoding rows.
    pub decode_ms: f64,
    /// Summing weight gradients over the ranks.
    pub reduce_ms: f64,
    /// Bytes of values sent.
    pub payload_bytes: u64,
    /// Bytes of scales and zero points sent.
    pub metadata_bytes: u64,
    /// Messages sent.
    pub messages: u64,
    /// Bytes sent to sum the weight gradients: the same at any precision of the exchange.
    pub reduce_bytes: u64,
    /// Scores, in epochs that evaluate.
    pub scores: Option<Scores>,
    /// Time of the evaluation.
    pub eval_ms: f64,
    /// Bytes sent for the evaluation.
    pub eval_bytes: u64,
}

/// Why an observer refuses to go on.
pub type ObserverError = Box<dyn Error + Send + Sync>;

/// Whoever wants to know of each epoch; closures are observers.
pub trait Observer {
    /// Takes note of an epoch.
    ///
    /// # Errors
    /// Whatever should end the run, as a full disk.
    fn epoch(&mut self, record: &EpochRecord) -> Result<(), ObserverError>;
}

impl<F: FnMut(&EpochRecord) -> Result<(), ObserverError>> Observer for F {
    fn epoch(&mut self, record: &EpochRecord) -> Result<(), ObserverError> {
        self(record)
    }
}

/// One rank's share of an epoch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RankEpoch {
    pub(crate) loss_sum: f64,
    pub(crate) epoch: std::time::Duration,
    pub(crate) times: Stopwatch,
    pub(crate) payload_bytes: u64,
    pub(crate) metadata_bytes: u64,
    pub(crate) messages: u64,
    pub(crate) reduce_bytes: u64,
}

const N_WORDS: usize = 10;

impl RankEpoch {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let nanos = |time: std::time::Duration| time.as_nanos() as u64;
        let words: [u64; N_WORDS] = [
            self.loss_sum.to_bits(),
            nanos(self.epoch),
            nanos(self.times.encode),
            nanos(self.times.wait),
            nanos(self.times.decode),
            nanos(self.times.reduce),
            self.payload_bytes,
            self.metadata_bytes,
            self.messages,
            self.reduce_bytes,
        ];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The words of one rank; `None` if these bytes are none.
    fn words(bytes: &[u8]) -> Option<[u64; N_WORDS]> {
        let (words, []) = bytes.as_chunks::<8>() else {
            return None;
        };
        <[u64; N_WORDS]>::try_from(words.iter().map(|w| u64::from_le_bytes(*w)).collect::<Vec<_>>())
            .ok()
    }
}

/// Adds up the ranks' shares in rank order; the error is the rank whose bytes are damaged.
pub(crate) fn combine(
    epoch: u32,
    ranks: &[Vec<u8>],
    n_training_nodes: u64,
) -> Result<EpochRecord, usize> {
    let mut loss_sum = 0.0;
    let mut sums = [0_u64; N_WORDS];
    for (rank, bytes) in ranks.iter().enumerate() {
        let words = RankEpoch::words(bytes).ok_or(rank)?;
        loss_sum += f64::from_bits(words[0]);
        for (sum, word) in sums.iter_mut().zip(words).skip(1) {
            *sum += word;
        }
    }
    let mean_ms = |place: usize| sums[place] as f64 / 1e6 / ranks.len() as f64;
    let (epoch_ms, encode_ms, wait_ms) = (mean_ms(1), mean_ms(2), mean_ms(3));
    let (decode_ms, reduce_ms) = (mean_ms(4), mean_ms(5));
    Ok(EpochRecord {
        epoch,
        loss: loss_sum / n_training_nodes as f64,
        epoch_ms,
        compute_ms: (epoch_ms - encode_ms - wait_ms - decode_ms - reduce_ms).max(0.0),
        encode_ms,
        wait_ms,
        decode_ms,
        reduce_ms,
        payload_bytes: sums[6],
        metadata_bytes: sums[7],
        messages: sums[8],
        reduce_bytes: sums[9],
        scores: None,
        eval_ms: 0.0,
        eval_bytes: 0,
    })
}
