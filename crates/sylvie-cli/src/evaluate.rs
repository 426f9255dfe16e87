//! `sylvie evaluate`, and what it shares with `sylvie predict`.

use anyhow::{Context as _, Result, ensure};
use indicatif::ProgressBar;
use serde::Serialize;
use sylvie::comm::Communicator as _;
use sylvie::data::shown;
use sylvie::gnn::{Metric, ModelConfig};
use sylvie::partition::PartitionFolder;
use sylvie::pipeline::{Instruments, PartData, evaluate};

use crate::args::{EvaluateArgs, TrainedArgs};
use crate::clock::SystemClock;
use crate::console::{Console, score};
use crate::flags::{DataFlags, RunFlags};
use crate::metrics::{ScoreLine, score_warning};
use crate::model_file::{LabelKind, ModelFile};
use crate::partitioned::Given;
use crate::ranks::RankOptions;
use crate::run_folder::{MODEL, SETTINGS};
use crate::settings::RunSettings;
use crate::{config, load, partitioned, ranks, without_effect};

/// A trained network, and a graph to use it on.
pub(crate) struct Trained {
    pub(crate) settings: RunSettings,
    pub(crate) model: ModelConfig,
    pub(crate) weights: Vec<Vec<f32>>,
    pub(crate) metric: Metric,
    pub(crate) parts: Vec<PartData>,
}

impl Trained {
    /// Reads a run folder and the graph, and splits the graph.
    ///
    /// # Errors
    /// A run folder that is not whole, a graph that cannot be read, or two that do not fit.
    pub(crate) fn load(args: TrainedArgs, console: Console) -> Result<Self> {
        let run = args.run.clone();
        let model = run.join(MODEL);
        ensure!(
            model.exists() || !run.join(SETTINGS).exists(),
            "{}: no model yet, for the run is not over; `train --resume {}` goes on where it has checkpoints",
            shown(&model),
            shown(&run)
        );
        let file = ModelFile::read(&model)?;
        let is_its_own = args.data.is_none();
        let (settings, partition) = settings(args)?;
        if let Some(folder) = partition {
            return Self::on_parts(settings, &folder, file, console);
        }
        let dataset = load::read(&settings, console);
        let dataset = match dataset {
            Err(error) if is_its_own => {
                return Err(error.context("the run's own graph (--data gives another)"));
            }
            other => other?,
        };
        let model = load::model(&settings, dataset.features.n_cols(), &dataset.labels)?;
        file.check(&model, LabelKind::of(&dataset.labels), &settings.shown_data())?;
        let weights = file.into_weights(&model)?;
        let metric = load::metric(&settings, &dataset.labels)?;
        let assignment = load::assign(&settings, &dataset, console)?;
        let parts = load::whole_parts(&dataset, &assignment);
        Ok(Self { settings, model, weights, metric, parts })
    }

    /// The same on the parts of a partition folder.
    fn on_parts(
        settings: RunSettings,
        folder: &PartitionFolder,
        file: ModelFile,
        console: Console,
    ) -> Result<Self> {
        let manifest = folder.manifest();
        let parts = partitioned::read_all(folder, console)?;
        let labels = partitioned::labels(&parts)?;
        let model = load::model(&settings, manifest.n_features, labels)?;
        file.check(&model, LabelKind::of(labels), &settings.shown_data())?;
        let weights = file.into_weights(&model)?;
        let metric = load::metric(&settings, labels)?;
        let parts = parts.into_iter().map(|part| partitioned::whole_part(part, manifest.directed));
        Ok(Self { settings, model, weights, metric, parts: parts.collect() })
    }
}

/// The run's settings, but for what is given, and the partition folder where they name one.
fn settings(args: TrainedArgs) -> Result<(RunSettings, Option<PartitionFolder>)> {
    let mut settings = RunSettings::default();
    let of_run = config::read(&args.run.join(SETTINGS))?;
    let mut given = Given::default();
    let is_its_own = args.data.is_none() && args.partition.is_none();
    if is_its_own {
        // What is at the run's path by now must be what it was trained on.
        given.note(&of_run);
    }
    settings.apply(of_run);
    if args.data.is_some() || args.partition.is_some() {
        settings.partition = args.partition;
    }
    let data = DataFlags {
        format: args.format,
        split_seed: args.split_seed,
        split_index: args.split_index,
        ..DataFlags::default()
    };
    given.note(&RunFlags { data: data.clone(), parts: args.parts, ..RunFlags::default() });
    if let Some(path) = args.data
        && path != settings.data
    {
        // Another graph may be of another format.
        settings.data = path;
        settings.format = None;
    }
    settings.format = args.format.or(settings.format);
    settings.split_seed = args.split_seed.unwrap_or(settings.split_seed);
    settings.split_index = args.split_index.unwrap_or(settings.split_index);
    settings.parts = args.parts.unwrap_or(settings.parts);
    settings.threads = args.threads;
    let folder = partitioned::open(&mut settings, &given);
    let folder = match folder {
        Err(error) if is_its_own => {
            return Err(error.context("the run's own partition (--partition gives another)"));
        }
        other => other?,
    };
    settings.check().context("the run's settings")?;
    without_effect::check_split(&data, &settings)?;
    Ok((settings, folder))
}

/// Scores a trained network.
///
/// # Errors
/// As [`Trained::load`]; values that are not finite.
pub(crate) fn run(args: EvaluateArgs) -> Result<()> {
    let console = Console::json_if(args.json);
    let run = args.trained.run.clone();
    let trained = Trained::load(args.trained, console)?;
    let Trained { settings, model, weights, metric, parts } = &trained;
    let clock = SystemClock::start();
    let scores = console.during("evaluating", || {
        ranks::run(RankOptions::new(parts.len(), settings.n_threads()), |backend, comm| {
            let data = &parts[comm.rank()];
            evaluate(backend, comm, (model, weights), data, *metric, Instruments::clock(&clock))
        })
    })?;
    let scores = scores.first().copied().context("a run has at least one rank")?;
    let line = EvaluationLine { metric: metric.to_string(), scores: scores.into() };
    if let Some(warning) = score_warning(*metric, &scores) {
        console.warn(&ProgressBar::hidden(), &warning);
    }
    console.json(&line)?;
    let [train, val, test] = [scores.train, scores.val, scores.test].map(score);
    console.line(format!(
        "{metric} of {} on {}\ntrain       {train}\nvalidation  {val}\ntest        {test}",
        shown(&run),
        settings.shown_data()
    ))
}

/// Scores as JSON.
#[derive(Debug, Serialize)]
struct EvaluationLine {
    metric: String,
    #[serde(flatten)]
    scores: ScoreLine,
}
