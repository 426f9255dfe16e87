//! What is measured, as data: `benches/experiments/*.toml`, typed.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, Result, ensure};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use sylvie::gnn::ModelKind;
use sylvie::lowbit::{RowCodec, Width};
use sylvie::partition::Method;
use sylvie::pipeline::{Directions, ExchangePolicy, HaloRows, Preset};

/// The file of the data sets, beside those of the items.
const SETS: &str = "sets.toml";

/// Everything that can be measured.
#[derive(Debug)]
pub(crate) struct Definitions {
    pub(crate) sets: BTreeMap<String, Set>,
    /// In the order of their files' names.
    pub(crate) items: Vec<Item>,
    /// Names and texts of the files, to be kept with the figures.
    pub(crate) files: Vec<(String, String)>,
}

/// A data set: a graph generated in the shape of the paper's, or a real one of the user's folder.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Set {
    pub(crate) title: String,
    /// A real graph: its path below the user's folder.
    pub(crate) path: Option<PathBuf>,
    /// What the paper's graph is.
    pub(crate) original: Option<String>,
    /// Computation in percent of fp32's epoch, on the paper's machines.
    pub(crate) percent: Option<f64>,
    /// Whether training sees training nodes alone.
    #[serde(default)]
    pub(crate) inductive: bool,
    /// Whether nodes have several classes.
    #[serde(default)]
    pub(crate) multi: bool,
    /// Whether features are standardised.
    #[serde(default)]
    pub(crate) standardize: bool,
    /// Shares of the nodes that train and validate; without them the set's own split.
    pub(crate) split: Option<[f64; 2]>,
    /// How nodes are assigned to parts; at random unless said.
    #[serde(default, deserialize_with = "optional_word")]
    pub(crate) partitioner: Option<Method>,
    /// Share of the edges inside communities.
    #[serde(default)]
    pub(crate) locality: f64,
    /// Share of the labels that say nothing of their community.
    #[serde(default)]
    pub(crate) noise: f64,
    pub(crate) quick: Option<Shape>,
    pub(crate) full: Option<Shape>,
    pub(crate) networks: BTreeMap<String, Network>,
}

/// How large a generated graph is.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shape {
    pub(crate) nodes: u32,
    pub(crate) degree: u32,
    pub(crate) features: u32,
    pub(crate) classes: u32,
}

/// A network on a data set.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Network {
    pub(crate) layers: usize,
    /// How many of the last layers are linear.
    #[serde(default)]
    pub(crate) linear: usize,
    /// Columns between the layers.
    pub(crate) hidden: Hidden,
    pub(crate) dropout: f32,
}

/// Columns between layers.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hidden {
    /// In the paper, for the record; what is measured is narrower, as the graphs are smaller.
    pub(crate) paper: usize,
    pub(crate) quick: usize,
    pub(crate) full: usize,
    /// Those of the full run's runs over a link, where they are more: what the sums of weight gradients and a row's
    /// metadata weigh depends on them, scores hardly.
    pub(crate) timed: Option<usize>,
}

/// A figure or table of the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Item {
    pub(crate) id: String,
    pub(crate) title: String,
    /// Where the paper has it.
    pub(crate) place: String,
    pub(crate) kind: Kind,
    /// Generated data sets.
    pub(crate) data: Vec<String>,
    /// Real ones, where the user's folder has them.
    #[serde(default)]
    pub(crate) real: Vec<String>,
    #[serde(deserialize_with = "words")]
    pub(crate) models: Vec<ModelKind>,
    /// The first chooses the links of those that say no percentage of their own.
    pub(crate) layouts: Vec<Layout>,
    /// The first is what the others are compared with.
    pub(crate) policies: Vec<Policy>,
    /// What is expected here, and why.
    pub(crate) expects: String,
    pub(crate) quick: Effort,
    pub(crate) full: Effort,
    #[serde(default)]
    pub(crate) paper: Vec<Reported>,
}

