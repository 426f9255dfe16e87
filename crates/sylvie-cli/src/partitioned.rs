//! Partition folders as the source of a run.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use sylvie::data::{Normalization, shown};
use sylvie::graph::{Direction, Labels};
use sylvie::partition::{FolderPart, Manifest, PartContents, PartitionFolder};
use sylvie::pipeline::{PartData, RankInput};

use crate::console::{Console, counted};
use crate::flags::{self, RunFlags};
use crate::settings::RunSettings;

/// Settings that a partition folder decides.
const N_SETTINGS: usize = 11;

/// Which of the settings that a partition folder decides were given nevertheless.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    flags: [bool; N_SETTINGS],
}

impl Given {
    /// Takes note of what is given.
    pub(crate) fn note(&mut self, flags: &RunFlags) {
        let data = &flags.data;
        let given = [
            data.data.is_some(),
            data.format.is_some(),
            data.directed.is_some(),
            data.normalize.is_some(),
            data.split.is_some(),
            data.split_seed.is_some(),
            data.split_index.is_some(),
            flags.parts.is_some(),
            flags.partitioner.is_some(),
            flags.objective.is_some(),
            flags.inductive.is_some(),
        ];
        for (noted, given) in self.flags.iter_mut().zip(given) {
            *noted |= given;
        }
    }
}

/// The flags of these settings, in the order of [`Given`], with their words.
fn words(settings: &RunSettings) -> [(&'static str, String); N_SETTINGS] {
    let format = settings.format.map_or_else(|| "unnamed".to_owned(), |format| format.to_string());
    [
        ("data", settings.shown_data()),
        ("format", format),
        ("directed", settings.directed.to_string()),
        ("normalize", settings.normalize.to_string()),
        ("split", settings.split.to_string()),
        ("split-seed", settings.split_seed.to_string()),
        ("split-index", settings.split_index.to_string()),
        ("parts", settings.parts.to_string()),
        ("partitioner", settings.partitioner.to_string()),
        ("objective", settings.objective.to_string()),
        ("inductive", settings.inductive.to_string()),
    ]
}

/// Opens the settings' partition folder, where there is one, and takes from its manifest the settings that
/// it decides.
///
/// # Errors
/// A folder that is none; one that was written with other settings than were given.
pub(crate) fn open(settings: &mut RunSettings, given: &Given) -> Result<Option<PartitionFolder>> {
    let Some(dir) = settings.partition.clone() else { return Ok(None) };
    let dir = Path::new(&dir);
    let folder = PartitionFolder::open(dir)?;
    let before = words(settings);
    adopt(settings, folder.manifest()).with_context(|| shown(dir))?;
    let wrong = before.iter().zip(words(settings)).zip(given.flags);
    for (((flag, said), (_, found)), is_given) in wrong {
        ensure!(
            !is_given || *said == found,
            "{} was written with --{flag} {found}, not --{flag} {said}; leave --{flag} out, or take \
             another --partition",
            shown(dir)
        );
    }
    Ok(Some(folder))
}

/// Takes what the manifest says.
fn adopt(settings: &mut RunSettings, manifest: &Manifest) -> Result<()> {
    let source = &manifest.source;
    let format = source.format.as_ref().map(|format| format.parse()).transpose();
    settings.data.clone_from(&source.data);
    settings.format = format.context("`source.format`")?;
    settings.directed = manifest.directed;
    let normalize: Normalization = source.normalize.parse().context("`source.normalize`")?;
    settings.normalize = normalize;
    settings.split = source.split.parse().context("`source.split`")?;
    let seed = flags::seed(&source.split_seed.to_string()).map_err(anyhow::Error::msg);
    settings.split_seed = seed.context("`source.split_seed`")?;
    settings.split_index = source.split_index;
    let parts = flags::parts(&manifest.n_parts().to_string()).map_err(anyhow::Error::msg);
    settings.parts = parts.with_context(|| format!("{} parts", manifest.n_parts()))?;
    settings.partitioner = manifest.partitioner.parse().context("`partitioner`")?;
    settings.objective = manifest.objective.parse().context("`objective`")?;
    settings.inductive = manifest.inductive;
    Ok(())
}

/// A folder's graph in one line.
pub(crate) fn describe(manifest: &Manifest) -> String {
    crate::load::description(
        &manifest.source.name,
        [manifest.n_nodes, manifest.n_edges, manifest.n_features, manifest.n_classes as usize],
        [manifest.n_train, manifest.n_val, manifest.n_test],
    )
}

/// Reads every part: for ranks that are threads of this process.
///
/// # Errors
/// The first part that is not as it was written.
pub(crate) fn read_all(folder: &PartitionFolder, console: Console) -> Result<Vec<FolderPart>> {
    let what = format!("reading {}", counted(folder.manifest().n_parts(), "part"));
    Ok(console.during(&what, || folder.read_all())?)
}

/// Labels of a part, which tell as much of their kind as those of the whole graph.
///
/// # Errors
/// No parts; no folder that was opened has none.
pub(crate) fn labels(parts: &[FolderPart]) -> Result<&Labels> {
    parts.first().map(|part| &part.whole.labels).context("a partition has at least one part")
}

/// What a rank trains and evaluates on.
pub(crate) fn rank_input(part: FolderPart, directed: bool) -> RankInput {
    let whole = part_data(part.whole, directed);
    match part.training {
        None => RankInput { training: whole, evaluation: None },
        Some(training) => {
            let training = part_data(training, directed);
            RankInput { training, evaluation: Some(whole) }
        }
    }
}

/// A part of the whole graph.
pub(crate) fn whole_part(part: FolderPart, directed: bool) -> PartData {
    part_data(part.whole, directed)
}

fn part_data(contents: PartContents, directed: bool) -> PartData {
    let direction = if directed { Direction::Directed } else { Direction::Symmetric };
    let PartContents { graph, features, labels, roles } = contents;
    PartData { graph, direction, features, labels, roles }
}
