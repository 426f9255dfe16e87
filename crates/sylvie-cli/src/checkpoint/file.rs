//! A safetensors file with a checksum of its own.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize_to_file};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use sylvie::data::shown;

use super::{Head, VERSION};
use crate::fingerprint::hexadecimal;
use crate::input;

/// The key of the metadata.
const KEY: &str = "sylvie";

/// Tensors to write, by name.
#[derive(Default)]
pub(super) struct Tensors(BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>);

impl Tensors {
    pub(super) fn f32(&mut self, name: String, shape: Vec<usize>, values: &[f32]) {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.0.insert(name, (Dtype::F32, shape, bytes));
    }

    pub(super) fn f64(&mut self, name: &str, values: &[f64]) {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.0.insert(name.to_owned(), (Dtype::F64, vec![values.len()], bytes));
    }
}

/// The metadata: a text, and the sum of it and of all tensors.
#[derive(Serialize, Deserialize)]
struct Sealed {
    head: String,
    sha256: String,
}

/// The sum of a file's contents.
fn sum<'a>(
    head: &str,
    tensors: impl Iterator<Item = (&'a str, Dtype, &'a [usize], &'a [u8])>,
) -> String {
    let mut sum = Sha256::new();
    let mut part = |bytes: &[u8]| {
        sum.update((bytes.len() as u64).to_le_bytes());
        sum.update(bytes);
    };
    part(head.as_bytes());
    for (name, dtype, shape, bytes) in tensors {
        part(name.as_bytes());
        part(format!("{dtype:?} {shape:?}").as_bytes());
        part(bytes);
    }
    hexadecimal(&sum.finalize())
}

/// Writes a file; it is on the disk when this returns.
///
/// # Errors
/// What the system says.
pub(super) fn write(path: &Path, head: &impl Serialize, tensors: &Tensors) -> Result<()> {
    let head = serde_json::to_string(head)?;
    let all = tensors.0.iter().map(|(name, (dtype, shape, bytes))| {
        (name.as_str(), *dtype, shape.as_slice(), bytes.as_slice())
    });
    let sha256 = sum(&head, all);
    let mut views = Vec::with_capacity(tensors.0.len());
    for (name, (dtype, shape, bytes)) in &tensors.0 {
        views.push((name.as_str(), TensorView::new(*dtype, shape.clone(), bytes)?));
    }
    let metadata = serde_json::to_string(&Sealed { head, sha256 })?;
    let metadata = HashMap::from([(KEY.to_owned(), metadata)]);
    serialize_to_file(views, Some(metadata), path).with_context(|| shown(path))?;
    File::open(path).and_then(|file| file.sync_all()).with_context(|| shown(path))
}

/// Tensors that were read, by name.
pub(super) struct Found {
    f32: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    f64: BTreeMap<String, Vec<f64>>,
}

impl Found {
    /// Takes a tensor out.
    pub(super) fn f32(&mut self, name: &str) -> Result<(Vec<usize>, Vec<f32>)> {
        self.f32.remove(name).with_context(|| format!("no tensor {name}"))
    }

    /// Takes three numbers out.
    pub(super) fn three(&mut self, name: &str) -> Result<[f64; 3]> {
        let values = self.f64.remove(name).with_context(|| format!("no tensor {name}"))?;
        values.try_into().ok().with_context(|| format!("tensor {name}: not three numbers"))
    }
}

/// Reads a file and checks that it is as it was written.
///
/// # Errors
/// A file that cannot be read, is cut short or altered, or is of another version.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<(Head<T>, Found)> {
    let read = || -> Result<(Head<T>, Found)> {
        ensure!(path.exists(), "is missing, and the checkpoint is not whole without it");
        let bytes = input::read(path)?;
        let (_, header) =
            SafeTensors::read_metadata(&bytes).context("damaged: no safetensors header")?;
        let sealed = header.metadata().as_ref().and_then(|map| map.get(KEY));
        let sealed = sealed.with_context(|| format!("no checkpoint: no metadata `{KEY}`"))?;
        let sealed: Sealed = serde_json::from_str(sealed).context("no checkpoint")?;
        let tensors = SafeTensors::deserialize(&bytes).context("damaged")?;
        let mut all = tensors.tensors();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let named = all
            .iter()
            .map(|(name, tensor)| (name.as_str(), tensor.dtype(), tensor.shape(), tensor.data()));
        ensure!(sum(&sealed.head, named) == sealed.sha256, "damaged: its SHA-256 is another");
        let version: AnyVersion = serde_json::from_str(&sealed.head).context("no checkpoint")?;
        ensure!(
            version.version == VERSION,
            "written in version {} of the format; this program reads version {VERSION}",
            version.version
        );
        let head = serde_json::from_str(&sealed.head).context("another file of a checkpoint")?;
        let mut found = Found { f32: BTreeMap::new(), f64: BTreeMap::new() };
        for (name, tensor) in all {
            match tensor.dtype() {
                Dtype::F32 => {
                    let (words, _) = tensor.data().as_chunks::<4>();
                    let values = words.iter().map(|word| f32::from_le_bytes(*word)).collect();
                    found.f32.insert(name, (tensor.shape().to_vec(), values));
                }
                _ => {
                    let (words, _) = tensor.data().as_chunks::<8>();
                    let values = words.iter().map(|word| f64::from_le_bytes(*word)).collect();
                    found.f64.insert(name, values);
                }
            }
        }
        Ok((head, found))
    };
    read().with_context(|| shown(path))
}

#[derive(Deserialize)]
struct AnyVersion {
    version: u32,
}

/// Makes a folder's entries last.
pub(super) fn sync_folder(path: &Path) -> Result<()> {
    // Only Unix opens folders.
    if cfg!(unix) {
        fs::File::open(path).and_then(|folder| folder.sync_all()).with_context(|| shown(path))?;
    }
    Ok(())
}
