//! `sylvie train --transport mpi`: one rank of the job.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use sha2::{Digest as _, Sha256};
use sylvie::comm::{Communicator as _, Mpi, MpiFault, MpiOptions, mpi_library, run_mpi};
use sylvie::pipeline::{
    End, EpochRecord, Instruments, Observer, ObserverError, RankInput, TrainOutcome, TrainSettings,
};
use sylvie::tensor::Wire;

use super::hosts::threads_of_rank;
use super::together::together;
use crate::args::TrainArgs;
use crate::clock::SystemClock;
use crate::console::{Console, complain};
use crate::devices::StagedBody;
use crate::prepared::{Prepared, Wanted, prepare};
use crate::results::{Places, Recorder};
use crate::settings::RunSettings;
use crate::stopping::Stopping;
use crate::task::Task;
use crate::train::{Basis, RankRun, console};
use crate::{devices, memory, stopping, usage};

/// Trains as one rank of a job that a launcher has started. Where a rank fails, this does not return:
/// the whole job ends.
///
/// # Errors
/// What a job of several processes cannot do; MPI cannot be started.
pub(crate) fn run(args: TrainArgs) -> Result<ExitCode> {
    ensure!(
        args.trace.is_none(),
        "--trace needs ranks that are threads of one process; leave --transport mpi out"
    );
    let options = MpiOptions { deadline: args.deadline(), ..MpiOptions::default() };
    let report = |fault: &MpiFault| complain("error", &usage::one_line(&fault.to_string()));
    Ok(run_mpi(&options, report, move |comm| train_as_rank(comm, &args))?)
}

fn train_as_rank(comm: &mut Mpi, args: &TrainArgs) -> Result<ExitCode> {
    let (rank, n_ranks) = (comm.rank(), comm.size());
    let console = if rank == 0 { console(args) } else { Console::quiet() };
    let n_threads = threads_of_rank(comm)?;
    let mut task = together(comm, || {
        let mut task = Task::new(args, Some(n_ranks as u32))?;
        ensure!(
            task.settings.exchange.link.0.is_none(),
            "--link models a network for ranks that are threads; ranks under MPI have a real one"
        );
        task.settings.threads.get_or_insert(n_threads);
        if rank == 0 {
            // Nothing is kept of it until all ranks have read their parts: one that cannot ends this process,
            // which would leave a folder behind.
            drop(Places::take(args, &task)?);
        }
        Ok(task)
    })?;
    console.line(format!("{n_ranks} ranks under {}", mpi_library()))?;
    let wanted = Wanted::Of(rank as u32);
    let (prepared, input, basis, initial) = together(comm, || {
        let initial = task.initial()?;
        let (prepared, inputs) = prepare(&mut task, wanted, console)?;
        let input = Prepared::own(inputs)?;
        let initial = initial.map(|file| file.into_weights(&prepared.model)).transpose()?;
        let basis = Basis::new(&task, (rank, n_ranks), &prepared, &input)?;
        Ok((prepared, input, basis, initial))
    })?;
    check_agreement(comm, &task, &prepared, initial.as_deref())?;
    let settings = &task.settings;
    let train_settings = settings.train_settings(prepared.model.clone(), prepared.metric, initial);
    let mut recorder = together(comm, || {
        if rank > 0 {
            return Ok(None);
        }
        let mut places = Places::take(args, &task)?;
        let opened = places.open(args, &task, console)?;
        Ok(Some(Recorder::new(console, settings.epochs, prepared.metric, opened)))
    })?;
    let place = place_of_first(comm, recorder.as_ref().and_then(Recorder::place))?;
    let stopping = Stopping::listen()?;
    let run = basis.begin(place.as_deref(), settings, &stopping)?;
    let clock = SystemClock::start();
    let mut observe = |record: &EpochRecord| -> Result<(), ObserverError> {
        let Some(recorder) = &mut recorder else { return Ok(()) };
        recorder.record(record).map_err(Into::into)
    };
    let observer: &mut dyn Observer = &mut observe;
    let instruments = Instruments::clock(&clock);
    let body = Body { run, comm, input, settings: &train_settings, instruments, observer };
    let outcome = devices::on_device(&args.device, rank, settings.n_threads(), body)?;
    let (peak, signal) = facts(comm, &stopping)?;
    match (&recorder, outcome.end) {
        (Some(recorder), _) => recorder.conclude((settings, &prepared), &outcome, (peak, signal)),
        (None, End::Stopped) => Ok(ExitCode::from(stopping::status(signal))),
        (None, _) => Ok(ExitCode::SUCCESS),
    }
}

/// What this rank trains with, but for its machine.
struct Body<'a> {
    run: RankRun<'a>,
    comm: &'a mut Mpi,
    input: RankInput,
    settings: &'a TrainSettings,
    instruments: Instruments<'a>,
    observer: &'a mut dyn Observer,
}

impl StagedBody<TrainOutcome> for Body<'_> {
    fn run<B: Wire<Bytes = Vec<u8>>>(self, backend: &B) -> Result<TrainOutcome> {
        let Self { run, comm, input, settings, instruments, observer } = self;
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

/// The path that rank 0 has, on every rank.
fn place_of_first(comm: &mut Mpi, place: Option<&Path>) -> Result<Option<PathBuf>> {
    // Paths of a command line in other words than UTF-8 cannot be told to others.
    let place = place.map(|place| place.to_str().context("--out: no text in UTF-8"));
    let own = place.transpose()?.map(|place| format!("/{place}")).unwrap_or_default();
    let all = comm.all_gather(own.as_bytes())?;
    let first = String::from_utf8_lossy(&all[0]);
    Ok(first.strip_prefix('/').map(PathBuf::from))
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
