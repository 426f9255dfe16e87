//! Weights as safetensors.
//!
//! Tensors are `layers.N.w` and so on, float32, `[in, out]`; biases and LayerNorm's two are `[out]`,
//! attention vectors `[heads, columns]`. The metadata has one key, `sylvie`, with a JSON object that
//! says what network it is: the file format keeps its map in no order, and the same run shall give the
//! same bytes.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize};
use serde::{Deserialize, Serialize};
use sylvie::data::shown;
use sylvie::gnn::{ModelConfig, TensorSpec, Weights};
use sylvie::graph::Labels;
use sylvie::tensor::CpuBackend;

use crate::input;

/// The key of the metadata.
const KEY: &str = "sylvie";

/// What the metadata say of a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Description {
    model: String,
    widths: Vec<usize>,
    linear_layers: usize,
    heads: usize,
    norm: String,
    /// Missing in files of before it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<LabelKind>,
}

/// How many classes a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LabelKind {
    #[serde(rename = "one a node")]
    Single,
    #[serde(rename = "several a node")]
    Multi,
}

impl LabelKind {
    /// That of a graph's labels.
    pub(crate) fn of(labels: &Labels) -> Self {
        if labels.is_multi() { Self::Multi } else { Self::Single }
    }

    /// The words for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Single => "one a node",
            Self::Multi => "several a node",
        }
    }
}

impl Description {
    fn new(config: &ModelConfig, labels: LabelKind) -> Self {
        Self {
            labels: Some(labels),
            model: config.kind.to_string(),
            widths: config.widths.clone(),
            linear_layers: config.n_linear,
            heads: config.n_heads,
            norm: config.norm.to_string(),
        }
    }
}

/// The file that holds `weights`.
///
/// # Errors
/// None that is known of: names are distinct and shapes agree.
pub(crate) fn to_bytes(
    config: &ModelConfig,
    labels: LabelKind,
    weights: &[Vec<f32>],
) -> Result<Vec<u8>> {
    let specs = Weights::<CpuBackend>::specs(config);
    let encoded: Vec<Vec<u8>> = weights
        .iter()
        .map(|values| values.iter().flat_map(|value| value.to_le_bytes()).collect())
        .collect();
    let mut tensors = Vec::with_capacity(specs.len());
    for ((name, spec), bytes) in specs.iter().zip(&encoded) {
        tensors.push((name.as_str(), TensorView::new(Dtype::F32, shape(spec), bytes)?));
    }
    let description = serde_json::to_string(&Description::new(config, labels))?;
    Ok(serialize(tensors, Some(HashMap::from([(KEY.to_owned(), description)])))?)
}

/// How a tensor is stored.
fn shape(spec: &TensorSpec) -> Vec<usize> {
    match spec.name {
        "b" | "ln_w" | "ln_b" => vec![spec.n_cols],
        _ => vec![spec.n_rows, spec.n_cols],
    }
}

/// A file of weights that has been read.
#[derive(Debug)]
pub(crate) struct ModelFile {
    path: PathBuf,
    description: Option<Description>,
    tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

impl ModelFile {
    /// Reads a file; whether it fits a network is seen later.
    ///
    /// # Errors
    /// A file that cannot be read, is no safetensors, or holds anything but finite float32 values.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let read = || -> Result<Self> {
            let bytes = input::read(path)?;
            let (_, header) =
                SafeTensors::read_metadata(&bytes).context("not a readable safetensors file")?;
            let description = header.metadata().as_ref().and_then(|map| map.get(KEY));
            let description = description.map(|text| serde_json::from_str(text)).transpose();
            let description = description.with_context(|| format!("metadata `{KEY}`"))?;
            let mut tensors = BTreeMap::new();
            for (name, tensor) in SafeTensors::deserialize(&bytes)?.iter() {
                let values = values(&tensor).with_context(|| format!("tensor {name}"))?;
                tensors.insert(name.to_owned(), (tensor.shape().to_vec(), values));
            }
            Ok(Self { path: path.to_owned(), description, tensors })
        };
        read().with_context(|| shown(path))
    }

    /// Checks that the file says to hold a network of this form, for the graph `data`.
    ///
    /// # Errors
    /// No description, or the first thing in which it differs.
    pub(crate) fn check(&self, config: &ModelConfig, labels: LabelKind, data: &str) -> Result<()> {
        let path = shown(&self.path);
        let Some(found) = &self.description else {
            bail!("{path}: no metadata `{KEY}` that say what network this is");
        };
        let expected = Description::new(config, labels);
        for (what, found, expected) in [
            ("features", found.widths.first(), expected.widths.first()),
            ("classes", found.widths.last(), expected.widths.last()),
        ] {
            let (found, expected) = (found.unwrap_or(&0), expected.unwrap_or(&0));
            ensure!(
                found == expected,
                "{data} has {expected} {what}, but the network in {path} is for {found}"
            );
        }
        let found_labels = found.labels.unwrap_or(labels);
        ensure!(
            found_labels == labels,
            "{data} has classes {}, but the network in {path} is for {}",
            labels.name(),
            found_labels.name()
        );
        if *found != (Description { labels: found.labels, ..expected.clone() }) {
            let (found, expected) =
                (serde_json::to_string(found)?, serde_json::to_string(&expected)?);
            bail!("{path} holds {found}, but the settings beside it say {expected}");
        }
        Ok(())
    }

    /// The weights of a network of this form, in the order in which it keeps them.
    ///
    /// # Errors
    /// Tensors that are missing, that the network has not, or that have another shape, by name.
    pub(crate) fn into_weights(mut self, config: &ModelConfig) -> Result<Vec<Vec<f32>>> {
        let path = shown(&self.path);
        let specs = Weights::<CpuBackend>::specs(config);
        let missing: Vec<&str> = specs
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| !self.tensors.contains_key(*name))
            .collect();
        ensure!(missing.is_empty(), "{path}: the network needs {}", missing.join(", "));
        let is_known = |found: &&str| specs.iter().any(|(name, _)| name == found);
        let found = self.tensors.keys().map(String::as_str);
        let extra: Vec<&str> = found.filter(|name| !is_known(name)).collect();
        ensure!(extra.is_empty(), "{path}: the network has no {}", extra.join(", "));
        let mut weights = Vec::with_capacity(specs.len());
        for (name, spec) in &specs {
            let (found, values) = self.tensors.remove(name).unwrap_or_default();
            let matches = found == shape(spec) || found == [spec.n_rows, spec.n_cols];
            ensure!(
                matches,
                "{path}: {name} has shape {found:?}, but the network needs {:?}",
                shape(spec)
            );
            weights.push(values);
        }
        Ok(weights)
    }
}

