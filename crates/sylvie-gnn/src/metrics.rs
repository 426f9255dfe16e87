//! How good predictions are, counted a part at a time.

use std::fmt;
use std::str::FromStr;

use sylvie_graph::Labels;

use crate::config::ParseModelError;

/// No part has more entries than this: 2^16 parts of as many still add up in 64 bits.
const MAX_COUNT: u64 = 1 << 47;

/// A measure of predictions, between 0 and 1.
///
/// # Example
/// ```
/// use sylvie_gnn::{Metric, ParseModelError};
/// use sylvie_graph::Labels;
///
/// let metric: Metric = "roc-auc".parse()?;
/// let labels = |n_classes| Labels::Single { n_classes, classes: vec![0, 1, 1] };
/// assert!(metric.fits(&labels(2)) && !metric.fits(&labels(3)));
/// assert!(Metric::MacroF1.fits(&labels(3)));
/// # Ok::<(), ParseModelError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Share of nodes whose largest logit is their class; for multi-labels, share of right entries.
    Accuracy,
    /// F1 over all (node, class) entries, logits above 0 predicted; for single labels the accuracy.
    MicroF1,
    /// Mean over classes of each one's F1; classes that no counted node has or is predicted to have are
    /// left out. The predicted class is the one of the largest logit, multi-labels are as for micro-F1.
    MacroF1,
    /// Area under the ROC curve: of the second class of two, or the mean over multi-label classes that
    /// have both outcomes.
    RocAuc,
}

impl FromStr for Metric {
    type Err = ParseModelError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "accuracy" => Ok(Self::Accuracy),
            "micro-f1" => Ok(Self::MicroF1),
            "macro-f1" => Ok(Self::MacroF1),
            "roc-auc" => Ok(Self::RocAuc),
            _ => {
                let (what, expected) = ("metric", "accuracy, micro-f1, macro-f1, roc-auc");
                Err(ParseModelError { what, word: word.to_owned(), expected })
            }
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accuracy => "accuracy",
            Self::MicroF1 => "micro-f1",
            Self::MacroF1 => "macro-f1",
            Self::RocAuc => "roc-auc",
        })
    }
}

impl Metric {
    /// Whether the metric is defined for these labels.
    #[must_use]
    pub fn fits(self, labels: &Labels) -> bool {
        self != Self::RocAuc || labels.is_multi() || labels.n_classes() == 2
    }
}

/// What one part contributes to a metric; parts are added by [`MetricCounts::merge`].
///
/// # Example
/// ```
/// use sylvie_gnn::{Metric, MetricCounts};
/// use sylvie_graph::Labels;
///
/// // Two parts count their own rows; the sum is the score of all.
/// let labels = Labels::single(2, vec![0, 1, 1]).unwrap();
/// let logits = [2.0, 1.0, 0.0, 3.0, 0.5, 0.1];
/// let mut counts = MetricCounts::new(Metric::Accuracy, &logits, &labels, &[0, 1]);
/// let other = MetricCounts::new(Metric::Accuracy, &logits, &labels, &[2]);
/// assert!(counts.merge_bytes(&other.to_bytes()));
/// assert_eq!(counts.value(), Some(2.0 / 3.0));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum MetricCounts {
    /// Right entries and all entries.
    Accuracy {
        /// Right.
        n_right: u64,
        /// All.
        n_total: u64,
    },
    /// True positives, false positives, false negatives.
    F1 {
        /// Predicted and true.
        n_hits: u64,
        /// Predicted, not true.
        n_false: u64,
        /// True, not predicted.
        n_missed: u64,
    },
    /// An entry a class: true positives, false positives, false negatives.
    ClassF1(Vec<[u64; 3]>),
    /// One list of (score, outcome) a ranked class.
    Scores(Vec<Vec<(f32, bool)>>),
}

