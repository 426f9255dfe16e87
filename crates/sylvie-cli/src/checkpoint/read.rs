//! Checkpoints, read.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use sylvie::data::shown;
use sylvie::gnn::{ModelConfig, Moments, Weights};
use sylvie::pipeline::{BestModel, HaloState, HostRows, KeptRows, RankState, Scores, SharedState};
use sylvie::tensor::CpuBackend;

use super::file::{self, Found};
use super::{CHECKPOINTS, Head, KeptHead, RankHead, SHARED, SharedHead, n_epochs_of, rank_file};
use crate::console::counted;
use crate::run_folder::{NEW, SETTINGS};

/// After how many epochs the newest checkpoint in a run folder comes; it is not looked into.
pub(crate) fn newest(run: &Path) -> Option<u32> {
    newest_folder(run).ok().flatten().map(|(n_epochs, _)| n_epochs)
}

/// How a run goes on that ends here, where it has a checkpoint or may have one.
pub(crate) fn way_on(run: &Path) -> Option<String> {
    let from = match newest_folder(run) {
        Ok(Some((n_epochs, _))) => format!("the checkpoint after {}", counted(n_epochs, "epoch")),
        Ok(None) => return None,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        // Whatever keeps files from being written may keep the folder from being listed.
        Err(error) => {
            format!("a checkpoint, if there is one (its folder cannot be listed: {error})")
        }
    };
    let run = shown(run);
    Some(format!("`sylvie train --resume {run}` goes on from {from}, once that is mended"))
}

fn newest_folder(run: &Path) -> io::Result<Option<(u32, PathBuf)>> {
    Ok(whole_folders(&run.join(CHECKPOINTS))?.into_iter().max())
}

/// Checkpoints that are whole by their names, after how many epochs each.
fn whole_folders(place: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(place)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        folders.extend(name.and_then(n_epochs_of).map(|epochs| (epochs, path)));
    }
    Ok(folders)
}

/// The newest checkpoint of a run.
#[derive(Debug)]
pub(crate) struct Resumable {
    run: PathBuf,
    folder: PathBuf,
    head: Head<SharedHead>,
}

impl Resumable {
    /// Finds the newest whole checkpoint in a run folder.
    ///
    /// # Errors
    /// No checkpoint; one that is damaged or of another version.
    pub(crate) fn find(run: &Path) -> Result<Self> {
        let Ok(Some((n_epochs, folder))) = newest_folder(run) else {
            ensure!(run.is_dir(), "{}: no folder of a run", shown(run));
            let aside = run.join(NEW);
            if aside.join(CHECKPOINTS).is_dir() {
                bail!(
                    "{}: no checkpoint; the run that was to replace it lies in {}",
                    shown(run),
                    shown(&aside)
                );
            }
            let is_run = run.join(SETTINGS).exists();
            ensure!(is_run, "{}: no folder of a run: it has no run.toml", shown(run));
            bail!("{}: no checkpoint; --checkpoint-every of `train` makes them", shown(run));
        };
        let read = file::read::<SharedHead>(&folder.join(SHARED));
        let (head, _) = read.with_context(|| unusable(&folder, run))?;
        ensure!(
            head.n_epochs == n_epochs,
            "{}: is of epoch {}, not of its folder's",
            shown(&folder.join(SHARED)),
            head.n_epochs
        );
        Ok(Self { run: run.to_owned(), folder, head })
    }

    /// Epochs that are done.
    pub(crate) fn n_epochs(&self) -> u32 {
        self.head.n_epochs
    }

    /// Evaluations since the best one.
    pub(crate) fn n_since_best(&self) -> u32 {
        self.head.own.n_since_best
    }

    /// The run's settings, as run.toml has them.
    pub(crate) fn settings(&self) -> &str {
        &self.head.own.settings
    }

