//! `sylvie train`.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use indicatif::ProgressBar;
use sylvie::data::shown;
use sylvie::gnn::{Metric, ModelConfig};
use sylvie::graph::{Dataset, Role};
use sylvie::partition::{PartitionFolder, Quality};
use sylvie::pipeline::{
    EpochRecord, Instruments, Observer, ObserverError, RankInput, Tracer, TrainOutcome,
    TrainSettings, train,
};

use crate::args::TrainArgs;
use crate::clock::SystemClock;
use crate::console::{Console, Mode, score};
use crate::flags::RunFlags;
use crate::load;
use crate::metrics::{EpochLine, score_warning};
use crate::model_file::{self, LabelKind, ModelFile};
use crate::partitioned::Given;
use crate::run_folder::{OpenFolder, RunFolder};
use crate::settings::RunSettings;
use crate::summary::{EpochFigures, Summary};
use crate::trace::{Spans, TraceFile};
use crate::{aside, config, partitioned, ranks};

/// Trains a network and leaves a run folder where one is asked for.
///
/// # Errors
/// Settings, files or data that cannot be used; whatever ends the training early.
pub(crate) fn run(args: TrainArgs) -> Result<()> {
    let console = if args.quiet { Console::quiet() } else { Console::json_if(args.json) };
    let (mut settings, partition) = settings(args.config.as_deref(), args.flags)?;
    let folder =
        args.out.as_deref().map(|path| RunFolder::prepare(path, args.overwrite, &settings));
    let folder = folder.transpose()?;
    let inputs = [args.config.as_deref(), settings.init.as_deref().map(Path::new)];
    let inputs: Vec<&Path> =
        inputs.into_iter().flatten().chain([Path::new(&settings.data)]).collect();
    let trace = args.trace.as_deref().map(|path| trace_at(path, folder.as_ref(), &inputs));
    let trace = trace.transpose()?;
    let initial = settings.init.as_ref().map(|path| ModelFile::read(Path::new(path)));
    let initial = initial.transpose()?;

    let prepared = match partition {
        Some(folder) => prepare_parts(&mut settings, &folder, console)?,
        None => prepare(&mut settings, console)?,
    };
    let initial = initial.map(|file| file.into_weights(&prepared.model)).transpose()?;
    let Prepared { model, labels, metric, inputs, quality } = prepared;
    let train_settings = settings.train_settings(model.clone(), metric, initial);
    let folder = folder.map(|folder| folder.begin(&settings)).transpose()?;
    if let Some(place) = folder.as_ref().and_then(OpenFolder::place_until_the_end) {
        console
            .line(format!("the old run is replaced at the end; until then see {}", shown(place)))?;
    }
    let recorder = Recorder::new(console, settings.epochs, metric, folder);
    let spans = trace.is_some().then(|| Spans::new(inputs.len()));
    let trained = train_ranks(&inputs, &train_settings, &settings, spans.as_ref(), recorder);
    let traced = trace.zip(spans).map(|(file, spans)| file.write(&spans)).transpose();
    let (outcome, recorder) = match (trained, &traced) {
        (Err(failure), Err(error)) => {
            // What ended the run is the error.
            console.warn(&ProgressBar::hidden(), &format!("{error:#}"));
            return Err(failure);
        }
        (trained, _) => trained?,
    };
    recorder.bar.finish_and_clear();
    let summary = Summary::new(metric, &outcome, &recorder.figures, &quality);
    if let Some(folder) = &recorder.folder {
        folder.finish(&summary, &model_file::to_bytes(&model, labels, &outcome.weights)?)?;
    }
    console.json(&summary)?;
    console.line(summary.to_text(&settings, recorder.folder.as_ref().map(OpenFolder::path)))?;
    match traced? {
        Some(path) => console.line(format!("trace in {}", shown(&path))),
        None => Ok(()),
    }
}

/// The settings of the run, and the partition folder where they name one.
///
/// # Errors
/// Settings that cannot be, alone or together, or that are not those of the folder.
fn settings(
    config: Option<&Path>,
    flags: RunFlags,
) -> Result<(RunSettings, Option<PartitionFolder>)> {
    let mut settings = RunSettings::default();
    let mut given = Given::default();
    for flags in [config.map(config::read).transpose()?, Some(flags)].into_iter().flatten() {
        given.note(&flags);
        settings.apply(flags);
    }
    let folder = partitioned::open(&mut settings, &given)?;
    settings.check()?;
    Ok((settings, folder))
}

/// Where the trace goes, which takes the place of no file that the run reads or writes.
fn trace_at(path: &Path, folder: Option<&RunFolder>, inputs: &[&Path]) -> Result<TraceFile> {
    let is_taken = folder.is_some_and(|folder| folder.is_own(path))
        || inputs.iter().any(|input| aside::is_same(path, input));
    ensure!(!is_taken, "{}: is a file of the run; take another name for --trace", shown(path));
    TraceFile::at(path)
}

/// A graph that is ready to be trained on.
struct Prepared {
    model: ModelConfig,
    labels: LabelKind,
    metric: Metric,
    inputs: Vec<RankInput>,
    quality: Quality,
}