impl MetricCounts {
    /// Counts the rows `rows` of row-major `logits`, whose labels are those of the same rows; rows
    /// without a label are left out.
    ///
    /// # Panics
    /// If the metric does not fit the labels ([`Metric::fits`]).
    #[must_use]
    pub fn new(metric: Metric, logits: &[f32], labels: &Labels, rows: &[u32]) -> Self {
        assert!(metric.fits(labels), "{metric} is not defined for {} classes", labels.n_classes());
        let width = labels.n_classes() as usize;
        let rows = rows.iter().map(|&row| row as usize);
        let known = rows.filter(|&row| labels.is_labelled(row));
        let known = known.map(|row| (&logits[row * width..][..width], row));
        match (metric, labels) {
            (Metric::RocAuc, _) => Self::ranked(known, labels),
            (Metric::MacroF1, _) => Self::by_class(known, labels),
            (_, Labels::Single { classes, .. }) => {
                let (mut n_right, mut n_total) = (0, 0);
                for (logits, row) in known {
                    n_right += u64::from(largest(logits) == classes[row] as usize);
                    n_total += 1;
                }
                Self::Accuracy { n_right, n_total }
            }
            (_, Labels::Multi { values, .. }) => {
                let (mut n_hits, mut n_false, mut n_missed, mut n_total) = (0, 0, 0, 0);
                for (logits, row) in known {
                    for (&logit, &value) in logits.iter().zip(&values[row * width..][..width]) {
                        let (predicted, actual) = (logit > 0.0, value == 1);
                        n_hits += u64::from(predicted && actual);
                        n_false += u64::from(predicted && !actual);
                        n_missed += u64::from(!predicted && actual);
                        n_total += 1;
                    }
                }
                match metric {
                    Metric::Accuracy => {
                        Self::Accuracy { n_right: n_total - n_false - n_missed, n_total }
                    }
                    _ => Self::F1 { n_hits, n_false, n_missed },
                }
            }
        }
    }

    fn by_class<'a>(known: impl Iterator<Item = (&'a [f32], usize)>, labels: &Labels) -> Self {
        const HIT: usize = 0;
        const FALSE: usize = 1;
        const MISSED: usize = 2;
        let mut counts = vec![[0; 3]; labels.n_classes() as usize];
        match labels {
            Labels::Single { classes, .. } => {
                for (logits, row) in known {
                    let (predicted, actual) = (largest(logits), classes[row] as usize);
                    if predicted == actual {
                        counts[actual][HIT] += 1;
                    } else {
                        counts[predicted][FALSE] += 1;
                        counts[actual][MISSED] += 1;
                    }
                }
            }
            Labels::Multi { values, .. } => {
                for (logits, row) in known {
                    let values = &values[row * counts.len()..][..counts.len()];
                    for ((counts, &logit), &value) in counts.iter_mut().zip(logits).zip(values) {
                        match (logit > 0.0, value == 1) {
                            (true, true) => counts[HIT] += 1,
                            (true, false) => counts[FALSE] += 1,
                            (false, true) => counts[MISSED] += 1,
                            (false, false) => {}
                        }
                    }
                }
            }
        }
        Self::ClassF1(counts)
    }

    fn ranked<'a>(known: impl Iterator<Item = (&'a [f32], usize)>, labels: &Labels) -> Self {
        match labels {
            Labels::Single { classes, .. } => {
                let scored = known.map(|(logits, row)| (logits[1] - logits[0], classes[row] == 1));
                Self::Scores(vec![scored.collect()])
            }
            Labels::Multi { n_classes, values, .. } => {
                let width = *n_classes as usize;
                let mut lists = vec![Vec::new(); width];
                for (logits, row) in known {
                    let entries = logits.iter().zip(&values[row * width..][..width]);
                    for (list, (&logit, &value)) in lists.iter_mut().zip(entries) {
                        list.push((logit, value == 1));
                    }
                }
                Self::Scores(lists)
            }
        }
    }

    /// Adds another part's counts.
    ///
    /// # Panics
    /// If the two are counts of different metrics or numbers of classes.
    pub fn merge(&mut self, other: Self) {
        match (self, other) {
            (
                Self::Accuracy { n_right, n_total },
                Self::Accuracy { n_right: more_right, n_total: more },
            ) => {
                *n_right += more_right;
                *n_total += more;
            }
            (
                Self::F1 { n_hits, n_false, n_missed },
                Self::F1 { n_hits: hits, n_false: wrong, n_missed: missed },
            ) => {
                *n_hits += hits;
                *n_false += wrong;
                *n_missed += missed;
            }
            (Self::ClassF1(counts), Self::ClassF1(more)) if counts.len() == more.len() => {
                for (count, more) in counts.as_flattened_mut().iter_mut().zip(more.as_flattened()) {
                    *count += more;
                }
            }
            (Self::Scores(lists), Self::Scores(more)) if lists.len() == more.len() => {
                for (list, more) in lists.iter_mut().zip(more) {
                    list.extend(more);
                }
            }
            _ => panic!("counts of different metrics cannot be added"),
        }
    }

    /// The metric; `None` where nothing was counted that defines it.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::Accuracy { n_right, n_total } => {
                (*n_total > 0).then(|| *n_right as f64 / *n_total as f64)
            }
            Self::F1 { n_hits, n_false, n_missed } => f1([*n_hits, *n_false, *n_missed]),
            Self::ClassF1(counts) => mean(counts.iter().filter_map(|&counts| f1(counts))),
            Self::Scores(lists) => mean(lists.iter().filter_map(|list| area_under_roc(list))),
        }
    }

    /// Bytes that [`MetricCounts::merge_bytes`] reads, little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Accuracy { n_right, n_total } => {
                [n_right, n_total].iter().flat_map(|count| count.to_le_bytes()).collect()
            }
            Self::F1 { n_hits, n_false, n_missed } => {
                [n_hits, n_false, n_missed].iter().flat_map(|count| count.to_le_bytes()).collect()
            }
            Self::ClassF1(counts) => {
                counts.as_flattened().iter().flat_map(|count| count.to_le_bytes()).collect()
            }
            Self::Scores(lists) => {
                let mut bytes = Vec::new();
                for list in lists {
                    bytes.extend((list.len() as u64).to_le_bytes());
                    for &(score, outcome) in list {
                        bytes.extend(score.to_le_bytes());
                        bytes.push(u8::from(outcome));
                    }
                }
                bytes
            }
        }
    }

    /// Adds counts of the same metric from their bytes; returns whether the bytes were such counts.
    ///
    /// Bytes that [`MetricCounts::to_bytes`] does not write change nothing.
    #[must_use]
    pub fn merge_bytes(&mut self, bytes: &[u8]) -> bool {
        let Some(other) = self.parse_like(bytes) else {
            return false;
        };
        self.merge(other);
        true
    }

    fn parse_like(&self, mut bytes: &[u8]) -> Option<Self> {
        let mut count = || -> Option<u64> {
            let (head, rest) = bytes.split_first_chunk::<8>()?;
            bytes = rest;
            Some(u64::from_le_bytes(*head)).filter(|&count| count <= MAX_COUNT)
        };
        let counts = match self {
            Self::Accuracy { .. } => {
                let (n_right, n_total) = (count()?, count()?);
                (n_right <= n_total).then_some(Self::Accuracy { n_right, n_total })?
            }
            Self::F1 { .. } => Self::F1 { n_hits: count()?, n_false: count()?, n_missed: count()? },
            Self::ClassF1(counts) => {
                let mut parsed = Vec::with_capacity(counts.len());
                for _ in counts {
                    parsed.push([count()?, count()?, count()?]);
                }
                Self::ClassF1(parsed)
            }
            Self::Scores(lists) => return parse_scores(lists.len(), bytes),
        };
        bytes.is_empty().then_some(counts)
    }
}

