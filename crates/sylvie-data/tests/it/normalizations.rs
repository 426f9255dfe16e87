//! Features on a common scale, against numbers worked out by hand.

use sylvie_data::{DataError, Normalization, ReadOptions, read};
use sylvie_graph::Features;
use zip::CompressionMethod;

use crate::samples::{self, Sample, int32, int64, npz, put};

fn features(sample: &Sample, normalization: Normalization) -> Result<Features, DataError> {
    let (_folder, source) = sample.write();
    let options = ReadOptions { normalization, ..ReadOptions::default() };
    Ok(read(&source, &options)?.features)
}

fn dense(sample: &Sample, normalization: Normalization) -> Vec<f32> {
    let Features::Dense(matrix) = features(sample, normalization).unwrap() else {
        panic!("dense features")
    };
    matrix.values().to_vec()
}

#[test]
fn standard_uses_training_rows_and_spares_constant_columns() {
    // Training rows hold 1 and 3: mean 2, deviation 1. The second column is constant.
    let expected = [-1.0, 0.0, 1.0, 0.0, 3.0, 0.0, -3.0, 0.0, -2.0, 0.0, 2.0, 0.0];
    assert_eq!(dense(&samples::arrays(), Normalization::Standard), expected);
}

#[test]
fn a_constant_that_rounds_is_constant() {
    let values: Vec<f32> = (0..6).flat_map(|row| [row as f32, 0.1]).collect();
    let train = samples::bools(&[1, 1, 1, 0, 0, 0]);
    let sample = samples::arrays()
        .with("feat.npy", samples::float32(6, &values))
        .with("train.npy", train)
        .with("val.npy", int64(&[3]));
    let scaled = dense(&sample, Normalization::Standard);
    assert!(scaled.iter().skip(1).step_by(2).all(|value| value.abs() < 1e-6), "{scaled:?}");
}

#[test]
fn standard_makes_sparse_features_dense() {
    let scaled = dense(&samples::gnn_benchmark(), Normalization::Standard);
    // Column 0 holds 2 and 0 in the training rows, column 2 nothing there but a 4 in row 4.
    assert_eq!(scaled.len(), 24);
    assert_eq!(
        scaled.iter().step_by(4).copied().collect::<Vec<_>>(),
        [1.0, -1.0, -1.0, -1.0, -1.0, -1.0]
    );
    assert_eq!(
        scaled.iter().skip(2).step_by(4).copied().collect::<Vec<_>>(),
        [0.0, 0.0, 0.0, 0.0, 4.0, 0.0]
    );
}

#[test]
fn rows_sum_to_one_in_absolute_value() {
    let scaled = dense(&samples::arrays(), Normalization::Row);
    let expected = [1.0 / 3.0, 2.0 / 3.0, 0.6, 0.4, 5.0 / 7.0, 2.0 / 7.0, -1.0 / 3.0, 2.0 / 3.0];
    for (found, expected) in scaled.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    }
    let Features::Sparse(matrix) = features(&samples::gnn_benchmark(), Normalization::Row).unwrap()
    else {
        panic!("sparse features")
    };
    assert_eq!(matrix.row(0).1, [2.0 / 3.0, 1.0 / 3.0]);
    assert_eq!(matrix.row(2).1.len(), 0);
}

#[test]
fn a_width_out_of_proportion_is_not_made_dense() {
    let mut members = samples::gnn_benchmark_members();
    put(&mut members, "attr_shape", int64(&[6, 3_000_000_000]));
    put(&mut members, "attr_indices", int32(&[3, 0, 1, 2_000_000_000]));
    let bytes = npz(&members, CompressionMethod::Stored);
    let sample = samples::gnn_benchmark().with("ring.npz", bytes);
    assert!(features(&sample, Normalization::None).is_ok());
    let error = features(&sample, Normalization::Standard).unwrap_err();
    assert!(matches!(error, DataError::TooSparse { n_stored: 4, .. }), "{error}");
}
