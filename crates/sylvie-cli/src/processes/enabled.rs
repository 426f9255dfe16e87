//! `sylvie train --transport mpi`, or nccl under a launcher: one rank of the job.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use indicatif::ProgressBar;
use sha2::{Digest as _, Sha256};
use sylvie::comm::{Communicator, Mpi, MpiFault, MpiOptions, mpi_library, run_mpi};
use sylvie::data::shown;
use sylvie::pipeline::{
    End, EpochRecord, Instruments, Observer, ObserverError, RankInput, Tracer, TrainOutcome,
    TrainSettings,
};
use sylvie::tensor::Wire;

use super::hosts::{self, Seat};
use super::together::together;
use super::{shared, traces};
use crate::args::TrainArgs;
use crate::clock::SystemClock;
use crate::console::{Console, complain, counted};
use crate::devices::{Opened, ProcessBody};
use crate::launcher::{self, Started};
use crate::prepared::{Prepared, Wanted, prepare};
use crate::results::{Places, Recorder};
use crate::settings::RunSettings;
use crate::stopping::Stopping;
use crate::task::Task;
use crate::trace::Spans;
use crate::train::{Basis, RankRun, console};
use crate::{memory, stopping, usage};

/// Trains as one rank of a job that a launcher has started. Where a rank fails, this does not return:
/// the whole job ends.
///
/// # Errors
/// MPI cannot be started.
pub(crate) fn run(args: TrainArgs) -> Result<ExitCode> {
    let options = MpiOptions { deadline: args.deadline(), ..MpiOptions::default() };
    let report = |fault: &MpiFault| complain("error", &usage::one_line(&fault.to_string()));
    let body = move |comm: &mut Mpi| train_as_rank(comm, &args).map_err(|e| usage::causes(&e));
    Ok(run_mpi(&options, report, body)?)
}

/// What a rank has before the job begins to train.
struct Ready {
    task: Task,
    prepared: Prepared,
    input: RankInput,
    basis: Basis,
    machine: Opened,
    settings: TrainSettings,
}

/// Settles, reads and opens everything, together with the other ranks.
fn ready(comm: &mut Mpi, args: &TrainArgs, console: Console) -> Result<Ready> {
    let (rank, n_ranks) = (comm.rank(), comm.size());
    if let (1, Some(Started { n_processes, .. })) = (n_ranks, launcher::started()) {
        bail!(
            "{n_processes} processes were started, and each is alone under {}: the launcher is not that of the MPI \
             that the program was built with (docs/cluster.md)",
            mpi_library()
        );
    }
    let seat = Seat::find(comm)?;
    let mut task = together(comm, || {
        let mut task = Task::new(args, Some(n_ranks as u32))?;
        ensure!(
            task.settings.exchange.link.0.is_none(),
            "--link models a network for ranks that are threads; ranks under MPI have a real one"
        );
        task.settings.threads.get_or_insert(seat.n_threads);
        if rank == 0 {
            // Nothing is kept of it until all ranks have read their parts: one that cannot ends this process,
            // which would leave a folder behind.
            drop(Places::take(args, &task)?);
        }
        Ok(task)
    })?;
    let ranks = counted(n_ranks as u64, "rank");
    console.line(format!("{ranks} under {}", mpi_library()))?;
    let wanted = Wanted::Of(rank as u32);
    let (prepared, input, basis, initial, machine) = together(comm, || {
        let initial = task.initial()?;
        let (prepared, inputs) = prepare(&mut task, wanted, console)?;
        let input = Prepared::own(inputs)?;
        let initial = initial.map(|file| file.into_weights(&prepared.model)).transpose()?;
        let basis = Basis::new(&task, (rank, n_ranks), &prepared, &input)?;
        let kind = (&args.device, args.transport());
        let machine = Opened::new(kind, seat.number, task.settings.n_threads())?;
        Ok((prepared, input, basis, initial, machine))
    })?;
    check_agreement(comm, &task, &prepared, initial.as_deref())?;
    check_own_devices(comm, machine.own_device())?;
    let settings = task.settings.train_settings(prepared.model.clone(), prepared.metric, initial);
    Ok(Ready { task, prepared, input, basis, machine, settings })
}

fn train_as_rank(comm: &mut Mpi, args: &TrainArgs) -> Result<ExitCode> {
    let (rank, n_ranks) = (comm.rank(), comm.size());
    let console = if rank == 0 { console(args) } else { Console::quiet() };
    let Ready { task, prepared, input, basis, machine, settings: train_settings } =
        ready(comm, args, console)?;
    let settings = &task.settings;
    let first = together(comm, || (rank == 0).then(|| Places::take(args, &task)).transpose())?;
    let (place, places) = share(comm, (args, settings.checkpoint_every), first, console)?;
    let mut results = together(comm, || {
        let Some(mut places) = places else { return Ok(None) };
        let opened = places.open(args, &task, console)?;
        let recorder = Recorder::new(console, settings.epochs, prepared.metric, opened);
        Ok(Some((recorder, places.trace)))
    })?;
    let stopping = Stopping::listen()?;
    let run = basis.begin(place.as_deref(), settings, &stopping)?;
    let spans = args.trace.is_some().then(|| Spans::new(n_ranks));
    if spans.is_some() {
        // So that times of all ranks count from one moment.
        comm.barrier()?;
    }
    let clock = SystemClock::start();
    let mut observe = |record: &EpochRecord| -> Result<(), ObserverError> {
        let Some((recorder, _)) = &mut results else { return Ok(()) };
        recorder.record(record).map_err(Into::into)
    };
    let observer: &mut dyn Observer = &mut observe;
    let tracer = spans.as_ref().map(|spans| spans as &dyn Tracer);
    let instruments = Instruments { clock: &clock, tracer };
    let body = Body { run, input, settings: &train_settings, instruments, observer };
    let outcome = machine.run(comm, args.deadline(), body)?;
    let facts = facts(comm, &stopping)?;
    let status = match (&results, outcome.end) {
        (Some((recorder, _)), _) => recorder.conclude((settings, &prepared), &outcome, facts)?,
        (None, End::Stopped) => ExitCode::from(stopping::status(facts.1)),
        (None, _) => ExitCode::SUCCESS,
    };
    // After the model is written, which must not be lost with a trace that cannot be gathered.
    let traced = match &spans {
        Some(spans) => traces::gather(comm, spans.lines_of(rank)?)?,
        None => Vec::new(),
    };
    if let Some((_, Some(file))) = results {
        console.line(format!("trace in {}", shown(&file.write_lines(&traced)?)))?;
    }
    Ok(status)
}

