//! The communication thread of a rank.
//!
//! The thread that a rank was started on keeps the communicator, which need not be `Send`, and serves
//! commands; a thread beside it computes and sends them. Commands come in the order of the schedule,
//! which is the same on every rank, so every rank starts the same exchanges in the same order.
//! Synchronous exchanges are waited for at once; asynchronous ones are polled while nothing else is
//! due, and their rows are decoded as they come.

mod buffers;
mod decode;
mod encode;
mod exchange;
mod handle;
mod smoothing;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use sylvie_comm::{Communicator, Purpose, Tag, Traffic};
use sylvie_gnn::Input;
use sylvie_lowbit::RowCodec;
use sylvie_random::{Coordinates, Family, Pass, Stream};
use sylvie_tensor::Wire;

use crate::error::TrainError;
use crate::instruments::{Activity, Instruments, Lane, Watch};
use crate::policy::{HaloRows, Memory};
use crate::sample::Sample;
use crate::schedule::Parts;
use crate::stage::Stage;
use crate::state::HostRows;
pub(crate) use decode::decode_error;
pub(crate) use encode::encode_error;
use exchange::{Exchanger, Flight, Parcel};
pub(crate) use handle::{CommHandle, sum_counts};

/// Which exchange, at which precision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) epoch: u32,
    pub(crate) layer: usize,
    pub(crate) pass: Pass,
    pub(crate) purpose: Purpose,
    pub(crate) codec: RowCodec,
}

impl Call {
    fn tag(self) -> Tag {
        let Self { epoch, layer, pass, purpose, .. } = self;
        Tag { epoch, layer: layer as u16, pass, purpose }
    }

    /// Draws of the rounding. Backward, each reader has its own.
    pub(crate) fn rounding(self, seed: u64, reader: usize) -> Family {
        let draws =
            Coordinates::new(seed, Stream::Rounding).at(self.epoch, self.layer as u8, self.pass);
        match self.pass {
            Pass::Forward => draws.family(),
            Pass::Backward => draws.reader(reader as u16).family(),
        }
    }
}

/// Rows to exchange.
pub(crate) enum Rows<B: Wire> {
    /// Own rows.
    Own(Arc<B::Matrix>),
    /// Gradients of halo rows, with the numbers of their blocks.
    HaloGradients(Vec<(usize, B::Matrix)>),
}

/// When the rows of an exchange are fetched from the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Before anything else is done.
    AtOnce,
    /// When they have come, beside other work.
    WhenThere,
    /// Likewise, and they are sent only when the epoch's figures have been gathered.
    AfterFigures,
}

/// What an average of stale rows has to do with an exchange.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Smoothing {
    Off,
    /// The average is delivered instead of the rows.
    Instead(f32),
    /// The rows are delivered, and then the average, for the epoch after.
    Beside(f32),
}

/// An exchange to run.
pub(crate) struct Job<B: Wire> {
    pub(crate) call: Call,
    /// Where its rows are delivered.
    pub(crate) slot: usize,
    pub(crate) n_cols: usize,
    pub(crate) parts: Parts,
    pub(crate) rows: Rows<B>,
    pub(crate) stage: Arc<Stage<B>>,
    pub(crate) sample: Option<Arc<Sample<B>>>,
    /// Dropout of the rows whose gradients come: rate and draws.
    pub(crate) mask: Option<(f32, Family)>,
    pub(crate) delivery: Delivery,
    pub(crate) smoothing: Smoothing,
}

/// What came of an exchange.
pub(crate) enum Arrived<B: Wire> {
    /// Halo rows with the numbers of their blocks, and the sample they are of.
    Halo { blocks: Vec<(usize, Input<B>)>, sample: Option<Arc<Sample<B>>> },
    /// Gradients of the boundary rows, added up over their readers.
    Boundary(Arc<B::Matrix>),
    /// This round was about another part's rows.
    Nothing,
}

impl<B: Wire> Clone for Arrived<B> {
    fn clone(&self) -> Self {
        match self {
            Self::Halo { blocks, sample } => {
                Self::Halo { blocks: blocks.clone(), sample: sample.clone() }
            }
            Self::Boundary(rows) => Self::Boundary(Arc::clone(rows)),
            Self::Nothing => Self::Nothing,
        }
    }
}