/// Reads and splits the graph, and settles what could not be settled without it. Only the parts are
/// kept.
fn prepare(settings: &mut RunSettings, console: Console) -> Result<Prepared> {
    let dataset = load::read(settings, console)?;
    console.line(describe(&dataset))?;
    let metric = load::metric(settings, &dataset.labels)?;
    settings.metric = Some(metric);
    settings.threads = Some(settings.n_threads());
    let model = load::model(settings, dataset.features.n_cols(), &dataset.labels)?;
    let assignment = load::assign(settings, &dataset, console)?;
    let (inputs, quality) = load::rank_inputs(settings, &dataset, &assignment);
    show_quality(settings, &quality, console)?;
    let labels = LabelKind::of(&dataset.labels);
    Ok(Prepared { model, labels, metric, inputs, quality })
}

/// Reads the parts of a partition folder, and settles what could not be settled without them.
fn prepare_parts(
    settings: &mut RunSettings,
    folder: &PartitionFolder,
    console: Console,
) -> Result<Prepared> {
    let manifest = folder.manifest();
    console.line(partitioned::describe(manifest))?;
    let parts = partitioned::read_all(folder, console)?;
    let labels = partitioned::labels(&parts)?;
    let metric = load::metric(settings, labels)?;
    settings.metric = Some(metric);
    settings.threads = Some(settings.n_threads());
    let model = load::model(settings, manifest.n_features, labels)?;
    let labels = LabelKind::of(labels);
    let quality = manifest.trained_quality().clone();
    show_quality(settings, &quality, console)?;
    let inputs = parts.into_iter().map(|part| partitioned::rank_input(part, manifest.directed));
    Ok(Prepared { model, labels, metric, inputs: inputs.collect(), quality })
}

/// What the parts cost, in a line.
fn show_quality(settings: &RunSettings, quality: &Quality, console: Console) -> Result<()> {
    if quality.n_parts == 1 {
        return Ok(());
    }
    console.line(format!(
        "{} parts ({}): {} directed edges between parts, {} halo rows",
        quality.n_parts, settings.partitioner, quality.cut_edges, quality.communication_volume
    ))
}

/// A graph in one line.
fn describe(dataset: &Dataset) -> String {
    let count = |role| dataset.split.count(role);
    let (n_features, n_classes) = (dataset.features.n_cols(), dataset.labels.n_classes() as usize);
    load::description(
        &dataset.name,
        [dataset.n_nodes(), dataset.graph.n_edges(), n_features, n_classes],
        [Role::Train, Role::Val, Role::Test].map(count),
    )
}

/// Trains on one rank an input; rank 0 tells `recorder` of each epoch, all of them tell `spans` of every
/// step.
fn train_ranks(
    inputs: &[RankInput],
    train_settings: &TrainSettings,
    settings: &RunSettings,
    spans: Option<&Spans>,
    recorder: Recorder,
) -> Result<(TrainOutcome, Recorder)> {
    let clock = SystemClock::start();
    let tracer = spans.map(|spans| spans as &dyn Tracer);
    let instruments = Instruments { clock: &clock, tracer };
    let recorder = Mutex::new(recorder);
    let link = settings.exchange.link.0;
    let outcomes = ranks::run_over(link, inputs.len(), settings.n_threads(), |backend, comm| {
        let rank = sylvie::comm::Communicator::rank(comm);
        let mut first = |record: &EpochRecord| -> Result<(), ObserverError> {
            let mut recorder = recorder.lock().unwrap_or_else(PoisonError::into_inner);
            recorder.record(record).map_err(Into::into)
        };
        let mut others = |_: &EpochRecord| -> Result<(), ObserverError> { Ok(()) };
        let observer: &mut dyn Observer = if rank == 0 { &mut first } else { &mut others };
        train(backend, comm, &inputs[rank], train_settings, instruments, observer)
    })?;
    let outcome = outcomes.into_iter().next().context("a run has at least one rank")?;
    Ok((outcome, recorder.into_inner().unwrap_or_else(PoisonError::into_inner)))
}

/// Whoever is told of each epoch.
struct Recorder {
    console: Console,
    bar: ProgressBar,
    metric: Metric,
    has_warned: bool,
    folder: Option<OpenFolder>,
    figures: EpochFigures,
}

impl Recorder {
    fn new(console: Console, n_epochs: u32, metric: Metric, folder: Option<OpenFolder>) -> Self {
        let (bar, figures) = (console.bar(n_epochs), EpochFigures::default());
        Self { console, bar, metric, has_warned: false, folder, figures }
    }

    fn record(&mut self, record: &EpochRecord) -> Result<()> {
        self.figures.push(record);
        let line = EpochLine::from(record);
        if let Some(folder) = &mut self.folder {
            folder.epoch(&line)?;
        }
        self.console.json(&line)?;
        self.bar.inc(1);
        let Some(scores) = record.scores else { return Ok(()) };
        if let (false, Some(warning)) = (self.has_warned, score_warning(self.metric, &scores)) {
            self.has_warned = true;
            self.console.warn(&self.bar, &format!("epoch {}: {warning}", record.epoch));
        }
        let [train, val, test] = [scores.train, scores.val, scores.test].map(score);
        let text = format!("loss {:.4}, validation {val}", record.loss);
        self.bar.set_message(text);
        if self.console.mode() == Mode::Lines {
            self.console.line(format!(
                "epoch {}: loss {:.4}, train {train}, validation {val}, test {test}, {:.1} ms",
                record.epoch, record.loss, record.epoch_ms
            ))?;
        }
        Ok(())
    }
}
