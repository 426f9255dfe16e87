//! Checkpoints, written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Error, Result, ensure};
use sha2::{Digest as _, Sha256};
use sylvie::data::shown;
use sylvie::gnn::{ModelConfig, Weights};
use sylvie::pipeline::{
    CheckpointSink, HaloState, HostRows, KeptRows, ObserverError, RankState, Scores, SharedState,
};
use sylvie::tensor::CpuBackend;

use super::file::{self, Tensors, sync_folder};
use super::{
    CHECKPOINTS, Head, KeptHead, RankHead, SHARED, SharedHead, UNFINISHED, VERSION, folder_name,
    n_epochs_of, rank_file, way_on,
};
use crate::fingerprint::hexadecimal;
use crate::run_folder::METRICS;
use crate::settings::RunSettings;
use crate::usage;

/// The checkpoints of one rank's run.
///
/// All ranks write to one folder, and rank 0 renames what they have written.
#[derive(Clone, Debug)]
pub(crate) struct CheckpointFolder {
    place: PathBuf,
    settings: String,
    /// What tells this run from others.
    run: String,
    machine: &'static str,
    rank: usize,
    n_parts: usize,
    model: ModelConfig,
    data: String,
}

impl CheckpointFolder {
    /// Below the run folder `run`, for a run on this kind of machine and data of this sum.
    ///
    /// # Errors
    /// None that is known of: settings have a form in TOML.
    pub(crate) fn new(
        run: &Path,
        (settings, machine): (&RunSettings, &'static str),
        (rank, n_parts): (usize, usize),
        model: &ModelConfig,
        data: String,
    ) -> Result<Self> {
        // Hosts may differ in their cores, and the run is the same nevertheless.
        let common = RunSettings { threads: None, ..settings.clone() }.to_toml()?;
        Ok(Self {
            place: run.join(CHECKPOINTS),
            settings: settings.to_toml()?,
            run: hexadecimal(&Sha256::digest(common.as_bytes())),
            machine,
            rank,
            n_parts,
            model: model.clone(),
            data,
        })
    }

    fn head<T>(&self, n_epochs: u32, own: T) -> Head<T> {
        Head {
            version: VERSION,
            sylvie: env!("CARGO_PKG_VERSION").to_owned(),
            run: self.run.clone(),
            n_epochs,
            parts: self.n_parts as u32,
            own,
        }
    }

    fn unfinished(&self, n_epochs: u32) -> PathBuf {
        self.place.join(folder_name(n_epochs) + UNFINISHED)
    }

    fn write(&self, state: &RankState) -> Result<()> {
        let n_epochs = state.shared.n_epochs;
        let folder = self.unfinished(n_epochs);
        fs::create_dir_all(&folder).with_context(|| shown(&folder))?;
        if self.rank == 0 {
            let (own, tensors) = self.shared(&state.shared);
            file::write(&folder.join(SHARED), &self.head(n_epochs, own), &tensors)?;
        }
        let (own, tensors) = self.of_rank(&state.halo);
        file::write(&folder.join(rank_file(self.rank)), &self.head(n_epochs, own), &tensors)
    }

    fn shared(&self, state: &SharedState) -> (SharedHead, Tensors) {
        let mut tensors = Tensors::default();
        let specs = Weights::<CpuBackend>::specs(&self.model);
        let mut add = |group: &str, all: &[Vec<f32>]| {
            for ((name, spec), values) in specs.iter().zip(all) {
                let shape = vec![spec.n_rows, spec.n_cols];
                tensors.f32(format!("{group}.{name}"), shape, values);
            }
        };
        add("weights", &state.weights);
        add("first", &state.moments.first);
        add("second", &state.moments.second);
        if let Some(best) = &state.best {
            add("best", &best.weights);
            tensors.f64("best.scores", &numbers(&best.scores));
        }
        if let Some(last) = &state.last {
            tensors.f64("last.scores", &numbers(last));
        }
        let head = SharedHead {
            settings: self.settings.clone(),
            machine: self.machine.to_owned(),
            n_steps: state.moments.n_steps,
            best_epoch: state.best.as_ref().map(|best| best.epoch),
            has_last: state.last.is_some(),
            n_since_best: state.n_since_best,
            eval_bytes: state.eval_bytes,
        };
        (head, tensors)
    }

    fn of_rank(&self, state: &HaloState) -> (RankHead, Tensors) {
        let mut tensors = Tensors::default();
        let mut add = |name: String, rows: &HostRows| {
            tensors.f32(name, vec![rows.n_rows, rows.n_cols], &rows.values);
        };
        let mut kept = Vec::with_capacity(state.kept.len());
        for (slot, rows) in state.kept.iter().enumerate() {
            kept.push(match rows {
                None => None,
                Some(KeptRows::Boundary(rows)) => {
                    add(format!("kept.{slot}.boundary"), rows);
                    Some(KeptHead::Boundary)
                }
                Some(KeptRows::Halo { blocks, sampled_in }) => {
                    for (block, rows) in blocks {
                        add(format!("kept.{slot}.halo.{block}"), rows);
                    }
                    let blocks = blocks.iter().map(|(block, _)| *block).collect();
                    Some(KeptHead::Halo { blocks, sampled_in: *sampled_in })
                }
            });
        }
        for (slot, rows) in state.averages.iter().enumerate() {
            for (number, rows) in rows.iter().flatten().enumerate() {
                add(format!("average.{slot}.{number}"), rows);
            }
        }
        let averages = state.averages.iter().map(|rows| rows.as_ref().map(Vec::len)).collect();
        (RankHead { rank: self.rank, data: self.data.clone(), kept, averages }, tensors)
    }

    /// Renames the checkpoint that all ranks have written, and removes the one before.
    fn rename(&self, n_epochs: u32) -> Result<()> {
        let folder = self.unfinished(n_epochs);
        for rank in 0..self.n_parts {
            let path = folder.join(rank_file(rank));
            ensure!(
                path.is_file(),
                "{}: rank {rank} has not written it here; all hosts must share the run folder",
                shown(&path)
            );
        }
        sync_folder(&folder)?;
        // A checkpoint is of no use without the epochs that lead to it.
        if let Some(run) = self.place.parent() {
            let metrics = run.join(METRICS);
            let synced = fs::File::open(&metrics).and_then(|file| file.sync_all());
            synced.with_context(|| shown(&metrics))?;
            sync_folder(run)?;
        }
        let whole = self.place.join(folder_name(n_epochs));
        fs::rename(&folder, &whole).with_context(|| shown(&whole))?;
        sync_folder(&self.place)?;
        for entry in fs::read_dir(&self.place).with_context(|| shown(&self.place))? {
            let path = entry.with_context(|| shown(&self.place))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let of = n_epochs_of(name.strip_suffix(UNFINISHED).unwrap_or(name));
            if of.is_some_and(|of| of < n_epochs) {
                remove_all(&path).with_context(|| shown(&path))?;
            }
        }
        Ok(())
    }
}

/// Removes a folder of checkpoint files, if it is there.
pub(crate) fn remove_all(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes what is left of checkpoints in a run folder that never became whole. No run may be going on there.
///
/// # Errors
/// What the system says.
pub(crate) fn remove_unfinished(run: &Path) -> Result<()> {
    let place = run.join(CHECKPOINTS);
    for entry in fs::read_dir(&place).with_context(|| shown(&place))? {
        let path = entry.with_context(|| shown(&place))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.strip_suffix(UNFINISHED).and_then(n_epochs_of).is_some() {
            remove_all(&path).with_context(|| shown(&path))?;
        }
    }
    Ok(())
}

/// Scores as numbers; NaN where they are not defined.
fn numbers(scores: &Scores) -> [f64; 3] {
    [scores.train, scores.val, scores.test].map(|score| score.unwrap_or(f64::NAN))
}

impl CheckpointSink for CheckpointFolder {
    fn store(&mut self, state: &RankState) -> Result<(), ObserverError> {
        self.write(state).map_err(|error| {
            let way = self.place.parent().and_then(way_on);
            let way = way.unwrap_or_else(|| "there is no checkpoint before it".to_owned());
            Error::msg(format!("{}; {way}", usage::causes(&error))).into()
        })
    }

    fn commit(&mut self, n_epochs: u32) -> Result<(), ObserverError> {
        if self.rank == 0 { self.rename(n_epochs).map_err(Into::into) } else { Ok(()) }
    }
}
