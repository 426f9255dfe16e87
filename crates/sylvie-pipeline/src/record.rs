//! What is known of an epoch.

use std::error::Error;
use std::time::Duration;

use crate::communication::CommTimes;
use crate::evaluation::Scores;
use crate::flow::Stops;

/// Where one rank's time went in an epoch, in milliseconds.
///
/// The compute thread computes, stands still for rows of other ranks, or for sums of weight gradients:
/// the first three add up to the epoch. Beside it the communication thread encodes, waits for the
/// network and decodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RankTimes {
    /// Computing.
    pub compute_ms: f64,
    /// Standing still for rows of other ranks: what of the exchange was not hidden.
    pub blocked_ms: f64,
    /// Standing still for sums of weight gradients.
    pub reduce_ms: f64,
    /// Encoding, on the communication thread.
    pub encode_ms: f64,
    /// Decoding, there.
    pub decode_ms: f64,
    /// While an exchange was under way and its rows were neither encoded nor decoded.
    pub network_ms: f64,
    /// Encoding, network and decoding, less what the compute thread stood still for rows: an estimate of
    /// what computing, or waiting for sums, hid.
    pub hidden_ms: f64,
}

impl RankTimes {
    /// The mean over ranks.
    fn mean(ranks: &[Self]) -> Self {
        let mean = |of: fn(&Self) -> f64| ranks.iter().map(of).sum::<f64>() / ranks.len() as f64;
        Self {
            compute_ms: mean(|r| r.compute_ms),
            blocked_ms: mean(|r| r.blocked_ms),
            reduce_ms: mean(|r| r.reduce_ms),
            encode_ms: mean(|r| r.encode_ms),
            decode_ms: mean(|r| r.decode_ms),
            network_ms: mean(|r| r.network_ms),
            hidden_ms: mean(|r| r.hidden_ms),
        }
    }
}

/// Figures of one epoch over all ranks.
///
/// Bytes and messages are sums over the ranks and leave evaluation out; payload, metadata and messages
/// are those of the halo exchange.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochRecord {
    /// Epoch, from 0.
    pub epoch: u32,
    /// Sum of the loss over labelled training nodes, divided by their number, or by the sum of their weights.
    pub loss: f64,
    /// The whole epoch, evaluation left out: mean over the ranks.
    pub epoch_ms: f64,
    /// Where the time went: mean over the ranks.
    pub times: RankTimes,
    /// The same for each rank.
    pub ranks: Vec<RankTimes>,
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
    /// Whether a rank was asked to stop, so that this epoch is the last.
    pub is_stopping: bool,
}

/// Why an observer refuses to go on.
pub type ObserverError = Box<dyn Error + Send + Sync>;

/// Whoever wants to know of each epoch; closures are observers. It is told on the thread that computes.
///
/// # Example
/// ```
/// use sylvie_pipeline::{EpochRecord, Observer, ObserverError, RankTimes};
///
/// /// Ends a run that has sent all that it may.
/// struct Budget {
///     left_bytes: u64,
/// }
///
/// impl Observer for Budget {
///     fn epoch(&mut self, record: &EpochRecord) -> Result<(), ObserverError> {
///         let sent_bytes = record.payload_bytes + record.metadata_bytes;
///         let left_bytes = self.left_bytes.checked_sub(sent_bytes);
///         self.left_bytes = left_bytes.ok_or("the run has sent all that it may")?;
///         Ok(())
///     }
/// }
///
/// // What `train` tells of an epoch of one rank that stood still for a fifth of it.
/// let times = RankTimes { compute_ms: 8.0, blocked_ms: 2.0, ..RankTimes::default() };
/// let record = EpochRecord {
///     epoch: 0,
///     loss: 0.7,
///     epoch_ms: 10.0,
///     times,
///     ranks: vec![times],
///     payload_bytes: 800,
///     metadata_bytes: 100,
///     messages: 4,
///     reduce_bytes: 5000,
///     scores: None,
///     eval_ms: 0.0,
///     eval_bytes: 0,
///     is_stopping: false,
/// };
/// let mut budget = Budget { left_bytes: 1000 };
/// budget.epoch(&record)?;
/// assert_eq!(budget.left_bytes, 100);
/// assert!(budget.epoch(&record).is_err());
/// # Ok::<(), ObserverError>(())
/// ```
pub trait Observer: Send {
    /// Takes note of an epoch.
    ///
    /// # Errors
    /// Whatever should end the run, as a full disk.
    fn epoch(&mut self, record: &EpochRecord) -> Result<(), ObserverError>;
}