/// Has all ranks look for the run folder that rank 0 has taken; gives its path, and gives rank 0 back what it
/// has.
fn share(
    comm: &mut Mpi,
    (args, checkpoint_every): (&TrainArgs, u32),
    places: Option<Places>,
    console: Console,
) -> Result<(Option<PathBuf>, Option<Places>)> {
    let own = places.as_ref().and_then(|places| places.run_folder(args));
    let Some(folder) = shared::find(comm, own)? else { return Ok((None, places)) };
    if let (Some(other), true) = (folder.missing.first(), comm.rank() == 0) {
        let what = format!(
            "{}: rank {other} does not find this folder there; all hosts must share the run folder",
            shown(&folder.path)
        );
        // Without the folder that was made in vain: the other ranks are ended with this one.
        ensure!(checkpoint_every == 0, "{what} to write checkpoints");
        console.warn(&ProgressBar::hidden(), &format!("{what}, or a signal leaves no checkpoint"));
    }
    Ok((Some(folder.path), places))
}

/// Checks that every rank has a device of its own, where it needs one: NCCL would say it in other words.
fn check_own_devices(comm: &mut Mpi, device: Option<usize>) -> Result<()> {
    let Some(device) = device else { return Ok(()) };
    // Devices are counted among those that a process sees.
    let visible = env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
    let all = comm.all_gather(format!("{} {device} of {visible}", hosts::host()).as_bytes())?;
    for (rank, own) in all.iter().enumerate() {
        let Some(other) = all[..rank].iter().position(|other| other == own) else { continue };
        if comm.rank() > 0 {
            // Rank 0 says it, and ends this process too.
            comm.all_gather(&[])?;
        }
        bail!(
            "--transport nccl needs a device of its own for each rank, and ranks {other} and {rank} have the \
             same; start fewer on a host, or take --transport mpi, with which ranks share devices"
        );
    }
    Ok(())
}

/// What this rank trains with, but for its machine.
struct Body<'a> {
    run: RankRun<'a>,
    input: RankInput,
    settings: &'a TrainSettings,
    instruments: Instruments<'a>,
    observer: &'a mut dyn Observer,
}

impl ProcessBody<TrainOutcome> for Body<'_> {
    fn run<B: Wire, C: Communicator<Buffer = B::Bytes>>(
        self,
        backend: &B,
        comm: &mut C,
    ) -> Result<TrainOutcome> {
        let Self { run, input, settings, instruments, observer } = self;
        Ok(run.train((backend, comm), input, settings, instruments, observer)?)
    }
}

/// Checks that all ranks train the same network on parts of the same graph.
fn check_agreement(
    comm: &mut Mpi,
    task: &Task,
    prepared: &Prepared,
    initial: Option<&[Vec<f32>]>,
) -> Result<()> {
    // Hosts may differ in their cores and in where they have the data.
    let settings = RunSettings { threads: None, ..task.settings.clone() };
    let mut sum = Sha256::new();
    for text in [&settings.to_toml()?, &prepared.identity, &task.n_done().to_string()] {
        sum.update(Sha256::digest(text.as_bytes()));
    }
    for value in initial.into_iter().flatten().flatten() {
        sum.update(value.to_le_bytes());
    }
    let all = comm.all_gather(&sum.finalize())?;
    match all.iter().position(|other| *other != all[0]) {
        None => Ok(()),
        Some(other) if comm.rank() == 0 => bail!(
            "rank {other} has other settings or another graph than rank 0; every rank must be given the \
             same command, and find the same files"
        ),
        // Rank 0 has said it, and ends this process too.
        Some(_) => Ok(comm.all_gather(&[]).map(drop)?),
    }
}

/// The largest process, and the signal that stopped the job.
fn facts(comm: &mut Mpi, stopping: &Stopping) -> Result<(Option<f64>, u8)> {
    let own = memory::peak_rss_mb().unwrap_or(f64::NAN).to_le_bytes();
    let mut bytes = own.to_vec();
    bytes.push(stopping.signal());
    let all = comm.all_gather(&bytes)?;
    let peaks = all.iter().filter_map(|bytes| bytes.first_chunk().copied());
    let peak = peaks.map(f64::from_le_bytes).fold(f64::NAN, f64::max);
    let signal = all.iter().filter_map(|bytes| bytes.last().copied()).max();
    Ok(((!peak.is_nan()).then_some(peak), signal.unwrap_or(0)))
}