/// What is made of an item's runs.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// The share of an epoch in which full precision stands still.
    Share,
    /// Epochs a second, over those of full precision.
    Throughput,
    /// The same, and test scores.
    Accuracy,
    /// Bytes, and where the time goes.
    Volume,
    /// Validation scores over epochs.
    Convergence,
    /// Epochs at several widths.
    Widths,
    /// Test scores where all rows are quantised.
    Ablation,
    /// The codec's share of an epoch.
    Codec,
    /// One epoch of each policy, step by step.
    Traces,
    /// Epochs on hosts that are joined by shaped links, beside the modelled link.
    Hosts,
}

impl Kind {
    /// Whether runs are timed over a link.
    pub(crate) fn is_timed(self) -> bool {
        !matches!(self, Self::Convergence | Self::Ablation | Self::Hosts)
    }

    /// Whether runs are trained to the end and evaluated.
    pub(crate) fn is_trained(self) -> bool {
        matches!(self, Self::Accuracy | Self::Convergence | Self::Ablation)
    }
}

/// Ranks and hosts.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layout {
    pub(crate) name: String,
    pub(crate) parts: u32,
    pub(crate) ranks_per_host: usize,
    /// Computation in percent of fp32's epoch, by data set, where it is not the set's own.
    #[serde(default)]
    pub(crate) percent: BTreeMap<String, f64>,
    pub(crate) latency_us: u64,
}

impl Layout {
    /// Hosts of the ranks.
    pub(crate) fn n_hosts(&self) -> usize {
        (self.parts as usize).div_ceil(self.ranks_per_host.max(1))
    }
}

/// A policy: a preset, and what is different.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Policy {
    pub(crate) name: String,
    #[serde(deserialize_with = "word")]
    pub(crate) preset: Preset,
    /// Width of what is sent, both ways.
    #[serde(default, deserialize_with = "optional_word")]
    pub(crate) bits: Option<Width>,
    pub(crate) staleness: Option<u32>,
    #[serde(default, deserialize_with = "optional_word")]
    pub(crate) smooth: Option<Directions>,
    pub(crate) sampling: Option<f64>,
    /// Seeds trained with, where fewer than the item's.
    pub(crate) seeds: Option<u32>,
}

impl Policy {
    pub(crate) fn exchange(&self) -> ExchangePolicy {
        let mut exchange = self.preset.policy();
        if let Some(width) = self.bits {
            exchange.forward = vec![RowCodec::new(width)];
            exchange.backward = vec![RowCodec::new(width)];
        }
        exchange.staleness = self.staleness.unwrap_or(exchange.staleness);
        exchange.smooth = self.smooth.or(exchange.smooth);
        exchange.boundary_sampling = self.sampling.or(exchange.boundary_sampling);
        // Decoding is a step of its own, as in the paper: packed rows are decoded as they are summed.
        exchange.halo = HaloRows::F32;
        exchange
    }
}

/// How much is measured.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Effort {
    /// Pairs of data set and model; without any, all of the item's.
    #[serde(default)]
    pub(crate) cells: Vec<(String, String)>,
    /// Epochs of a timed run over its link that are not counted; 8 without a link come before them.
    #[serde(default)]
    pub(crate) warm_epochs: usize,
    /// Seconds that the epochs measured of a timed run may take; one at least is measured.
    #[serde(default)]
    pub(crate) seconds: f64,
    /// Seeds of trained runs, from 1.
    #[serde(default)]
    pub(crate) seeds: u32,
    #[serde(default)]
    pub(crate) epochs: u32,
    /// Epochs of trained runs on data sets that take more.
    #[serde(default)]
    pub(crate) longer: BTreeMap<String, u32>,
    #[serde(default)]
    pub(crate) eval_every: u32,
    /// Seconds that the item may take; what is not begun by then is left out, and said to be.
    pub(crate) budget_s: f64,
}

impl Effort {
    /// Epochs of a trained run.
    pub(crate) fn epochs_on(&self, data: &str) -> u32 {
        self.longer.get(data).copied().unwrap_or(self.epochs)
    }
}

