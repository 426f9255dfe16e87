//! What a command line asks to be trained.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use sylvie::data::shown;
use sylvie::partition::PartitionFolder;
use toml::Table;

use crate::args::TrainArgs;
use crate::checkpoint::Resumable;
use crate::console::counted;
use crate::flags::RunFlags;
use crate::model_file::ModelFile;
use crate::partitioned::Given;
use crate::run_folder::{SETTINGS, SUMMARY, check_idle};
use crate::settings::RunSettings;
use crate::{config, partitioned, without_effect};

/// Settings that do not change what an epoch computes. Data may have moved: that they are the same is
/// checked.
const HARMLESS: [&str; 9] = [
    "epochs",
    "patience",
    "checkpoint_every",
    "threads",
    "halo",
    "link",
    "data",
    "format",
    "partition",
];

/// The settings of a run, and what they name.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) settings: RunSettings,
    pub(crate) partition: Option<PartitionFolder>,
    /// What is computed on: cpu or cuda.
    pub(crate) machine: &'static str,
    /// The checkpoint to go on from.
    pub(crate) resume: Option<Resumable>,
}

impl Task {
    /// Puts together what flags, files and defaults say, for `n_ranks` ranks where their number is given
    /// from outside.
    ///
    /// # Errors
    /// Settings that cannot be, alone or together, or that are not those of the partition folder, of the
    /// checkpoint or of the ranks.
    pub(crate) fn new(args: &TrainArgs, n_ranks: Option<u32>) -> Result<Self> {
        if let Some(run) = &args.resume {
            check_idle(run)?;
        }
        let resume = args.resume.as_deref().map(Resumable::find).transpose()?;
        let base = match (&resume, &args.config) {
            (Some(checkpoint), _) => {
                let flags = config::parse(checkpoint.settings());
                Some(flags.with_context(|| shown(checkpoint.path()))?)
            }
            (None, Some(path)) => Some(config::read(path)?),
            (None, None) => None,
        };
        let mut settings = RunSettings::default();
        let mut given = Given::default();
        let has_parts = [base.as_ref(), Some(&args.flags)];
        let has_parts = has_parts.into_iter().flatten().any(|flags| flags.parts.is_some());
        if let Some(base) = base {
            if resume.is_none() {
                // What a checkpoint says is compared as a whole, below.
                given.note(&base);
            }
            settings.apply(base);
        }
        let before = resume.is_some().then(|| settings.clone());
        let mut edited_threads = None;
        if let (Some(run), Some(checkpoint)) = (&args.resume, &resume) {
            let edited = edited(run, checkpoint, &settings)?;
            edited_threads = edited.threads.filter(|_| edited.threads != settings.threads);
            settings.apply(edited);
        }
        given.note(&args.flags);
        settings.apply(args.flags.clone());
        if let (Some(n_ranks), false) = (n_ranks, has_parts) {
            settings.parts = n_ranks;
        }
        if resume.is_some() {
            // This machine may have other cores than the one whose number was written.
            settings.threads = args.flags.threads.or(edited_threads);
        }
        let partition = partitioned::open(&mut settings, &given)?;
        match n_ranks {
            None => settings.check()?,
            Some(n_ranks) => {
                check_ranks(&settings, n_ranks)?;
                settings.check_run()?;
            }
        }
        without_effect::check(&args.flags, &settings)?;
        without_effect::check_machine(&args.flags, &args.device)?;
        let machine = args.device.kind();
        if let (Some(checkpoint), Some(before)) = (&resume, before) {
            check_same(&before, &settings, checkpoint)?;
            check_unfinished(args.resume.as_deref(), &settings, checkpoint)?;
            ensure!(
                machine == checkpoint.machine(),
                "{} was computed on --device {}, and another gives other bits",
                shown(checkpoint.path()),
                checkpoint.machine()
            );
        }
        let wants_checkpoints = args.flags.checkpoint_every.is_some_and(|every| every > 0);
        ensure!(
            !wants_checkpoints || args.out.is_some() || args.resume.is_some(),
            "--checkpoint-every needs a run folder to write to: --out"
        );
        Ok(Self { settings, partition, machine, resume })
    }

    /// The file of the weights that the run starts from; a run that goes on has its own.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn initial(&self) -> Result<Option<ModelFile>> {
        let init = self.settings.init.as_ref().filter(|_| self.resume.is_none());
        init.map(|path| ModelFile::read(Path::new(path))).transpose()
    }

    /// Epochs that are done.
    pub(crate) fn n_done(&self) -> u32 {
        self.resume.as_ref().map_or(0, Resumable::n_epochs)
    }
}

