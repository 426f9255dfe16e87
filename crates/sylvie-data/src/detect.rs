//! Telling the format of a path by what lies there.

use std::fs;
use std::io::Read;
use std::path::Path;

use crate::edge_list::Edges;
use crate::error::DataError;
use crate::file;
use crate::npz::Archive;
use crate::options::Format;
use crate::{
    arrays, edge_list, gnn_benchmark, graphsaint, heterophilous, ogb, planetoid, reddit, synthetic,
};

/// Recognises the format of `source`: a folder by its files, an npz by its keys, `synthetic` or
/// `synthetic:key=value,...` by the word (a folder of that name is written `./synthetic`).
///
/// # Errors
/// Nothing there, an archive that cannot be read, or no known format.
///
/// # Example
/// ```
/// use sylvie_data::{Format, detect};
///
/// assert_eq!(detect("synthetic:nodes=100")?, Format::Synthetic);
/// assert!(detect("no-such-folder").is_err());
/// # Ok::<(), sylvie_data::DataError>(())
/// ```
pub fn detect(source: &str) -> Result<Format, DataError> {
    if synthetic::is_synthetic(source) {
        return Ok(Format::Synthetic);
    }
    let path = Path::new(source);
    let metadata = match fs::metadata(path) {
        // A set is named by what its files' names have in common.
        Err(_) if planetoid::stem(path)?.is_some() => return Ok(Format::Planetoid),
        metadata => metadata.map_err(DataError::open(path))?,
    };
    let format = if metadata.is_dir() { detect_folder(path)? } else { detect_file(path)? };
    format.ok_or_else(|| DataError::UnknownFormat { path: path.to_owned() })
}

/// Whether a data set brings a split of its own, so that reading it draws none.
///
/// # Errors
/// As [`detect`], where no format is given.
///
/// # Example
/// ```
/// assert!(!sylvie_data::has_own_split("synthetic:nodes=100", None)?);
/// # Ok::<(), sylvie_data::DataError>(())
/// ```
pub fn has_own_split(source: &str, format: Option<Format>) -> Result<bool, DataError> {
    let path = Path::new(source);
    Ok(match format.map_or_else(|| detect(source), Ok)? {
        Format::Synthetic => false,
        Format::GnnBenchmark => gnn_benchmark::split_beside(path).is_some(),
        Format::EdgeList | Format::MatrixMarket => edge_list::has_split(path),
        Format::Arrays => arrays::has_split(path),
        Format::GraphSaint => graphsaint::has_split(path),
        Format::Ogb => ogb::has_split(path),
        Format::Heterophilous | Format::Reddit | Format::Planetoid => true,
    })
}

fn detect_folder(path: &Path) -> Result<Option<Format>, DataError> {
    let has = |name: &str| path.join(name).is_file();
    let told_by_files = [
        (Format::GraphSaint, has(graphsaint::ADJACENCY_FILE)),
        (Format::Arrays, has("indptr.npy") && has("indices.npy")),
        (Format::Ogb, ogb::is_here(path)),
        (Format::Reddit, has(reddit::GRAPH_FILE)),
        (Format::EdgeList, Edges::List.are_in(path)),
        (Format::MatrixMarket, Edges::Matrix.are_in(path)),
    ];
    let format = told_by_files.into_iter().find(|&(_, is_here)| is_here).map(|(format, _)| format);
    match format {
        None => Ok(planetoid::stem(path)?.map(|_| Format::Planetoid)),
        known => Ok(known),
    }
}

fn detect_file(path: &Path) -> Result<Option<Format>, DataError> {
    if planetoid::stem(path)?.is_some() {
        return Ok(Some(Format::Planetoid));
    }
    let is_npz = path.extension().is_some_and(|extension| extension == "npz");
    if !is_npz && !begins_like_zip(path)? {
        return Ok(None);
    }
    let archive = Archive::open(path)?;
    if heterophilous::KEYS.iter().all(|key| archive.has(key)) {
        return Ok(Some(Format::Heterophilous));
    }
    let is_gnn_benchmark = gnn_benchmark::ADJACENCY_KEYS.iter().any(|key| archive.has(key));
    Ok(is_gnn_benchmark.then_some(Format::GnnBenchmark))
}

fn begins_like_zip(path: &Path) -> Result<bool, DataError> {
    let mut first = Vec::new();
    let file = file::open(path)?;
    file.take(2).read_to_end(&mut first).map_err(DataError::open(path))?;
    Ok(first == b"PK")
}
