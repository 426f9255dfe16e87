//! Features brought to a common scale.

use sylvie_graph::{DenseMatrix, Features, Role, Split};

use crate::error::{DataError, Place};
use crate::options::Normalization;
use crate::sparse::check_density;

/// Applies `normalization`; [`Normalization`] says what each does.
///
/// # Errors
/// [`DataError::TooSparse`] where standardising would fill memory with zeros' images.
/// # Panics
/// If features and split are of different numbers of nodes.
pub(crate) fn apply(
    place: &Place,
    features: Features,
    split: &Split,
    normalization: Normalization,
) -> Result<Features, DataError> {
    assert_eq!(features.n_rows(), split.roles().len(), "nodes of features and split");
    match (normalization, features) {
        (Normalization::None, features) => Ok(features),
        (Normalization::Row, Features::Dense(mut matrix)) => {
            let n_cols = matrix.n_cols().max(1);
            matrix.values_mut().chunks_exact_mut(n_cols).for_each(scale_row);
            Ok(Features::Dense(matrix))
        }
        (Normalization::Row, Features::Sparse(mut matrix)) => {
            let indptr = matrix.indptr().to_vec();
            let values = matrix.values_mut();
            for ends in indptr.windows(2) {
                scale_row(&mut values[ends[0] as usize..ends[1] as usize]);
            }
            Ok(Features::Sparse(matrix))
        }
        (Normalization::Standard, Features::Dense(matrix)) => {
            Ok(Features::Dense(standardize(matrix, split)))
        }
        (Normalization::Standard, Features::Sparse(matrix)) => {
            check_density(place, matrix.n_rows(), matrix.n_cols(), matrix.n_stored())?;
            Ok(Features::Dense(standardize(matrix.to_dense(), split)))
        }
    }
}

fn scale_row(row: &mut [f32]) {
    let sum: f64 = row.iter().map(|&value| f64::from(value.abs())).sum();
    if sum > 0.0 {
        for value in row {
            *value = (f64::from(*value) / sum) as f32;
        }
    }
}

/// What a column holds over the training rows.
#[derive(Clone, Copy)]
struct Column {
    sum: f64,
    min: f32,
    max: f32,
    mean: f64,
    sum_squares: f64,
}

impl Column {
    const EMPTY: Self =
        Self { sum: 0.0, min: f32::INFINITY, max: f32::NEG_INFINITY, mean: 0.0, sum_squares: 0.0 };

    /// The divisor: 1 for a column that is constant, seen exactly rather than by a deviation that
    /// rounding keeps from 0.
    fn deviation(&self, n_rows: f64) -> f64 {
        let deviation = (self.sum_squares / n_rows).sqrt();
        if self.min < self.max && deviation > 0.0 { deviation } else { 1.0 }
    }
}

fn standardize(mut matrix: DenseMatrix, split: &Split) -> DenseMatrix {
    let training = split.ids(Role::Train);
    let mut columns = vec![Column::EMPTY; matrix.n_cols()];
    if training.is_empty() || columns.is_empty() {
        return matrix;
    }
    let n_rows = training.len() as f64;
    for &row in &training {
        for (column, &value) in columns.iter_mut().zip(matrix.row(row as usize)) {
            column.sum += f64::from(value);
            column.min = column.min.min(value);
            column.max = column.max.max(value);
        }
    }
    for column in &mut columns {
        column.mean = column.sum / n_rows;
    }
    for &row in &training {
        for (column, &value) in columns.iter_mut().zip(matrix.row(row as usize)) {
            column.sum_squares += (f64::from(value) - column.mean).powi(2);
        }
    }
    let scales: Vec<(f64, f64)> =
        columns.iter().map(|column| (column.mean, column.deviation(n_rows))).collect();
    for row in matrix.values_mut().chunks_exact_mut(scales.len()) {
        for (value, &(mean, deviation)) in row.iter_mut().zip(&scales) {
            *value = ((f64::from(*value) - mean) / deviation) as f32;
        }
    }
    matrix
}