/// What the paper reports of a data set and model.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reported {
    pub(crate) data: String,
    #[serde(deserialize_with = "word")]
    pub(crate) model: ModelKind,
    /// The layout, where there are several.
    pub(crate) layout: Option<String>,
    /// What the figures are, as `throughput` or `test score, %`.
    pub(crate) figure: String,
    /// By the policies' names.
    pub(crate) values: BTreeMap<String, f64>,
}

impl Definitions {
    /// Reads all files of a folder.
    ///
    /// # Errors
    /// A file that cannot be read, has an unknown key, or names what there is not.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let entries = fs::read_dir(folder)
            .with_context(|| format!("no definitions in {}", folder.display()))?;
        let mut files = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == "toml") {
                let text = fs::read_to_string(&path);
                let text = text.with_context(|| path.display().to_string())?;
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                files.push((name, text));
            }
        }
        files.sort();
        Self::parse(files).with_context(|| format!("definitions in {}", folder.display()))
    }

    /// Reads files given by name and text, [`SETS`] among them.
    ///
    /// # Errors
    /// As [`Definitions::read`].
    pub(crate) fn parse(files: Vec<(String, String)>) -> Result<Self> {
        let sets = files.iter().find(|(name, _)| name == SETS);
        let sets = sets.with_context(|| format!("{SETS} is missing"))?;
        let sets: BTreeMap<String, Set> = parse(&sets.0, &sets.1)?;
        for (name, set) in &sets {
            set.check().with_context(|| format!("{SETS}: {name}"))?;
        }
        let mut items: Vec<Item> = Vec::new();
        for (name, text) in files.iter().filter(|(name, _)| name != SETS) {
            let item: Item = parse(name, text)?;
            item.check(&sets).with_context(|| name.clone())?;
            for other in &items {
                item.check_beside(other).with_context(|| name.clone())?;
            }
            items.push(item);
        }
        Ok(Self { sets, items, files })
    }
}

fn parse<T: DeserializeOwned>(name: &str, text: &str) -> Result<T> {
    // The message shows line and key.
    toml::from_str(text).with_context(|| format!("{name} is no definition"))
}

impl Set {
    /// How nodes are assigned to parts. At random nearly every row is read by every part, as METIS too leaves it on
    /// graphs as dense as the paper's.
    pub(crate) fn method(&self) -> Method {
        self.partitioner.unwrap_or(Method::Random)
    }

    fn check(&self) -> Result<()> {
        let is_generated = self.path.is_none();
        ensure!(
            is_generated == (self.quick.is_some() && self.full.is_some()),
            "a set has a path, or both shapes `quick` and `full`"
        );
        ensure!(!is_generated || self.percent.is_some(), "a generated set has a `percent`");
        for name in self.networks.keys() {
            name.parse::<ModelKind>()?;
        }
        Ok(())
    }
}

impl Item {
    /// The policy that the others are compared with.
    pub(crate) fn baseline(&self) -> &str {
        &self.policies[0].name
    }

    /// The name of the first policy of a preset.
    pub(crate) fn named(&self, preset: Preset) -> Option<&str> {
        self.policies
            .iter()
            .find(|policy| policy.preset == preset)
            .map(|policy| policy.name.as_str())
    }

    /// What the paper reports of a policy.
    pub(crate) fn reported(
        &self,
        (data, model): (&str, ModelKind),
        layout: &str,
        figure: &str,
        policy: &str,
    ) -> Option<f64> {
        let is_meant = |reported: &&Reported| {
            (reported.data.as_str(), reported.model) == (data, model)
                && reported.figure == figure
                && reported.layout.as_deref().is_none_or(|name| name == layout)
        };
        self.paper.iter().filter(is_meant).find_map(|reported| reported.values.get(policy).copied())
    }