/// What the communication thread did since it was last asked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommTimes {
    pub(crate) encode: Duration,
    pub(crate) decode: Duration,
    /// While at least one exchange was under way, from the first row encoded to the last decoded.
    pub(crate) exchange: Duration,
}

enum Command<B: Wire> {
    Exchange(Job<B>),
    Reduce { epoch: u32, layer: usize, values: Vec<f32> },
    Gather { epoch: u32, bytes: Vec<u8> },
    Counts,
    TakeAverages,
    SetAverages(Vec<Option<Vec<HostRows>>>),
}

/// What a command other than an exchange or a reduction gives.
enum Answer {
    Gathered(Vec<Vec<u8>>),
    Counts(Traffic, CommTimes),
    Averages(Vec<Option<Vec<HostRows>>>),
}

/// The other ends of a [`CommHandle`]'s channels.
struct Ends<B: Wire> {
    commands: Receiver<Command<B>>,
    slots: Vec<Sender<Arrived<B>>>,
    reduced: Sender<Vec<f32>>,
    answers: Sender<Answer>,
}

/// What a run asks of its communication thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommNeeds {
    /// Key of the rounding's draws.
    pub(crate) seed: u64,
    /// Places that rows are delivered to.
    pub(crate) n_slots: usize,
    /// How halo rows lie in memory.
    pub(crate) halo: HaloRows,
    /// Whether buffers may be kept for all peers at once.
    pub(crate) memory: Memory,
    /// Whether messages of evaluations are as long as those of training, so that they share buffers.
    /// Otherwise theirs would lie idle, many times too long, until the next evaluation.
    pub(crate) is_alike: bool,
}

/// Commands that may wait for the communication thread.
const N_QUEUED: usize = 256;
/// Results that may wait in a slot: an epoch's, those of the next, and their averages.
pub(crate) const MAX_DUE: usize = 8;

/// Runs `compute` on a thread of its own, and serves its commands on this one.
///
/// # Errors
/// What ended the communication, if anything did; else what `compute` returned.
pub(crate) fn with_communication<B, C, T, F>(
    (backend, comm): (&B, &mut C),
    instruments: Instruments<'_>,
    needs: CommNeeds,
    compute: F,
) -> Result<T, TrainError>
where
    B: Wire,
    C: Communicator<Buffer = B::Bytes>,
    T: Send,
    F: FnOnce(&mut CommHandle<B>) -> Result<T, TrainError> + Send,
{
    let (rank, size) = (comm.rank(), comm.size());
    let (mut handle, ends) = connect::<B>(rank, size, needs.n_slots);
    thread::scope(|scope| {
        let builder = thread::Builder::new().name(format!("rank {rank}, compute"));
        let builder = builder.stack_size(STACK_BYTES);
        let computing = builder.spawn_scoped(scope, move || compute(&mut handle));
        let computing = computing.map_err(|source| TrainError::Thread { rank, source })?;
        // Serving ends when the other thread does, or with an error; either way `ends` go here, so that
        // whoever computes is told.
        let watch = Watch::new(instruments, rank);
        let served = Exchanger::new(backend, comm, watch, needs).serve(ends);
        let computed = computing.join().unwrap_or_else(|panic| resume_unwind(panic));
        served.and(computed)
    })
}

/// As the stacks of ranks.
const STACK_BYTES: usize = 16 << 20;

fn connect<B: Wire>(rank: usize, size: usize, n_slots: usize) -> (CommHandle<B>, Ends<B>) {
    let (command, commands) = bounded(N_QUEUED);
    let (slots_in, slots_out) = (0..n_slots).map(|_| bounded(MAX_DUE)).unzip();
    // A layer's sums at a time, and no more layers than a byte counts.
    let (reduce, reduced) = bounded(N_QUEUED);
    let (answer, answers) = bounded(1);
    let handle = CommHandle::new((rank, size), command, slots_out, reduced, answers);
    (handle, Ends { commands, slots: slots_in, reduced: reduce, answers: answer })
}