impl<F: FnMut(&EpochRecord) -> Result<(), ObserverError> + Send> Observer for F {
    fn epoch(&mut self, record: &EpochRecord) -> Result<(), ObserverError> {
        self(record)
    }
}

/// One rank's share of an epoch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RankEpoch {
    pub(crate) loss_sum: f64,
    pub(crate) epoch: Duration,
    pub(crate) stops: Stops,
    pub(crate) comm: CommTimes,
    pub(crate) payload_bytes: u64,
    pub(crate) metadata_bytes: u64,
    pub(crate) messages: u64,
    pub(crate) reduce_bytes: u64,
    pub(crate) is_stopping: bool,
}

const N_WORDS: usize = 12;

impl RankEpoch {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let nanos = |time: Duration| time.as_nanos() as u64;
        let words: [u64; N_WORDS] = [
            self.loss_sum.to_bits(),
            nanos(self.epoch),
            nanos(self.stops.blocked),
            nanos(self.stops.reduce),
            nanos(self.comm.encode),
            nanos(self.comm.decode),
            nanos(self.comm.exchange),
            self.payload_bytes,
            self.metadata_bytes,
            self.messages,
            self.reduce_bytes,
            u64::from(self.is_stopping),
        ];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The share of a rank; `None` if these bytes are none.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<8>() else {
            return None;
        };
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let words: [u64; N_WORDS] = words.try_into().ok()?;
        let [loss, epoch, blocked, reduce, encode, decode, exchange, rest @ ..] = words;
        let [payload_bytes, metadata_bytes, messages, reduce_bytes, is_stopping] = rest;
        let time = Duration::from_nanos;
        Some(Self {
            loss_sum: f64::from_bits(loss),
            epoch: time(epoch),
            stops: Stops { blocked: time(blocked), reduce: time(reduce) },
            comm: CommTimes {
                encode: time(encode),
                decode: time(decode),
                exchange: time(exchange),
            },
            payload_bytes,
            metadata_bytes,
            messages,
            reduce_bytes,
            is_stopping: is_stopping != 0,
        })
    }

    fn times(&self) -> RankTimes {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let Self { stops, comm, .. } = self;
        let still = stops.blocked + stops.reduce;
        let coding = comm.encode + comm.decode;
        RankTimes {
            compute_ms: ms(self.epoch.saturating_sub(still)),
            blocked_ms: ms(stops.blocked),
            reduce_ms: ms(stops.reduce),
            encode_ms: ms(comm.encode),
            decode_ms: ms(comm.decode),
            network_ms: ms(comm.exchange.saturating_sub(coding)),
            hidden_ms: ms(comm.exchange.saturating_sub(stops.blocked)),
        }
    }
}

/// Adds up the ranks' shares in rank order, the loss divided by `divisor`; the error is the rank whose bytes are damaged.
pub(crate) fn combine(epoch: u32, ranks: &[Vec<u8>], divisor: f64) -> Result<EpochRecord, usize> {
    let mut shares = Vec::with_capacity(ranks.len());
    for (rank, bytes) in ranks.iter().enumerate() {
        shares.push(RankEpoch::from_bytes(bytes).ok_or(rank)?);
    }
    let sum = |of: fn(&RankEpoch) -> u64| shares.iter().map(of).fold(0, u64::saturating_add);
    let loss_sum: f64 = shares.iter().map(|share| share.loss_sum).sum();
    let epoch_s: f64 = shares.iter().map(|share| share.epoch.as_secs_f64()).sum();
    let times: Vec<RankTimes> = shares.iter().map(RankEpoch::times).collect();
    Ok(EpochRecord {
        epoch,
        loss: loss_sum / divisor,
        epoch_ms: epoch_s * 1e3 / shares.len() as f64,
        times: RankTimes::mean(&times),
        ranks: times,
        payload_bytes: sum(|share| share.payload_bytes),
        metadata_bytes: sum(|share| share.metadata_bytes),
        messages: sum(|share| share.messages),
        reduce_bytes: sum(|share| share.reduce_bytes),
        scores: None,
        eval_ms: 0.0,
        eval_bytes: 0,
        is_stopping: shares.iter().any(|share| share.is_stopping),
    })
}
