//! From a path to a data set that is ready to train on.

use std::path::Path;

use sylvie_graph::{Dataset, DenseMatrix, Features};

use crate::detect::detect;
use crate::edge_list::Edges;
use crate::error::{DataError, Place};
use crate::file::expect_folder;
use crate::options::{Format, Normalization, ReadOptions};
use crate::{
    arrays, edge_list, gnn_benchmark, graphsaint, heterophilous, normalization, ogb, planetoid,
    reddit, splits, synthetic,
};

/// Reads `source`, cleans its edges, normalises its features, and checks the whole.
///
/// Where a file holds an adjacency matrix, column `j` in row `i` is an edge from `i` to `j`; with
/// [`Direction::Directed`](sylvie_graph::Direction::Directed) node `j` reads node `i` and not the other
/// way round.
///
/// # Cost
/// Linear in the file, plus sorting each node's neighbours; a few times the memory of the graph while
/// edges are cleaned. No allocation is sized by a number in a file before as many bytes were seen.
/// # Errors
/// Anything that keeps the files from being a graph with features, labels, and a split of which no set
/// is empty, with the file and the place in it.
/// # Example
/// ```
/// let dataset = sylvie_data::read("synthetic:nodes=1000", &Default::default())?;
/// assert_eq!(dataset.n_nodes(), 1000);
/// # Ok::<(), sylvie_data::DataError>(())
/// ```
pub fn read(source: &str, options: &ReadOptions) -> Result<Dataset, DataError> {
    let format = match options.format {
        Some(format) => format,
        None => detect(source)?,
    };
    let path = Path::new(source);
    let has_splits = matches!(format, Format::Heterophilous | Format::Ogb);
    if !has_splits && options.split_index > 0 {
        let (place, index) = (Place::file(path), options.split_index);
        return Err(DataError::NoSuchSplit { place, index, n_splits: 1 });
    }
    if format.is_folder() {
        expect_folder(path)?;
    }
    let raw = match format {
        Format::Arrays => arrays::read(path, options.split_seed)?,
        Format::GnnBenchmark => gnn_benchmark::read(path, options.split_seed)?,
        Format::GraphSaint => graphsaint::read(path, options.split_seed)?,
        Format::Heterophilous => heterophilous::read(path, options.split_index)?,
        Format::Ogb => ogb::read(path, options.split_index, options.split_seed)?,
        Format::Reddit => reddit::read(path)?,
        Format::Planetoid => planetoid::read(path)?,
        Format::EdgeList => edge_list::read(path, Edges::List, options.split_seed)?,
        Format::MatrixMarket => edge_list::read(path, Edges::Matrix, options.split_seed)?,
        Format::Synthetic => synthetic::generate(source, options.split_seed)?,
    };
    let place = Place::file(path);
    let mut dataset = raw.clean(options.direction)?;
    if let Some(split) =
        splits::draw_by(&place, options.split, &dataset.labels, options.split_seed)?
    {
        dataset.split = split;
    }
    // Readers check the values of features, and say where in their file one is not finite.
    dataset.check_fit().map_err(DataError::graph(&place))?;
    if options.normalization != Normalization::None {
        let Dataset { features, split, .. } = &mut dataset;
        let given = std::mem::replace(features, Features::Dense(DenseMatrix::default()));
        *features = normalization::apply(&place, given, split, options.normalization)?;
        dataset.check().map_err(DataError::graph(&place))?;
    }
    Ok(dataset)
}