/// Pauses between two looks at what is under way. They grow with the time waited, so that looking
/// neither costs much nor delays much.
const SHORTEST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// Exchanges that are not waited for.
struct Aloft<B: Wire, P> {
    flights: Vec<Flight<B, P>>,
    /// Encoded, to be sent when the epoch's figures have been gathered: the next command but counting.
    held: Option<Parcel<B>>,
}

impl<B: Wire, C: Communicator<Buffer = B::Bytes>> Exchanger<'_, B, C> {
    /// Serves commands until nobody sends any more.
    fn serve(mut self, ends: Ends<B>) -> Result<(), TrainError> {
        let mut aloft = Aloft { flights: Vec::new(), held: None };
        let mut pause = SHORTEST_PAUSE;
        loop {
            let command = if aloft.flights.is_empty() {
                ends.commands.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                ends.commands.recv_timeout(pause)
            };
            match command {
                Ok(command) => {
                    self.obey(command, &ends, &mut aloft)?;
                    pause = SHORTEST_PAUSE;
                }
                Err(RecvTimeoutError::Timeout) => {
                    let has_landed = self.land(&ends, &mut aloft.flights)?;
                    pause = if has_landed { SHORTEST_PAUSE } else { pause + pause / 16 };
                    pause = pause.min(LONGEST_PAUSE);
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    // Whoever computes may have ended meanwhile, and its ends of the channels with it; then there is
    // nobody to tell, and the next command does not come.
    fn obey(
        &mut self,
        command: Command<B>,
        ends: &Ends<B>,
        aloft: &mut Aloft<B, C::Pending>,
    ) -> Result<(), TrainError> {
        if !matches!(command, Command::Gather { .. } | Command::Counts) {
            self.release(aloft)?;
        }
        match command {
            Command::Exchange(job) => match job.delivery {
                Delivery::AtOnce => {
                    let flight = self.start(job)?;
                    self.complete(flight, &ends.slots)?;
                }
                Delivery::WhenThere => aloft.flights.push(self.start(job)?),
                Delivery::AfterFigures => aloft.held = Some(self.hold(job)?),
            },
            Command::Reduce { epoch, layer, mut values } => {
                let start = self.watch.now();
                let reduced = self.comm.reduce(&mut values);
                reduced.map_err(|source| TrainError::Sum { epoch, layer, source })?;
                let when = (Purpose::Training, epoch);
                self.watch.note(Lane::Communication, Activity::Sum(layer), when, start);
                drop(ends.reduced.send(values));
            }
            Command::Gather { epoch, bytes } => {
                let gathered = self.comm.all_gather(&bytes);
                let gathered = gathered.map_err(|source| TrainError::Comm { epoch, source })?;
                drop(ends.answers.send(Answer::Gathered(gathered)));
                self.release(aloft)?;
            }
            Command::Counts => {
                let mut traffic = self.comm.take_traffic();
                if let Some(parcel) = &aloft.held {
                    parcel.count(&mut traffic);
                }
                drop(ends.answers.send(Answer::Counts(traffic, self.take_times())));
            }
            Command::TakeAverages => {
                drop(ends.answers.send(Answer::Averages(self.averages.download(self.backend))));
            }
            Command::SetAverages(averages) => self.averages.upload(self.backend, &averages),
        }
        Ok(())
    }

    /// Sends what was held back.
    fn release(&mut self, aloft: &mut Aloft<B, C::Pending>) -> Result<(), TrainError> {
        if let Some(parcel) = aloft.held.take() {
            aloft.flights.push(self.let_go(parcel)?);
        }
        Ok(())
    }

    /// Delivers the first exchange that has arrived; whether one had. Commands come before the next.
    fn land(
        &mut self,
        ends: &Ends<B>,
        flights: &mut Vec<Flight<B, C::Pending>>,
    ) -> Result<bool, TrainError> {
        for (next, flight) in flights.iter().enumerate() {
            // A slot's rows are delivered in the order in which they were sent.
            let is_next = flights[..next].iter().all(|earlier| earlier.slot() != flight.slot());
            if is_next && self.has_arrived(flight)? {
                let flight = flights.remove(next);
                self.complete(flight, &ends.slots)?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}
