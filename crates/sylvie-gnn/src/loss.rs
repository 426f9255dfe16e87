//! Losses over the labelled training rows of a part.

use sylvie_graph::Labels;
use sylvie_tensor::Backend;

/// Rows with a known label, and their labels.
pub struct Targets<B: Backend> {
    n_rows: usize,
    rows: B::Index,
    kind: TargetKind<B>,
}

enum TargetKind<B: Backend> {
    Single(B::Index),
    Multi(B::Matrix),
}

impl<B: Backend> Targets<B> {
    /// The labels of `rows`; rows without a label are left out.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn new(backend: &B, labels: &Labels, rows: &[u32]) -> Self {
        let known = |row: &u32| labels.is_labelled(*row as usize);
        let rows: Vec<u32> = rows.iter().copied().filter(known).collect();
        let kind = match labels {
            Labels::Single { classes, .. } => {
                let classes: Vec<u32> = rows.iter().map(|&row| classes[row as usize]).collect();
                TargetKind::Single(backend.upload_index(&classes))
            }
            Labels::Multi { n_classes, values, .. } => {
                let width = *n_classes as usize;
                let row = |&row: &u32| &values[row as usize * width..][..width];
                let values: Vec<f32> = rows.iter().flat_map(row).map(|&v| f32::from(v)).collect();
                TargetKind::Multi(backend.upload(rows.len(), width, &values))
            }
        };
        Self { n_rows: rows.len(), rows: backend.upload_index(&rows), kind }
    }

    /// Number of labelled rows.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }
}

/// Sum over the rows of cross-entropy, or of the mean over classes of binary cross-entropy with logits;
/// and its gradient with respect to all `logits`.
///
/// # Paper
/// The authors sum over classes for multi-labels; the mean is a stated deviation.
///
/// # Example
/// ```
/// use sylvie_gnn::{Targets, loss_and_gradient};
/// use sylvie_graph::Labels;
/// use sylvie_tensor::{Backend, CpuBackend};
///
/// let backend = CpuBackend::new(1);
/// let labels = Labels::single(2, vec![0, 1]).unwrap();
/// let targets = Targets::new(&backend, &labels, &[0]); // row 0 trains, row 1 does not
/// let logits = backend.upload(2, 2, &[0.0, 0.0, 3.0, 4.0]);
/// let (loss, gradient) = loss_and_gradient(&backend, &logits, &targets);
/// assert!((loss - 2.0_f64.ln()).abs() < 1e-6);
/// assert_eq!(backend.download(&gradient), [-0.5, 0.5, 0.0, 0.0]);
/// ```
pub fn loss_and_gradient<B: Backend>(
    backend: &B,
    logits: &B::Matrix,
    targets: &Targets<B>,
) -> (f64, B::Matrix) {
    let (n_rows, n_cols) = backend.shape(logits);
    let mut gradient = backend.zeros(n_rows, n_cols);
    let rows = &targets.rows;
    let loss = match &targets.kind {
        TargetKind::Single(classes) => {
            backend.softmax_cross_entropy(logits, rows, classes, &mut gradient)
        }
        TargetKind::Multi(values) => {
            backend.binary_cross_entropy(logits, rows, values, &mut gradient)
        }
    };
    (loss, gradient)
}