fn values(tensor: &TensorView<'_>) -> Result<Vec<f32>> {
    ensure!(tensor.dtype() == Dtype::F32, "type {:?} where F32 is expected", tensor.dtype());
    let (words, _) = tensor.data().as_chunks::<4>();
    let values: Vec<f32> = words.iter().map(|word| f32::from_le_bytes(*word)).collect();
    ensure!(values.iter().all(|value| value.is_finite()), "a value is not a finite number");
    Ok(values)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use sylvie::gnn::{ModelKind, NormKind};

    use super::*;

    fn config(kind: ModelKind) -> ModelConfig {
        ModelConfig {
            kind,
            widths: vec![5, 4, 4, 3],
            n_linear: 1,
            n_heads: 1,
            dropout: 0.0,
            norm: NormKind::Layer,
        }
    }

    fn written(config: &ModelConfig) -> (Vec<Vec<f32>>, Vec<u8>) {
        let specs = Weights::<CpuBackend>::specs(config).into_iter();
        let weights = specs.map(|(_, spec)| {
            (0..spec.n_rows * spec.n_cols).map(|place| place as f32 - 0.5).collect()
        });
        let weights: Vec<Vec<f32>> = weights.collect();
        let bytes = to_bytes(config, LabelKind::Single, &weights).unwrap();
        (weights, bytes)
    }

    fn read(bytes: &[u8]) -> Result<ModelFile> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("weights");
        fs::write(&path, bytes)?;
        ModelFile::read(&path)
    }

    #[test]
    fn what_is_written_is_read_back() {
        for kind in [ModelKind::Gcn, ModelKind::Sage, ModelKind::Gat] {
            let config = config(kind);
            let (weights, bytes) = written(&config);
            let file = read(&bytes).unwrap();
            file.check(&config, LabelKind::Single, "a graph").unwrap();
            assert_eq!(file.into_weights(&config).unwrap(), weights);
            assert_eq!(to_bytes(&config, LabelKind::Single, &weights).unwrap(), bytes);
        }
    }

    #[test]
    fn shapes_are_those_that_other_readers_expect() {
        let (_, bytes) = written(&config(ModelKind::Gat));
        let file = SafeTensors::deserialize(&bytes).unwrap();
        for (name, shape) in [
            ("layers.0.w", vec![5, 4]),
            ("layers.0.a_src", vec![1, 4]),
            ("layers.0.b", vec![4]),
            ("layers.1.ln_w", vec![4]),
            ("layers.2.w", vec![4, 3]),
        ] {
            assert_eq!(file.tensor(name).unwrap().shape(), shape, "{name}");
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let sage = config(ModelKind::Sage);
        let (_, bytes) = written(&sage);
        let refused = |other: ModelConfig| {
            let error = read(&bytes).unwrap().into_weights(&other).unwrap_err();
            format!("{error:#}")
        };
        let missing = refused(config(ModelKind::Gcn));
        assert!(missing.contains("needs layers.0.w, layers.1.w"), "{missing}");
        let extra = refused(ModelConfig { norm: NormKind::None, ..sage.clone() });
        assert!(extra.contains("no layers.0.ln_b, layers.0.ln_w"), "{extra}");
        let shape = refused(ModelConfig { widths: vec![6, 4, 4, 3], ..sage.clone() });
        assert!(shape.contains("layers.0.w_self has shape [5, 4]"), "{shape}");
        assert!(shape.contains("[6, 4]"), "{shape}");

        let check = |other: ModelConfig| {
            format!(
                "{:#}",
                read(&bytes).unwrap().check(&other, LabelKind::Single, "graph.npz").unwrap_err()
            )
        };
        let features = check(ModelConfig { widths: vec![6, 4, 4, 3], ..sage.clone() });
        assert!(features.starts_with("graph.npz has 6 features"), "{features}");
        let classes = check(ModelConfig { widths: vec![5, 4, 4, 9], ..sage.clone() });
        assert!(classes.starts_with("graph.npz has 9 classes"), "{classes}");
        let labels = read(&bytes).unwrap().check(&sage, LabelKind::Multi, "graph.npz").unwrap_err();
        assert!(labels.to_string().starts_with("graph.npz has classes several a node"), "{labels}");
        let other = check(ModelConfig { n_linear: 0, ..sage });
        assert!(other.contains("but the settings beside it say"), "{other}");
    }

    #[test]
    fn every_cut_of_a_file_is_refused() {
        let (_, bytes) = written(&config(ModelKind::Gcn));
        for n_bytes in (0..bytes.len()).step_by(7) {
            read(&bytes[..n_bytes]).unwrap_err();
        }
    }
}
