//! `sylvie predict`.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use npyz::{WriteOptions, WriterBuilder as _};
use sylvie::comm::Communicator as _;
use sylvie::data::shown;
use sylvie::pipeline::{Instruments, PartData, Prediction, predict};

use crate::args::PredictArgs;
use crate::aside::AsideFile;
use crate::clock::SystemClock;
use crate::console::Console;
use crate::evaluate::Trained;
use crate::ranks::RankOptions;
use crate::run_folder::{self, MODEL};
use crate::settings::RunSettings;
use crate::{aside, ranks};

/// Writes logits, scores and embeddings of every node, each where it is asked for.
///
/// # Errors
/// A run or a graph that cannot be used, values that are not finite, a file that cannot be written.
pub(crate) fn run(args: PredictArgs) -> Result<()> {
    let console = Console::for_people();
    let PredictArgs { trained, out, scores, embeddings } = args;
    let run = trained.run.clone();
    let mut files = Files::create(&run.join(MODEL), [out, scores, embeddings])?;
    let Trained { settings, model, weights, parts, .. } = Trained::load(trained, console)?;
    files.check_beside(&run, &settings)?;
    let n_layers = model.n_layers();
    ensure!(
        n_layers > 1 || files.embeddings.is_none(),
        "--embeddings: the network has one layer, which reads raw features"
    );
    let clock = SystemClock::start();
    let predictions = console.during("predicting", || {
        ranks::run(RankOptions::new(parts.len(), settings.n_threads()), |backend, comm| {
            let instruments = Instruments::clock(&clock);
            predict(backend, comm, (&model, &weights), &parts[comm.rank()], instruments)
        })
    })?;
    let (n_hidden, n_classes) = (model.widths[n_layers - 1], model.widths[n_layers]);
    let is_multi = parts.first().is_some_and(|part| part.labels.is_multi());
    if let Some(file) = files.embeddings.take() {
        let rows = by_node(&parts, &predictions, n_hidden, |prediction| &prediction.embeddings);
        file.write(&rows, n_hidden, "embeddings", console)?;
    }
    let mut logits = by_node(&parts, &predictions, n_classes, |prediction| &prediction.logits);
    drop(predictions);
    if let Some(file) = files.logits.take() {
        file.write(&logits, n_classes, "logits", console)?;
    }
    if let Some(file) = files.scores.take() {
        to_scores(&mut logits, n_classes, is_multi);
        file.write(&logits, n_classes, "scores", console)?;
    }
    Ok(())
}

/// Rows in the order of the whole graph.
fn by_node(
    parts: &[PartData],
    predictions: &[Prediction],
    width: usize,
    of: fn(&Prediction) -> &Vec<f32>,
) -> Vec<f32> {
    let n_nodes: usize = parts.iter().map(|part| part.graph.n_local()).sum();
    let mut rows = vec![0.0_f32; n_nodes * width];
    for (part, prediction) in parts.iter().zip(predictions) {
        for (&id, row) in part.graph.own_ids.iter().zip(of(prediction).chunks_exact(width)) {
            rows[id as usize * width..][..width].copy_from_slice(row);
        }
    }
    rows
}

/// Softmax of each row, or sigmoid of each value.
fn to_scores(logits: &mut [f32], width: usize, is_multi: bool) {
    if is_multi {
        logits.iter_mut().for_each(|value| *value = 1.0 / (1.0 + (-*value).exp()));
        return;
    }
    for row in logits.chunks_exact_mut(width) {
        let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        row.iter_mut().for_each(|value| *value = (*value - max).exp());
        let sum: f32 = row.iter().sum();
        row.iter_mut().for_each(|value| *value /= sum);
    }
}

/// The files that will be written.
struct Files {
    logits: Option<ArrayFile>,
    scores: Option<ArrayFile>,
    embeddings: Option<ArrayFile>,
}

/// An array to be written.
struct ArrayFile {
    path: PathBuf,
    file: AsideFile,
}

impl Files {
    /// Begins the files at the paths of logits, scores and embeddings.
    ///
    /// # Errors
    /// A path where nothing can be written, that is the model's, or another file's.
    fn create(model: &Path, paths: [Option<PathBuf>; 3]) -> Result<Self> {
        let flags = ["--out", "--scores", "--embeddings"];
        let given = |at: usize| paths[at].as_deref();
        for (at, flag) in flags.into_iter().enumerate() {
            let Some(path) = given(at) else { continue };
            let is_model = aside::is_same(path, model);
            ensure!(
                !is_model,
                "{}: is the model itself; take another name for {flag}",
                shown(path)
            );
            let is_twice = (0..at).filter_map(given).any(|other| aside::is_same_place(other, path));
            ensure!(
                !is_twice,
                "{}: is another output too; take another name for {flag}",
                shown(path)
            );
        }
        let create = |path: PathBuf| -> Result<ArrayFile> {
            Ok(ArrayFile { file: AsideFile::create(&path)?, path })
        };
        let [logits, scores, embeddings] = paths.map(|path| path.map(create).transpose());
        Ok(Self { logits: logits?, scores: scores?, embeddings: embeddings? })
    }

    /// # Errors
    /// A file that would replace one of the run or of its graph.
    fn check_beside(&self, run: &Path, settings: &RunSettings) -> Result<()> {
        let files = [&self.logits, &self.scores, &self.embeddings].into_iter().flatten();
        for ArrayFile { path, .. } in files {
            // The run's or, by flags, another graph.
            let graphs = [Some(settings.data.as_str()), settings.partition.as_deref()];
            let mut graphs = graphs.into_iter().flatten().map(Path::new);
            let is_taken = run_folder::is_file_of(run, path)
                || graphs.any(|graph| aside::is_among(path, graph));
            ensure!(
                !is_taken,
                "{}: is a file of the run, or of the graph's folder, which nothing may replace; take another name",
                shown(path)
            );
        }
        Ok(())
    }
}

impl ArrayFile {
    /// Writes rows of `width` values, and says so.
    ///
    /// # Errors
    /// What the system says.
    fn write(mut self, rows: &[f32], width: usize, what: &str, console: Console) -> Result<()> {
        let n_nodes = rows.len() / width;
        write(&mut self.file, rows, (n_nodes, width)).with_context(|| shown(&self.path))?;
        self.file.commit()?;
        console.line(format!("{n_nodes} x {width} {what} in {}", shown(&self.path)))
    }
}

fn write(file: &mut AsideFile, rows: &[f32], (n_rows, n_cols): (usize, usize)) -> io::Result<()> {
    let shape = [n_rows as u64, n_cols as u64];
    let options = WriteOptions::new().default_dtype().shape(&shape).writer(file);
    let mut writer = options.begin_nd()?;
    writer.extend(rows)?;
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::to_scores;

    #[test]
    fn scores_by_hand() {
        let near = |found: &[f32], expected: &[f32]| {
            let pairs = found.iter().zip(expected);
            pairs.clone().all(|(a, b)| (a - b).abs() < 1e-6) && found.len() == expected.len()
        };
        let ln3 = 3.0_f32.ln();
        let mut rows = [0.0, ln3, 200.0, 200.0];
        to_scores(&mut rows, 2, false);
        assert!(near(&rows, &[0.25, 0.75, 0.5, 0.5]), "{rows:?}");
        let mut rows = [0.0, ln3, -200.0, 200.0];
        to_scores(&mut rows, 2, true);
        assert!(near(&rows, &[0.5, 0.75, 0.0, 1.0]), "{rows:?}");
    }
}