    /// What it was computed on: cpu or cuda.
    pub(crate) fn machine(&self) -> &str {
        &self.head.own.machine
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    /// The state of one rank, which trains on data of the sum `data`.
    ///
    /// # Errors
    /// Files that are damaged or of other checkpoints; other data than the checkpoint's.
    pub(crate) fn state(&self, rank: usize, model: &ModelConfig, data: &str) -> Result<RankState> {
        let path = self.folder.join(SHARED);
        let (head, found) = file::read::<SharedHead>(&path)?;
        ensure!(head == self.head, "{}: has changed while it was read", shown(&path));
        let shared = shared(&head, found, model).with_context(|| shown(&path))?;
        let path = self.folder.join(rank_file(rank));
        let read = file::read::<RankHead>(&path);
        let (head, found) = read.with_context(|| unusable(&self.folder, &self.run))?;
        ensure!(
            (head.n_epochs, &head.run, head.parts, head.own.rank)
                == (self.head.n_epochs, &self.head.run, self.head.parts, rank),
            "{}: is of rank {} of another checkpoint",
            shown(&path),
            head.own.rank
        );
        ensure!(
            head.own.data == data,
            "part {rank} of the graph is not the one that {} was trained on: the graph, its split or how \
             it is read has changed",
            shown(&self.folder)
        );
        let halo = halo(&head.own, found).with_context(|| shown(&path))?;
        Ok(RankState { shared, halo })
    }
}

/// What is said of a checkpoint that is not whole, and what may be done.
fn unusable(folder: &Path, run: &Path) -> String {
    let all = folder.parent().map(whole_folders).and_then(Result::ok).unwrap_or_default();
    let older = all.into_iter().filter(|(_, other)| other != folder).max();
    let remedy = match older {
        Some((_, other)) => {
            format!("{} is gone on from once this one is moved away", shown(&other))
        }
        None => format!(
            "there is no other checkpoint; `sylvie train --config {} --out DIR` begins again",
            shown(&run.join(SETTINGS))
        ),
    };
    format!("{} cannot be gone on from; {remedy}", shown(folder))
}

fn shared(head: &Head<SharedHead>, mut found: Found, model: &ModelConfig) -> Result<SharedState> {
    let specs = Weights::<CpuBackend>::specs(model);
    let group = |found: &mut Found, group: &str| -> Result<Vec<Vec<f32>>> {
        let tensor = |(name, _): &(String, _)| Ok(found.f32(&format!("{group}.{name}"))?.1);
        specs.iter().map(tensor).collect()
    };
    let own = &head.own;
    let best = match own.best_epoch {
        None => None,
        Some(epoch) => {
            let (scores, weights) = (found.three("best.scores")?, group(&mut found, "best")?);
            Some(BestModel { epoch, scores: scores_of(scores), weights })
        }
    };
    let last = if own.has_last { Some(scores_of(found.three("last.scores")?)) } else { None };
    Ok(SharedState {
        n_epochs: head.n_epochs,
        weights: group(&mut found, "weights")?,
        moments: Moments {
            n_steps: own.n_steps,
            first: group(&mut found, "first")?,
            second: group(&mut found, "second")?,
        },
        best,
        last,
        n_since_best: own.n_since_best,
        eval_bytes: own.eval_bytes,
    })
}

fn scores_of(numbers: [f64; 3]) -> Scores {
    let [train, val, test] = numbers.map(|score| (!score.is_nan()).then_some(score));
    Scores { train, val, test }
}

fn halo(head: &RankHead, mut found: Found) -> Result<HaloState> {
    let mut rows = |name: &str| -> Result<HostRows> {
        let (shape, values) = found.f32(name)?;
        let [n_rows, n_cols] = shape[..] else { bail!("tensor {name}: no matrix") };
        Ok(HostRows { n_rows, n_cols, values })
    };
    let mut kept = Vec::with_capacity(head.kept.len());
    for (slot, what) in head.kept.iter().enumerate() {
        kept.push(match what {
            None => None,
            Some(KeptHead::Boundary) => {
                Some(KeptRows::Boundary(rows(&format!("kept.{slot}.boundary"))?))
            }
            Some(KeptHead::Halo { blocks, sampled_in }) => {
                let block =
                    |&block: &usize| Ok((block, rows(&format!("kept.{slot}.halo.{block}"))?));
                let blocks = blocks.iter().map(block).collect::<Result<_>>()?;
                Some(KeptRows::Halo { blocks, sampled_in: *sampled_in })
            }
        });
    }
    let mut averages = Vec::with_capacity(head.averages.len());
    for (slot, count) in head.averages.iter().enumerate() {
        averages.push(match count {
            None => None,
            Some(count) => {
                let average = |number| rows(&format!("average.{slot}.{number}"));
                Some((0..*count).map(average).collect::<Result<_>>()?)
            }
        });
    }
    Ok(HaloState { kept, averages })
}