    fn check(&self, sets: &BTreeMap<String, Set>) -> Result<()> {
        let generated = self.data.iter().map(|name| (name, false));
        for (name, is_real) in generated.chain(self.real.iter().map(|name| (name, true))) {
            let set = sets.get(name);
            let set = set.with_context(|| format!("data set '{name}' is not in {SETS}"))?;
            let list = if is_real { "real" } else { "data" };
            ensure!(set.path.is_some() == is_real, "data set '{name}' does not belong in `{list}`");
            for model in self.models.iter().map(ToString::to_string) {
                ensure!(set.networks.contains_key(&model), "data set '{name}' has no {model}");
            }
        }
        ensure!(!self.layouts.is_empty() && !self.policies.is_empty(), "no layout or no policy");
        for layout in &self.layouts {
            let name = &layout.name;
            ensure!(layout.parts > 0 && layout.ranks_per_host > 0, "layout '{name}' has no ranks");
            ensure!(
                !self.kind.is_timed() || layout.n_hosts() > 1,
                "layout '{name}': one host alone has no link to cross"
            );
        }
        for reported in &self.paper {
            let known = |name: &String| self.policies.iter().any(|policy| policy.name == *name);
            let unknown = reported.values.keys().find(|name| !known(name));
            ensure!(
                unknown.is_none(),
                "the paper's figure of '{}', which is no policy",
                unknown.map_or("", |name| name)
            );
            ensure!(self.data.contains(&reported.data), "figures of data set '{}'", reported.data);
        }
        for (data, model) in self.quick.cells.iter().chain(&self.full.cells) {
            let model: ModelKind = model.parse()?;
            let is_set = self.data.contains(data) || self.real.contains(data);
            let is_known = is_set && self.models.contains(&model);
            ensure!(is_known, "the cell of {data} and {model} is none of the item's");
        }
        for (name, effort) in [("quick", &self.quick), ("full", &self.full)] {
            let is_timed = effort.warm_epochs > 0 && effort.seconds > 0.0;
            ensure!(!self.kind.is_timed() || is_timed, "{name}: `warm_epochs` and `seconds`");
            let is_trained = effort.seeds > 0 && effort.epochs > 0 && effort.eval_every > 0;
            ensure!(
                !self.kind.is_trained() || is_trained,
                "{name}: `seeds`, `epochs`, `eval_every`"
            );
            ensure!(
                effort.longer.is_empty() || self.kind.is_trained(),
                "{name}: `longer`, and nothing is trained"
            );
            for (data, &epochs) in &effort.longer {
                let is_set = self.data.contains(data) || self.real.contains(data);
                ensure!(is_set && epochs > 0, "{name}: `longer` has {epochs} epochs on '{data}'");
            }
        }
        if self.kind == Kind::Hosts { self.check_hosts(sets) } else { Ok(()) }
    }

    /// Runs are shared by name between items: a name means one thing.
    fn check_beside(&self, other: &Self) -> Result<()> {
        ensure!(self.id != other.id, "another item has the id {}", self.id);
        for (mine, theirs) in pairs(&self.policies, &other.policies) {
            let is_same = mine.exchange() == theirs.exchange();
            ensure!(
                mine.name != theirs.name || is_same,
                "policy '{}' is another in {}",
                mine.name,
                other.id
            );
        }
        for (mine, theirs) in pairs(&self.layouts, &other.layouts) {
            let is_same = mine == theirs;
            ensure!(
                mine.name != theirs.name || is_same,
                "layout '{}' is another in {}",
                mine.name,
                other.id
            );
        }
        Ok(())
    }
}

fn pairs<'a, T>(a: &'a [T], b: &'a [T]) -> impl Iterator<Item = (&'a T, &'a T)> {
    a.iter().flat_map(move |a| b.iter().map(move |b| (a, b)))
}

fn word<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(from: D) -> Result<T, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

fn optional_word<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    word(from).map(Some)
}

fn words<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(from: D) -> Result<Vec<T>, D::Error> {
    let words = Vec::<String>::deserialize(from)?;
    words.iter().map(|word| word.parse().map_err(D::Error::custom)).collect()
}