fn check_ranks(settings: &RunSettings, n_ranks: u32) -> Result<()> {
    if settings.parts == n_ranks {
        return Ok(());
    }
    let (parts, are) = (settings.parts, if n_ranks == 1 { "is" } else { "are" });
    let alone =
        if n_ranks == 1 { "; is this the launcher of the MPI it was built with?" } else { "" };
    match &settings.partition {
        Some(folder) => bail!(
            "{} has {}, but there {are} {}; start {parts} (mpirun -n {parts}){alone}",
            shown(Path::new(folder)),
            counted(parts, "part"),
            counted(n_ranks, "rank")
        ),
        None => bail!(
            "--parts {parts} needs {}, but there {are} {n_ranks}; start {parts} (mpirun -n {parts}), or leave \
             --parts out{alone}",
            counted(parts, "rank")
        ),
    }
}

/// Settings that an epoch depends on and that differ: key, value before, value now.
fn differences(before: &RunSettings, now: &RunSettings) -> Result<Vec<(String, String, String)>> {
    let [before, now] = [before, now].map(RunSettings::to_toml);
    let (before, now): (Table, Table) = (before?.parse()?, now?.parse()?);
    let keys = before.keys().chain(now.keys().filter(|key| !before.contains_key(*key)));
    let said = |table: &Table, key: &str| {
        table.get(key).map_or_else(|| "nothing".to_owned(), ToString::to_string)
    };
    let all = keys.filter(|key| !HARMLESS.contains(&key.as_str())).map(|key| {
        let (was, is) = (said(&before, key), said(&now, key));
        (key.clone(), was, is)
    });
    Ok(all.filter(|(_, was, is)| was != is).collect())
}

/// Checks that nothing has changed that an epoch depends on.
fn check_same(before: &RunSettings, now: &RunSettings, checkpoint: &Resumable) -> Result<()> {
    let Some((key, was, is)) = differences(before, now)?.into_iter().next() else { return Ok(()) };
    bail!(
        "{} was written with --{} {was}, and a run cannot go on with {is}; what may change is {}",
        shown(checkpoint.path()),
        key.replace('_', "-"),
        HARMLESS.map(|key| format!("--{}", key.replace('_', "-"))).join(", ") + ", --transport"
    )
}

/// What the run folder's settings say of those that may change: they may have been edited, or be those of a
/// run that went on and was killed before its next checkpoint.
///
/// # Errors
/// A file that cannot be read, or in which something else is not as in the checkpoint: the file is written
/// anew, and no edit is to be lost in that.
fn edited(run: &Path, checkpoint: &Resumable, before: &RunSettings) -> Result<RunFlags> {
    let path = run.join(SETTINGS);
    if !path.exists() {
        return Ok(RunFlags::default());
    }
    let mut found = RunSettings::default();
    found.apply(config::read(&path)?);
    let others: Vec<_> = differences(before, &found)?
        .into_iter()
        .map(|(key, was, is)| format!("{key} = {is} instead of {was}"))
        .collect();
    ensure!(
        others.is_empty(),
        "{} says {}, which is not what {} was written with, and a run cannot go on with other settings; \
         put them back, or begin a run of its own with --config",
        shown(&path),
        others.join(", "),
        shown(checkpoint.path())
    );
    let mut table = config::read_table(&path)?;
    table.retain(|key, _| HARMLESS.contains(&key));
    config::parse(&toml::to_string(&table)?)
}

/// Checks that there is something left to do.
///
/// A run that was killed between its last checkpoint and its results has those left to write.
fn check_unfinished(
    run: Option<&Path>,
    settings: &RunSettings,
    checkpoint: &Resumable,
) -> Result<()> {
    let is_over = run.is_some_and(|run| run.join(SUMMARY).exists());
    let done = checkpoint.n_epochs();
    ensure!(
        done < settings.epochs || done == settings.epochs && !is_over,
        "{}: {} done, of {}; --epochs takes more",
        shown(checkpoint.path()),
        counted(done, "epoch"),
        settings.epochs
    );
    let since_best = checkpoint.n_since_best();
    ensure!(
        settings.patience == 0 || since_best < settings.patience || !is_over,
        "{}: {} brought no better score, and the patience is {}; --patience takes more",
        shown(checkpoint.path()),
        counted(since_best, "evaluation"),
        settings.patience
    );
    Ok(())
}
