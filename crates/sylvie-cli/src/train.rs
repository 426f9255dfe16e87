//! `sylvie train`.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};
use indicatif::ProgressBar;
use sylvie::comm::Communicator;
use sylvie::data::shown;
use sylvie::pipeline::{
    CheckpointSink, Checkpoints, EpochRecord, Instruments, Observer, ObserverError, RankInput,
    RankState, Tracer, TrainError, TrainOutcome, TrainSettings, train_with_checkpoints,
};
use sylvie::tensor::Wire;

use crate::args::TrainArgs;
use crate::checkpoint::CheckpointFolder;
use crate::clock::SystemClock;
use crate::console::Console;
use crate::devices::RankBody;
use crate::launcher::{self, Started};
use crate::prepared::{Prepared, Wanted, prepare};
use crate::ranks::RankOptions;
use crate::results::{Places, Recorder};
use crate::settings::RunSettings;
use crate::stopping::Stopping;
use crate::task::Task;
use crate::trace::Spans;
use crate::{devices, fingerprint, memory, processes, usage};

/// Trains a network and leaves a run folder where one is asked for.
///
/// # Errors
/// Settings, files or data that cannot be used; whatever ends the training early.
pub(crate) fn run(args: TrainArgs) -> Result<ExitCode> {
    if args.is_of_processes() {
        return processes::run(args);
    }
    if let (None, Some(started)) = (args.transport, launcher::started()) {
        return unsaid(started);
    }
    on_threads(&args)
}

/// Refuses to be one of several processes of which nobody says whether they are one run.
///
/// # Errors
/// Always, on the first of them; the others end without a word.
fn unsaid(Started { number, n_processes }: Started) -> Result<ExitCode> {
    if number > 0 {
        return Ok(ExitCode::FAILURE);
    }
    bail!(
        "a launcher has started {n_processes} processes, and each would train the whole run on threads of its own; \
         --transport mpi makes them the ranks of one run, --transport threads as many runs beside each other"
    )
}

/// How a command tells what it is doing.
pub(crate) fn console(args: &TrainArgs) -> Console {
    if args.quiet { Console::quiet() } else { Console::json_if(args.json) }
}

fn on_threads(args: &TrainArgs) -> Result<ExitCode> {
    let console = console(args);
    let mut task = Task::new(args, None)?;
    let mut places = Places::take(args, &task)?;
    let initial = task.initial()?;
    let (prepared, inputs) = prepare(&mut task, Wanted::All, console)?;
    let Prepared { model, metric, .. } = &prepared;
    let initial = initial.map(|file| file.into_weights(model)).transpose()?;
    let train_settings = task.settings.train_settings(model.clone(), *metric, initial);
    let mut bases = Vec::with_capacity(inputs.len());
    for (rank, input) in inputs.iter().enumerate() {
        let basis = Basis::new(&task, (rank, inputs.len()), &prepared, input)?;
        bases.push(Mutex::new(Some(basis)));
    }
    let opened = places.open(args, &task, console)?;
    let recorder = Recorder::new(console, task.settings.epochs, *metric, opened);
    let spans = places.trace.is_some().then(|| Spans::new(inputs.len()));
    let stopping = Stopping::listen().context("signals")?;
    let trained = train_ranks(
        (inputs, bases),
        &train_settings,
        (&task.settings, args),
        (spans.as_ref(), &stopping),
        recorder,
    );
    let traced = places.trace.zip(spans).map(|(file, spans)| file.write(&spans)).transpose();
    let (outcome, recorder) = match (trained, &traced) {
        (Err(failure), Err(error)) => {
            // What ended the run is the error.
            console.warn(&ProgressBar::hidden(), &usage::causes(error));
            return Err(failure);
        }
        (trained, _) => trained?,
    };
    let facts = (memory::peak_rss_mb(), stopping.signal());
    let status = recorder.conclude((&task.settings, &prepared), &outcome, facts)?;
    if let Some(path) = traced? {
        console.line(format!("trace in {}", shown(&path)))?;
    }
    Ok(status)
}

/// Trains on one rank an input; rank 0 tells `recorder` of each epoch, all of them tell `spans` of every
/// step.
fn train_ranks(
    (inputs, bases): (Vec<RankInput>, Vec<Mutex<Option<Basis>>>),
    train_settings: &TrainSettings,
    (settings, args): (&RunSettings, &TrainArgs),
    (spans, stopping): (Option<&Spans>, &Stopping),
    recorder: Recorder,
) -> Result<(TrainOutcome, Recorder)> {
    let clock = SystemClock::start();
    let tracer = spans.map(|spans| spans as &dyn Tracer);
    let instruments = Instruments { clock: &clock, tracer };
    let place = recorder.place().map(ToOwned::to_owned);
    let recorder = Mutex::new(recorder);
    let options = RankOptions {
        n_ranks: inputs.len(),
        n_threads: settings.n_threads(),
        link: settings.exchange.link.0,
        deadline: args.deadline(),
    };
    let place = place.as_deref();
    // A rank takes its own, so that it can free what it does not need any more.
    let inputs = inputs.into_iter().map(|input| Mutex::new(Some(input))).collect();
    let body =
        Body { inputs, bases, train_settings, settings, instruments, stopping, place, recorder };
    let outcomes = devices::run(options, (&args.device, args.transport()), &body)?;
    let outcome = outcomes.into_iter().next().context("a run has at least one rank")?;
    Ok((outcome, body.recorder.into_inner().unwrap_or_else(PoisonError::into_inner)))
}

