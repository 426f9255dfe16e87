//! What each class counts in the loss.

use std::fmt;
use std::str::FromStr;

use sylvie_graph::Labels;

use crate::config::ParseModelError;

/// Weights of classes in the loss.
///
/// With one class a node, each node's cross-entropy counts as much as its class weighs, and the sum over
/// training nodes is divided by the sum of their weights. With several, the weight of a class is that of
/// its ones against its zeros: `w t softplus(-x) + (1 - t) softplus(x)`, and the sum is divided by the
/// number of training nodes. These are PyTorch's `CrossEntropyLoss(weight)` and
/// `BCEWithLogitsLoss(pos_weight)`, but for the mean over classes.
///
/// # Example
/// ```
/// use sylvie_gnn::{ClassCounts, ClassWeights, loss_divisor};
/// use sylvie_graph::Labels;
///
/// // Four nodes of class 0, and one of class 1.
/// let labels = Labels::single(2, vec![0, 0, 0, 0, 1])?;
/// let counts = ClassCounts::new(&labels, &[0, 1, 2, 3, 4]);
/// let balanced: ClassWeights = "balanced".parse()?;
/// let weights = balanced.of_classes(&labels, &counts);
/// assert_eq!(weights, Some(vec![0.625, 2.5]));
/// assert_eq!(loss_divisor(&labels, &counts, weights.as_deref()), 5.0);
/// assert_eq!("1,2.5".parse::<ClassWeights>()?, ClassWeights::Given(vec![1.0, 2.5]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ClassWeights {
    /// All classes weigh 1.
    #[default]
    None,
    /// By the labelled training nodes of the whole graph. One class a node: all nodes over the number of
    /// classes times the class's nodes. Several: the class's zeros over its ones. 1 for a class that has
    /// no ones (or no zeros, with several).
    Balanced,
    /// A weight a class; all finite and above 0.
    Given(Vec<f32>),
}

impl FromStr for ClassWeights {
    type Err = ParseModelError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let weight = |word: &str| {
            let weight: Option<f32> = word.parse().ok();
            weight.filter(|weight| weight.is_finite() && *weight > 0.0)
        };
        match word {
            "none" => Ok(Self::None),
            "balanced" => Ok(Self::Balanced),
            list => list
                .split(',')
                .map(weight)
                .collect::<Option<Vec<f32>>>()
                .map(Self::Given)
                .ok_or_else(|| {
                    let expected = "none, balanced, or a number above 0 a class as in 1,2.5";
                    ParseModelError { what: "class weights", word: word.to_owned(), expected }
                }),
        }
    }
}

impl fmt::Display for ClassWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Balanced => f.write_str("balanced"),
            Self::Given(weights) => {
                let words: Vec<String> = weights.iter().map(f32::to_string).collect();
                f.write_str(&words.join(","))
            }
        }
    }
}

/// Labelled nodes, and those of each class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassCounts {
    /// Nodes with a label.
    pub n_nodes: u64,
    /// An entry a class: nodes that have it.
    pub n_of_class: Vec<u64>,
}

impl ClassCounts {
    /// Counts `rows`; those without a label are left out.
    #[must_use]
    pub fn new(labels: &Labels, rows: &[u32]) -> Self {
        let width = labels.n_classes() as usize;
        let mut counts = Self { n_nodes: 0, n_of_class: vec![0; width] };
        let rows = rows.iter().map(|&row| row as usize);
        for row in rows.filter(|&row| labels.is_labelled(row)) {
            counts.n_nodes += 1;
            match labels {
                Labels::Single { classes, .. } => counts.n_of_class[classes[row] as usize] += 1,
                Labels::Multi { values, .. } => {
                    let values = &values[row * width..][..width];
                    for (count, &value) in counts.n_of_class.iter_mut().zip(values) {
                        *count += u64::from(value);
                    }
                }
            }
        }
        counts
    }
}

impl ClassWeights {
    /// How many weights are given; `None` where they fit any number of classes.
    #[must_use]
    pub fn n_given(&self) -> Option<usize> {
        if let Self::Given(weights) = self { Some(weights.len()) } else { None }
    }

    /// An entry a class; nothing where all weigh 1. `counts` are those of the whole graph's training
    /// nodes, of which each has one class, or several.
    ///
    /// # Panics
    /// If there are given weights for another number of classes.
    #[must_use]
    pub fn of_classes(&self, labels: &Labels, counts: &ClassCounts) -> Option<Vec<f32>> {
        let n_classes = counts.n_of_class.len();
        let ratio = |over: u64, under: u64| match (over, under) {
            (0, _) | (_, 0) => 1.0,
            (over, under) => (over as f64 / under as f64) as f32,
        };
        let balanced = |&count: &u64| match labels {
            Labels::Single { .. } => ratio(counts.n_nodes, count * n_classes as u64),
            Labels::Multi { .. } => ratio(counts.n_nodes - count, count),
        };
        match self {
            Self::None => None,
            Self::Balanced => Some(counts.n_of_class.iter().map(balanced).collect()),
            Self::Given(weights) => {
                assert_eq!(weights.len(), n_classes, "class weights and classes");
                Some(weights.clone())
            }
        }
    }
}

/// What the sum of losses over the training nodes of the whole graph is divided by.
///
/// # Example
/// ```
/// use sylvie_gnn::{ClassCounts, loss_divisor};
/// use sylvie_graph::{Labels, UNLABELLED};
///
/// let labels = Labels::single(2, vec![0, 1, UNLABELLED, 1])?;
/// let counts = ClassCounts::new(&labels, &[0, 1, 2, 3]);
/// assert_eq!(loss_divisor(&labels, &counts, None), 3.0);
/// assert_eq!(loss_divisor(&labels, &counts, Some(&[4.0, 0.5])), 4.0 + 2.0 * 0.5);
/// # Ok::<(), sylvie_graph::GraphError>(())
/// ```
#[must_use]
pub fn loss_divisor(labels: &Labels, counts: &ClassCounts, weights: Option<&[f32]>) -> f64 {
    match (labels, weights) {
        (Labels::Single { .. }, Some(weights)) => {
            let pairs = counts.n_of_class.iter().zip(weights);
            pairs.map(|(&count, &weight)| count as f64 * f64::from(weight)).sum()
        }
        _ => counts.n_nodes as f64,
    }
}
