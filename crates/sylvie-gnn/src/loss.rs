//! Losses over the labelled training rows of a part.

use sylvie_graph::Labels;
use sylvie_tensor::Backend;

/// Rows with a known label, and their labels.
///
/// # Example
/// ```
/// use sylvie_gnn::{Targets, loss_and_gradient};
/// use sylvie_graph::{Labels, UNLABELLED};
/// use sylvie_tensor::{Backend, CpuBackend};
///
/// let backend = CpuBackend::new(1);
/// let labels = Labels::single(2, vec![0, UNLABELLED, 1])?;
/// let targets = Targets::new(&backend, &labels, &[0, 1, 2]);
/// assert_eq!(targets.n_rows(), 2); // row 1 has no label
/// // With logits of zeros each row that counts loses ln 2.
/// let (loss, dlogits) = loss_and_gradient(&backend, &backend.zeros(3, 2), &targets);
/// assert!((loss - 2.0 * f64::ln(2.0)).abs() < 1e-6);
/// assert_eq!(backend.download(&dlogits), [-0.5, 0.5, 0.0, 0.0, 0.5, -0.5]);
/// # Ok::<(), sylvie_graph::GraphError>(())
/// ```
pub struct Targets<B: Backend> {
    n_rows: usize,
    kind: TargetKind<B>,
}

enum TargetKind<B: Backend> {
    Single { rows: B::Index, classes: B::Index },
    Multi { rows: B::Index, values: B::Matrix },
    Weighted(WeightedTargets),
}

/// Targets of a weighted loss, which is computed on the host.
struct WeightedTargets {
    rows: Vec<u32>,
    labels: Labels,
    /// An entry a class.
    weights: Vec<f32>,
}

impl<B: Backend> Targets<B> {
    /// The labels of `rows`, all of which count the same; rows without a label are left out.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn new(backend: &B, labels: &Labels, rows: &[u32]) -> Self {
        let rows = labelled(labels, rows);
        let n_rows = rows.len();
        let on_backend = backend.upload_index(&rows);
        let kind = match labels {
            Labels::Single { classes, .. } => {
                let classes: Vec<u32> = rows.iter().map(|&row| classes[row as usize]).collect();
                TargetKind::Single { rows: on_backend, classes: backend.upload_index(&classes) }
            }
            Labels::Multi { n_classes, values, .. } => {
                let width = *n_classes as usize;
                let row = |&row: &u32| &values[row as usize * width..][..width];
                let values: Vec<f32> = rows.iter().flat_map(row).map(|&v| f32::from(v)).collect();
                let values = backend.upload(n_rows, width, &values);
                TargetKind::Multi { rows: on_backend, values }
            }
        };
        Self { n_rows, kind }
    }

    /// The labels of `rows` with a weight a class ([`ClassWeights`](crate::ClassWeights)).
    ///
    /// # Cost
    /// The loss is computed on the host: an epoch copies the logits there, and their gradient back.
    /// # Panics
    /// If there are not as many weights as classes, or there is no such row.
    #[must_use]
    pub fn weighted(labels: &Labels, rows: &[u32], weights: Vec<f32>) -> Self {
        assert_eq!(weights.len(), labels.n_classes() as usize, "class weights and classes");
        let rows = labelled(labels, rows);
        let labels = labels.gather_rows(&rows);
        let n_rows = rows.len();
        Self { n_rows, kind: TargetKind::Weighted(WeightedTargets { rows, labels, weights }) }
    }

    /// Number of labelled rows.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }
}

fn labelled(labels: &Labels, rows: &[u32]) -> Vec<u32> {
    rows.iter().copied().filter(|&row| labels.is_labelled(row as usize)).collect()
}

/// Sum over the rows of cross-entropy, or of the mean over classes of binary cross-entropy with logits;
/// and its gradient with respect to all `logits`. Where classes have weights, of each row's or each one's
/// loss times the weight of its class.
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
    match &targets.kind {
        TargetKind::Single { rows, classes } => {
            let mut gradient = backend.zeros(n_rows, n_cols);
            (backend.softmax_cross_entropy(logits, rows, classes, &mut gradient), gradient)
        }
        TargetKind::Multi { rows, values } => {
            let mut gradient = backend.zeros(n_rows, n_cols);
            (backend.binary_cross_entropy(logits, rows, values, &mut gradient), gradient)
        }
        TargetKind::Weighted(targets) => {
            let mut gradient = vec![0.0; n_rows * n_cols];
            let loss = targets.loss(&backend.download(logits), n_cols, &mut gradient);
            (loss, backend.upload(n_rows, n_cols, &gradient))
        }
    }
}

impl WeightedTargets {
    /// The sum of the losses, in the order of the rows; assigns the gradients of these.
    ///
    /// The arithmetic is that of the CPU backend's losses, so that weights of 1 give their gradients.
    fn loss(&self, logits: &[f32], width: usize, gradient: &mut [f32]) -> f64 {
        let rows = self.rows.iter().enumerate();
        let losses = rows.map(|(at, &row)| {
            let place = row as usize * width;
            let (logits, gradient) = (&logits[place..][..width], &mut gradient[place..][..width]);
            match &self.labels {
                Labels::Single { classes, .. } => {
                    let class = classes[at] as usize;
                    cross_entropy(logits, class, self.weights[class], gradient)
                }
                Labels::Multi { values, .. } => {
                    let values = &values[at * width..][..width];
                    binary_cross_entropy(logits, values, &self.weights, gradient)
                }
            }
        });
        losses.sum()
    }
}

fn cross_entropy(logits: &[f32], class: usize, weight: f32, gradient: &mut [f32]) -> f64 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for (slot, &logit) in gradient.iter_mut().zip(logits) {
        *slot = (logit - max).exp();
        sum += f64::from(*slot);
    }
    let share = (1.0 / sum) as f32;
    gradient.iter_mut().for_each(|slot| *slot *= share);
    gradient[class] -= 1.0;
    gradient.iter_mut().for_each(|slot| *slot *= weight);
    (f64::from(max) - f64::from(logits[class]) + sum.ln()) * f64::from(weight)
}

fn binary_cross_entropy(
    logits: &[f32],
    values: &[u8],
    weights: &[f32],
    gradient: &mut [f32],
) -> f64 {
    let share = 1.0 / logits.len() as f64;
    let mut sum = 0.0;
    for (((slot, &logit), &value), &weight) in
        gradient.iter_mut().zip(logits).zip(values).zip(weights)
    {
        let (target, weight) = (f32::from(value), if value == 1 { weight } else { 1.0 });
        *slot = (1.0 / (1.0 + (-logit).exp()) - target) * share as f32 * weight;
        let logit = f64::from(logit);
        let loss = logit.max(0.0) - logit * f64::from(target) + (-logit.abs()).exp().ln_1p();
        sum += loss * f64::from(weight);
    }
    sum * share
}