/// What every rank trains with.
struct Body<'a> {
    /// One a rank, taken once.
    inputs: Vec<Mutex<Option<RankInput>>>,
    /// One a rank, taken once.
    bases: Vec<Mutex<Option<Basis>>>,
    train_settings: &'a TrainSettings,
    settings: &'a RunSettings,
    instruments: Instruments<'a>,
    stopping: &'a Stopping,
    place: Option<&'a Path>,
    recorder: Mutex<Recorder>,
}

impl RankBody<TrainOutcome> for Body<'_> {
    fn run<B: Wire, C: Communicator<Buffer = B::Bytes>>(
        &self,
        backend: &B,
        comm: &mut C,
    ) -> Result<TrainOutcome> {
        let rank = comm.rank();
        let basis = take(&self.bases[rank]).context("a rank begins once")?;
        let input = take(&self.inputs[rank]).context("a rank begins once")?;
        let mut first = |record: &EpochRecord| -> Result<(), ObserverError> {
            let mut recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
            recorder.record(record).map_err(Into::into)
        };
        let mut others = |_: &EpochRecord| -> Result<(), ObserverError> { Ok(()) };
        let observer: &mut dyn Observer = if rank == 0 { &mut first } else { &mut others };
        let run = basis.begin(self.place, self.settings, self.stopping)?;
        let settings = self.train_settings;
        Ok(run.train((backend, comm), input, settings, self.instruments, observer)?)
    }
}

fn take<T>(place: &Mutex<Option<T>>) -> Option<T> {
    place.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// What one rank begins with.
#[derive(Debug)]
pub(crate) struct Basis {
    rank: usize,
    n_ranks: usize,
    model: sylvie::gnn::ModelConfig,
    machine: &'static str,
    /// Sum of the rank's data.
    data: String,
    state: Option<RankState>,
}

impl Basis {
    /// Reads the rank's state, where the run goes on from a checkpoint.
    ///
    /// # Errors
    /// A checkpoint that is damaged or of other data.
    pub(crate) fn new(
        task: &Task,
        (rank, n_ranks): (usize, usize),
        prepared: &Prepared,
        input: &RankInput,
    ) -> Result<Self> {
        let data = fingerprint::of(input);
        let model = prepared.model.clone();
        let state = task.resume.as_ref().map(|from| from.state(rank, &model, &data));
        let machine = task.machine;
        Ok(Self { rank, n_ranks, model, machine, data, state: state.transpose()? })
    }

    /// A run whose folder, where it has one, is at `place`.
    ///
    /// # Errors
    /// None that is known of: settings have a form in TOML.
    pub(crate) fn begin<'a>(
        self,
        place: Option<&Path>,
        settings: &RunSettings,
        stopping: &'a Stopping,
    ) -> Result<RankRun<'a>> {
        let Self { rank, n_ranks, model, machine, data, state } = self;
        let sink = match place {
            None => None,
            Some(place) => {
                let ranks = (rank, n_ranks);
                Some(CheckpointFolder::new(place, (settings, machine), ranks, &model, data)?)
            }
        };
        let every = (settings.checkpoint_every > 0).then_some(settings.checkpoint_every);
        Ok(RankRun { state, sink, every, stopping })
    }
}

/// One rank's run, ready to begin.
#[derive(Debug)]
pub(crate) struct RankRun<'a> {
    state: Option<RankState>,
    sink: Option<CheckpointFolder>,
    every: Option<u32>,
    stopping: &'a Stopping,
}

impl RankRun<'_> {
    /// Trains.
    ///
    /// # Errors
    /// Whatever ends the training early.
    pub(crate) fn train<B: Wire, C: Communicator<Buffer = B::Bytes>>(
        mut self,
        (backend, comm): (&B, &mut C),
        input: RankInput,
        settings: &TrainSettings,
        instruments: Instruments<'_>,
        observer: &mut dyn Observer,
    ) -> Result<TrainOutcome, TrainError> {
        let checkpoints = Checkpoints {
            resume: self.state.take(),
            sink: self.sink.as_mut().map(|sink| sink as &mut dyn CheckpointSink),
            every: self.every,
            stop: Some(self.stopping.flag()),
        };
        train_with_checkpoints(backend, comm, input, settings, instruments, observer, checkpoints)
    }
}
