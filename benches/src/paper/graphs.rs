//! The graphs that are trained on, in parts: generated in the shape of the paper's, or the user's own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context as _, Result, ensure};
use sylvie::data::{self, Normalization, ReadOptions, SplitRule};
use sylvie::gnn::{ModelConfig, ModelKind, NormKind};
use sylvie::graph::Dataset;

use super::definition::{Hidden, Network, Set, Shape};
use crate::policies::split::{Nodes, Split};

/// Seed of generated graphs and of drawn splits.
const SEED: u64 = 1;

/// Whether a run is a first look or the whole measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Quick,
    Full,
}

/// Graphs and their parts, each made once.
pub(crate) struct Graphs {
    pub(crate) mode: Mode,
    /// Nodes of generated graphs over those of their definition.
    pub(crate) scale: f64,
    /// Where real graphs are.
    pub(crate) folder: Option<PathBuf>,
    datasets: BTreeMap<String, Rc<Dataset>>,
    splits: BTreeMap<(String, u32, Nodes), Rc<Split>>,
}

impl Graphs {
    pub(crate) fn new(mode: Mode, scale: f64, folder: Option<PathBuf>) -> Self {
        let (datasets, splits) = Default::default();
        Self { mode, scale, folder, datasets, splits }
    }

    /// Whether a set can be had: all that are generated, and real ones that the folder has.
    pub(crate) fn has(&self, set: &Set) -> bool {
        match (&set.path, &self.folder) {
            (None, _) => true,
            (Some(path), Some(folder)) => folder.join(path).exists(),
            (Some(_), None) => false,
        }
    }

    /// A set in parts.
    ///
    /// # Errors
    /// A graph that cannot be read or split.
    pub(crate) fn split(
        &mut self,
        (name, set): (&str, &Set),
        parts: u32,
        purpose: Use,
    ) -> Result<Rc<Split>> {
        let nodes = match (set.inductive, purpose) {
            (false, _) => Nodes::All,
            (true, Use::Timed) => Nodes::TrainingOnly,
            (true, Use::Trained) => Nodes::Inductive,
        };
        let key = (name.to_owned(), parts, nodes);
        if let Some(split) = self.splits.get(&key) {
            return Ok(Rc::clone(split));
        }
        let dataset = self.dataset(name, set)?;
        let split = Split::of(&dataset, set.method(), parts, nodes)
            .with_context(|| format!("{name} cannot be split into {parts} parts"))?;
        let split = Rc::new(split);
        self.splits.insert(key, Rc::clone(&split));
        Ok(split)
    }

    fn dataset(&mut self, name: &str, set: &Set) -> Result<Rc<Dataset>> {
        if let Some(dataset) = self.datasets.get(name) {
            return Ok(Rc::clone(dataset));
        }
        let split = match set.split {
            None => SplitRule::Given,
            Some([train, val]) => SplitRule::Random { train, val },
        };
        let normalization =
            if set.standardize { Normalization::Standard } else { Normalization::None };
        let options =
            ReadOptions { split, split_seed: SEED, normalization, ..ReadOptions::default() };
        let source = self.source(set)?;
        let dataset = data::read(&source, &options).with_context(|| name.to_owned())?;
        let dataset = Rc::new(dataset);
        self.datasets.insert(name.to_owned(), Rc::clone(&dataset));
        Ok(dataset)
    }

    /// The set as `sylvie train --data` takes it.
    ///
    /// # Errors
    /// A real set without a folder; a path that is no text.
    pub(crate) fn source(&self, set: &Set) -> Result<String> {
        if let Some(path) = &set.path {
            let folder = self.folder.as_ref().context("a real graph needs --data")?;
            let path = folder.join(path);
            return Ok(path.to_str().context("a path that is no text")?.to_owned());
        }
        let shape = match self.mode {
            Mode::Quick => set.quick,
            Mode::Full => set.full,
        };
        let Shape { nodes, degree, features, classes } = shape.context("a set without a shape")?;
        let nodes = (f64::from(nodes) * self.scale).round();
        ensure!((4.0..=1e8).contains(&nodes), "{nodes} nodes are too few or too many: --scale");
        Ok(format!(
            "synthetic:nodes={nodes},degree={degree},features={features},classes={classes},\
             locality={},noise={},multi={},seed={SEED}",
            set.locality,
            set.noise,
            u8::from(set.multi),
        ))
    }

    /// Columns between layers.
    pub(crate) fn hidden(&self, hidden: Hidden, purpose: Use) -> usize {
        match (self.mode, purpose) {
            (Mode::Quick, _) => hidden.quick,
            (Mode::Full, Use::Trained) => hidden.full,
            (Mode::Full, Use::Timed) => hidden.timed.unwrap_or(hidden.full),
        }
    }

    /// The network of a kind on a set.
    ///
    /// # Errors
    /// A set that has none of that kind.
    pub(crate) fn model(
        &self,
        set: &Set,
        kind: ModelKind,
        (split, purpose): (&Split, Use),
    ) -> Result<ModelConfig> {
        let network = set.networks.get(&kind.to_string());
        let Network { layers, linear, hidden, dropout } =
            *network.with_context(|| format!("no {kind} on {}", set.title))?;
        let mut widths = vec![self.hidden(hidden, purpose); layers + 1];
        (widths[0], widths[layers]) = (split.n_features, split.n_classes);
        let (n_linear, norm) = (linear, NormKind::Layer);
        let model = ModelConfig { kind, widths, n_linear, n_heads: 1, dropout, norm };
        model.check()?;
        Ok(model)
    }
}

/// What parts are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Epochs are timed, and nothing is evaluated.
    Timed,
    /// A network is trained to the end and evaluated.
    Trained,
}
