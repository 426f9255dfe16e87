//! From numbers in files to labels.

use sylvie_graph::{GraphError, Labels, SparseMatrix, UNLABELLED};

use crate::error::{DataError, Place};
use crate::npy::Array;
use crate::sparse::check_density;

/// What a file writes for a node without a label.
pub(crate) const NO_LABEL: i64 = -1;
/// What stands in a row of zeros and ones for what is not known.
pub(crate) const MISSING_FLAG: u8 = 2;

/// One class a node: from 0, or -1 for none.
///
/// # Errors
/// A class below -1, or one not below the number of nodes: no real set has more classes than nodes,
/// and a number in a file must not size a network.
pub(crate) fn single(array: &Array<i64>) -> Result<Labels, DataError> {
    let n_nodes = array.values.len();
    check_n_nodes(&array.place, n_nodes)?;
    let mut classes = Vec::with_capacity(n_nodes);
    let mut n_classes = 0;
    for (position, &label) in array.values.iter().enumerate() {
        let class = match u32::try_from(label) {
            _ if label == NO_LABEL => UNLABELLED,
            Ok(class) if (class as usize) < n_nodes && class != UNLABELLED => class,
            _ => {
                let expected = format!("a class from 0 to {}, or -1", n_nodes.saturating_sub(1));
                let (place, value) = (array.place.clone(), label.to_string());
                return Err(DataError::BadValue { place, position, value, expected });
            }
        };
        if class != UNLABELLED {
            n_classes = n_classes.max(class + 1);
        }
        classes.push(class);
    }
    Labels::single(n_classes, classes).map_err(DataError::graph(&array.place))
}

/// One class a node under any numbers: they become 0, 1, ... in ascending order; -1 stays none.
pub(crate) fn single_renumbered(place: &Place, values: &[i64]) -> Result<Labels, DataError> {
    let mut known: Vec<i64> = values.iter().copied().filter(|&label| label != NO_LABEL).collect();
    known.sort_unstable();
    known.dedup();
    let values = values.iter().map(|label| match known.binary_search(label) {
        Ok(class) => class as i64,
        Err(_) => NO_LABEL,
    });
    let values: Vec<i64> = values.collect();
    single(&Array { place: place.clone(), shape: vec![values.len()], values })
}

/// A row of zeros and ones a node; a row with [`MISSING_FLAG`] in it is not labelled, and becomes zeros.
pub(crate) fn multi(mut array: Array<u8>) -> Result<Labels, DataError> {
    let n_classes = array.shape.get(1).copied().unwrap_or(0);
    let Some(width) = u32::try_from(n_classes).ok().filter(|&width| width > 0) else {
        let (place, found) = (array.place, array.shape);
        let expected = "a row of classes a node".to_owned();
        return Err(DataError::WrongShape { place, found, expected });
    };
    check_n_nodes(&array.place, array.shape[0])?;
    let is_known = |row: &[u8]| !row.contains(&MISSING_FLAG);
    let known: Vec<bool> = array.values.chunks_exact(n_classes).map(is_known).collect();
    for (row, _) in
        array.values.chunks_exact_mut(n_classes).zip(&known).filter(|(_, known)| !**known)
    {
        row.fill(0);
    }
    let mut labels = Labels::multi(width, array.values).map_err(DataError::graph(&array.place))?;
    if let Labels::Multi { labelled, .. } = &mut labels {
        *labelled = known;
    }
    Ok(labels)
}

/// A sparse matrix of zeros and ones, a row a node.
pub(crate) fn multi_from_sparse(place: &Place, matrix: &SparseMatrix) -> Result<Labels, DataError> {
    check_density(place, matrix.n_rows(), matrix.n_cols(), matrix.n_stored())?;
    let is_flag = |value: f32| value == 0.0 || value == 1.0;
    if let Some(position) = matrix.values().iter().position(|&value| !is_flag(value)) {
        let value = matrix.values()[position].to_string();
        let (place, expected) = (place.clone(), "0 or 1".to_owned());
        return Err(DataError::BadValue { place, position, value, expected });
    }
    let values = matrix.to_dense().values().iter().map(|&value| u8::from(value != 0.0)).collect();
    let shape = vec![matrix.n_rows(), matrix.n_cols()];
    multi(Array { place: place.clone(), shape, values })
}

/// Checked here, where every reader passes before it counts nodes in 32 bits.
fn check_n_nodes(place: &Place, n_nodes: usize) -> Result<(), DataError> {
    if n_nodes < u32::MAX as usize {
        return Ok(());
    }
    let problem = GraphError::TooManyNodes { n_nodes };
    Err(DataError::Graph { place: place.clone(), problem })
}
