//! Where a run's results go while it goes on, and at its end.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use indicatif::ProgressBar;
use sylvie::data::shown;
use sylvie::gnn::Metric;
use sylvie::pipeline::{End, EpochRecord, TrainOutcome};

use crate::args::TrainArgs;
use crate::aside;
use crate::console::{Console, Mode, counted, score};
use crate::metrics::{EpochLine, score_warning};
use crate::model_file;
use crate::prepared::Prepared;
use crate::run_folder::{OpenFolder, RunFolder};
use crate::settings::RunSettings;
use crate::stopping;
use crate::summary::{EpochFigures, Summary};
use crate::task::Task;
use crate::trace::TraceFile;

/// What a run will write, before it has begun.
#[derive(Debug)]
pub(crate) struct Places {
    folder: Option<RunFolder>,
    pub(crate) trace: Option<TraceFile>,
}

impl Places {
    /// Takes the run folder, and checks that the other files can be written.
    ///
    /// # Errors
    /// A place where nothing can be written, or where something lies that must stay.
    pub(crate) fn take(args: &TrainArgs, task: &Task) -> Result<Self> {
        let settings = &task.settings;
        let folder =
            args.out.as_deref().map(|path| RunFolder::prepare(path, args.overwrite, settings));
        let folder = folder.transpose()?;
        let inputs = [
            args.config.as_deref(),
            settings.init.as_deref().map(Path::new),
            settings.partition.as_deref().map(Path::new),
        ];
        let inputs: Vec<&Path> =
            inputs.into_iter().flatten().chain([Path::new(&settings.data)]).collect();
        let trace = args.trace.as_deref().map(|path| trace_at(path, folder.as_ref(), &inputs));
        Ok(Self { trace: trace.transpose()?, folder })
    }

    /// Where the run will be written, and its checkpoints.
    #[cfg_attr(
        not(feature = "mpi"),
        expect(dead_code, reason = "ranks of one process see one folder")
    )]
    pub(crate) fn run_folder<'a>(&'a self, args: &'a TrainArgs) -> Option<&'a Path> {
        args.resume.as_deref().or_else(|| self.folder.as_ref().map(RunFolder::place))
    }

    /// Opens the run folder, where there is one, and says what is known of epochs that are done.
    ///
    /// # Errors
    /// What the system says; a folder that is not that of the checkpoint.
    pub(crate) fn open(
        &mut self,
        args: &TrainArgs,
        task: &Task,
        console: Console,
    ) -> Result<(Option<OpenFolder>, Vec<EpochLine>)> {
        let settings = &task.settings;
        if let Some(path) = &args.resume {
            let n_done = task.n_done();
            let (folder, lines) = OpenFolder::reopen(path, settings, n_done)?;
            console.line(format!("going on after {}", counted(n_done, "epoch")))?;
            return Ok((Some(folder), lines));
        }
        let folder = self.folder.take().map(|folder| folder.begin(settings)).transpose()?;
        if let Some(place) = folder.as_ref().and_then(OpenFolder::place_until_the_end) {
            console.line(format!(
                "the old run is replaced at the end; until then see {}",
                shown(place)
            ))?;
        }
        Ok((folder, Vec::new()))
    }
}

/// Where the trace goes, which takes the place of no file that the run reads or writes.
fn trace_at(path: &Path, folder: Option<&RunFolder>, inputs: &[&Path]) -> Result<TraceFile> {
    let is_taken = folder.is_some_and(|folder| folder.is_own(path))
        || inputs.iter().any(|input| aside::is_among(path, input));
    ensure!(
        !is_taken,
        "{}: is a file of the run, or of the graph's folder; take another name for --trace",
        shown(path)
    );
    TraceFile::at(path)
}

/// Whoever is told of each epoch, and writes what is known at the end.
pub(crate) struct Recorder {
    console: Console,
    bar: ProgressBar,
    metric: Metric,
    has_warned: bool,
    folder: Option<OpenFolder>,
    figures: EpochFigures,
}

impl Recorder {
    /// For a run of `n_epochs` epochs, of which `lines` are known.
    pub(crate) fn new(
        console: Console,
        n_epochs: u32,
        metric: Metric,
        (folder, lines): (Option<OpenFolder>, Vec<EpochLine>),
    ) -> Self {
        let (bar, mut figures) = (console.bar(n_epochs), EpochFigures::default());
        bar.inc(lines.len() as u64);
        lines.iter().for_each(|line| figures.push(line));
        Self { console, bar, metric, has_warned: false, folder, figures }
    }

    /// Where the run is written while it goes on.
    pub(crate) fn place(&self) -> Option<&Path> {
        self.folder.as_ref().map(OpenFolder::place)
    }

    /// Takes note of an epoch.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn record(&mut self, record: &EpochRecord) -> Result<()> {
        let line = EpochLine::from(record);
        self.figures.push(&line);
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

    /// Writes and prints what a run ends with.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn conclude(
        &self,
        (settings, prepared): (&RunSettings, &Prepared),
        outcome: &TrainOutcome,
        (peak_rss_mb, signal): (Option<f64>, u8),
    ) -> Result<ExitCode> {
        self.bar.finish_and_clear();
        if outcome.end == End::Stopped {
            return self.stopped(outcome.n_epochs, signal);
        }
        let Prepared { model, labels, metric, quality, .. } = prepared;
        let summary = Summary::new(*metric, outcome, &self.figures, (quality, peak_rss_mb));
        if let Some(folder) = &self.folder {
            folder.finish(&summary, &model_file::to_bytes(model, *labels, &outcome.weights)?)?;
        }
        self.console.json(&summary)?;
        let path = self.folder.as_ref().map(OpenFolder::path);
        self.console.line(summary.to_text(settings, path))?;
        Ok(ExitCode::SUCCESS)
    }

    fn stopped(&self, n_epochs: u32, signal: u8) -> Result<ExitCode> {
        let done = counted(n_epochs, "epoch");
        let what = match self.place() {
            Some(place) => {
                let place = shown(place);
                format!("stopped after {done}; `sylvie train --resume {place}` goes on")
            }
            None => format!("stopped after {done}; nothing is kept without --out"),
        };
        self.console.warn(&self.bar, &what);
        Ok(ExitCode::from(stopping::status(signal)))
    }
}