fn parse_scores(n_lists: usize, mut bytes: &[u8]) -> Option<MetricCounts> {
    let mut lists = Vec::with_capacity(n_lists);
    for _ in 0..n_lists {
        let (head, rest) = bytes.split_first_chunk::<8>()?;
        let n_bytes = usize::try_from(u64::from_le_bytes(*head)).ok()?.checked_mul(5)?;
        let (entries, after) = rest.split_at_checked(n_bytes)?;
        let entry = |e: &[u8]| match e[4] {
            outcome @ 0..=1 => Some((f32::from_le_bytes([e[0], e[1], e[2], e[3]]), outcome == 1)),
            _ => None,
        };
        lists.push(entries.chunks_exact(5).map(entry).collect::<Option<Vec<_>>>()?);
        bytes = after;
    }
    bytes.is_empty().then_some(MetricCounts::Scores(lists))
}

/// F1 of true positives, false positives and false negatives; `None` without any.
fn f1([n_hits, n_false, n_missed]: [u64; 3]) -> Option<f64> {
    let (hits, wrong) = (n_hits as f64, n_false as f64 + n_missed as f64);
    let all = 2.0 * hits + wrong;
    (all > 0.0).then(|| 2.0 * hits / all)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Place of the largest value, the first of equals.
fn largest(values: &[f32]) -> usize {
    let mut best = 0;
    for (place, &value) in values.iter().enumerate() {
        if value > values[best] {
            best = place;
        }
    }
    best
}

/// Mann-Whitney statistic with midranks for equal scores; `None` unless both outcomes occur.
///
/// A NaN equals any other of its sign, so that the order in which parts are merged never shows.
fn area_under_roc(list: &[(f32, bool)]) -> Option<f64> {
    let mut sorted = list.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let n_positive = sorted.iter().filter(|&&(_, outcome)| outcome).count() as f64;
    let n_negative = sorted.len() as f64 - n_positive;
    if n_positive == 0.0 || n_negative == 0.0 {
        return None;
    }
    let (mut rank_sum, mut n_before) = (0.0, 0_usize);
    let is_tie = |a: f32, b: f32| a == b || (a.is_nan() && b.is_nan());
    for ties in sorted.chunk_by(|a, b| is_tie(a.0, b.0)) {
        let midrank = n_before as f64 + (ties.len() as f64 + 1.0) / 2.0;
        rank_sum += midrank * ties.iter().filter(|&&(_, outcome)| outcome).count() as f64;
        n_before += ties.len();
    }
    Some((rank_sum - n_positive * (n_positive + 1.0) / 2.0) / (n_positive * n_negative))
}
