//! Metrics against brute force, and their bytes.

use proptest::prelude::*;
use sylvie_gnn::{Metric, MetricCounts};
use sylvie_graph::{Labels, UNLABELLED};

const METRICS: [Metric; 4] = [Metric::Accuracy, Metric::MicroF1, Metric::MacroF1, Metric::RocAuc];

/// Labels with unlabelled rows, and logits with many ties.
#[derive(Clone, Debug)]
struct Case {
    labels: Labels,
    logits: Vec<f32>,
}

impl Case {
    fn width(&self) -> usize {
        self.labels.n_classes() as usize
    }

    fn rows(&self) -> Vec<u32> {
        (0..self.labels.n_nodes() as u32).collect()
    }

    fn known(&self) -> Vec<usize> {
        (0..self.labels.n_nodes()).filter(|&row| self.labels.is_labelled(row)).collect()
    }

    fn logit(&self, row: usize, class: usize) -> f32 {
        self.logits[row * self.width() + class]
    }

    fn is_true(&self, row: usize, class: usize) -> bool {
        match &self.labels {
            Labels::Single { classes, .. } => classes[row] as usize == class,
            Labels::Multi { values, .. } => values[row * self.width() + class] == 1,
        }
    }

    fn counts(&self, metric: Metric, rows: &[u32]) -> MetricCounts {
        MetricCounts::new(metric, &self.logits, &self.labels, rows)
    }

    /// All (logit, truth) of labelled rows.
    fn entries(&self) -> Vec<(f32, bool)> {
        let places = self.known().into_iter();
        let places = places.flat_map(|row| (0..self.width()).map(move |class| (row, class)));
        places.map(|(row, class)| (self.logit(row, class), self.is_true(row, class))).collect()
    }

    fn accuracy(&self) -> Option<f64> {
        let right: Vec<bool> = match self.labels.is_multi() {
            true => self.entries().iter().map(|&(logit, truth)| (logit > 0.0) == truth).collect(),
            false => {
                let is_right = |row| self.is_true(row, self.predicted(row));
                self.known().into_iter().map(is_right).collect()
            }
        };
        share(right.iter().filter(|&&is_right| is_right).count(), right.len())
    }

    fn micro_f1(&self) -> Option<f64> {
        if !self.labels.is_multi() {
            return self.accuracy();
        }
        let entries = self.entries();
        let count = |f: fn(bool, bool) -> bool| {
            entries.iter().filter(|&&(logit, truth)| f(logit > 0.0, truth)).count()
        };
        let hits = count(|predicted, truth| predicted && truth);
        let (predicted, actual) = (count(|predicted, _| predicted), count(|_, truth| truth));
        share(2 * hits, predicted + actual)
    }

    /// The class of the first of the largest logits.
    fn predicted(&self, row: usize) -> usize {
        let classes = (0..self.width()).rev();
        let best = classes.max_by(|&a, &b| self.logit(row, a).total_cmp(&self.logit(row, b)));
        best.expect("a class")
    }

    fn macro_f1(&self) -> Option<f64> {
        let of_class = |class: usize| {
            let pairs = self.known().into_iter().map(|row| {
                let predicted = match self.labels.is_multi() {
                    true => self.logit(row, class) > 0.0,
                    false => self.predicted(row) == class,
                };
                (predicted, self.is_true(row, class))
            });
            let pairs: Vec<(bool, bool)> = pairs.collect();
            let n_hits = pairs.iter().filter(|&&(predicted, truth)| predicted && truth).count();
            let n_marks =
                |&(predicted, truth): &(bool, bool)| usize::from(predicted) + usize::from(truth);
            share(2 * n_hits, pairs.iter().map(n_marks).sum())
        };
        let values: Vec<f64> = (0..self.width()).filter_map(of_class).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    fn roc_auc(&self) -> Option<f64> {
        let lists: Vec<Vec<(f32, bool)>> = match self.labels.is_multi() {
            true => (0..self.width())
                .map(|class| {
                    let known = self.known().into_iter();
                    known.map(|row| (self.logit(row, class), self.is_true(row, class))).collect()
                })
                .collect(),
            false => {
                let score = |row| (self.logit(row, 1) - self.logit(row, 0), self.is_true(row, 1));
                vec![self.known().into_iter().map(score).collect()]
            }
        };
        let areas: Vec<f64> = lists.iter().filter_map(|list| ordered_pairs(list)).collect();
        (!areas.is_empty()).then(|| areas.iter().sum::<f64>() / areas.len() as f64)
    }
}

fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Share of (positive, negative) pairs in the right order; ties count half.
fn ordered_pairs(list: &[(f32, bool)]) -> Option<f64> {
    let (mut points, mut n_pairs) = (0.0, 0);
    for (positive, _) in list.iter().filter(|entry| entry.1) {
        for (negative, _) in list.iter().filter(|entry| !entry.1) {
            n_pairs += 1;
            points += f64::from(u8::from(positive > negative));
            points += 0.5 * f64::from(u8::from(positive == negative));
        }
    }
    (n_pairs > 0).then(|| points / f64::from(n_pairs))
}

fn case(is_multi: bool, n_classes: u32) -> impl Strategy<Value = Case> {
    (0..25_usize).prop_flat_map(move |n| {
        let width = n_classes as usize;
        let logits = proptest::collection::vec((-3..4_i8).prop_map(f32::from), n * width);
        let labels = if is_multi {
            let values = proptest::collection::vec(0..2_u8, n * width);
            let labelled = proptest::collection::vec(proptest::bool::weighted(0.8), n);
            (values, labelled)
                .prop_map(move |(values, labelled)| Labels::Multi { n_classes, values, labelled })
                .boxed()
        } else {
            let class = prop_oneof![4 => 0..n_classes, 1 => Just(UNLABELLED)];
            proptest::collection::vec(class, n)
                .prop_map(move |classes| Labels::Single { n_classes, classes })
                .boxed()
        };
        (labels, logits).prop_map(|(labels, logits)| Case { labels, logits })
    })
}

fn any_case() -> impl Strategy<Value = Case> {
    prop_oneof![case(false, 2), case(false, 4), case(true, 1), case(true, 3)]
}

fn counts() -> impl Strategy<Value = MetricCounts> {
    let entry = (any::<f32>(), any::<bool>());
    let list = || proptest::collection::vec(entry, 0..6);
    prop_oneof![
        (0..1_u64 << 40)
            .prop_flat_map(|n_total| (0..=n_total, Just(n_total)))
            .prop_map(|(n_right, n_total)| MetricCounts::Accuracy { n_right, n_total }),
        (0..1_u64 << 40, 0..1_u64 << 40, 0..1_u64 << 40)
            .prop_map(|(n_hits, n_false, n_missed)| MetricCounts::F1 { n_hits, n_false, n_missed }),
        proptest::collection::vec(proptest::array::uniform3(0..1_u64 << 40), 2)
            .prop_map(MetricCounts::ClassF1),
        proptest::collection::vec(list(), 2).prop_map(MetricCounts::Scores),
    ]
}

/// Counts of nothing, of each kind.
fn nothing() -> [MetricCounts; 5] {
    [
        MetricCounts::Accuracy { n_right: 0, n_total: 0 },
        MetricCounts::F1 { n_hits: 0, n_false: 0, n_missed: 0 },
        MetricCounts::Scores(vec![vec![]]),
        MetricCounts::Scores(vec![vec![], vec![]]),
        MetricCounts::ClassF1(vec![[0; 3]; 2]),
    ]
}

fn is_same_kind(a: &MetricCounts, b: &MetricCounts) -> bool {
    match (a, b) {
        (MetricCounts::Scores(a), MetricCounts::Scores(b)) => a.len() == b.len(),
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

fn is_share(value: Option<f64>) -> bool {
    value.is_none_or(|value| (0.0..=1.0).contains(&value))
}

fn assert_same(found: Option<f64>, expected: Option<f64>) {
    let is_same = match (found, expected) {
        (Some(found), Some(expected)) => (found - expected).abs() < 1e-12,
        (found, expected) => found == expected,
    };
    assert!(is_same, "{found:?} instead of {expected:?}");
}

proptest! {
    #[test]
    fn are_those_of_brute_force(case in any_case()) {
        let rows = case.rows();
        assert_same(case.counts(Metric::Accuracy, &rows).value(), case.accuracy());
        assert_same(case.counts(Metric::MicroF1, &rows).value(), case.micro_f1());
        assert_same(case.counts(Metric::MacroF1, &rows).value(), case.macro_f1());
        if Metric::RocAuc.fits(&case.labels) {
            assert_same(case.counts(Metric::RocAuc, &rows).value(), case.roc_auc());
        }
    }

    #[test]
    fn parts_add_up_in_any_order(case in any_case(), cut in 0..30_usize) {
        let rows = case.rows();
        let (first, second) = rows.split_at(cut.min(rows.len()));
        for metric in METRICS.into_iter().filter(|metric| metric.fits(&case.labels)) {
            let whole = case.counts(metric, &rows).value();
            for (first, second) in [(first, second), (second, first)] {
                let mut sum = case.counts(metric, first);
                sum.merge(case.counts(metric, second));
                prop_assert_eq!(sum.value(), whole);
                let mut sum = case.counts(metric, first);
                prop_assert!(sum.merge_bytes(&case.counts(metric, second).to_bytes()));
                prop_assert_eq!(sum.value(), whole);
            }
        }
    }

    #[test]
    fn bytes_round_trip(counts in counts()) {
        let bytes = counts.to_bytes();
        let mut n_taken = 0;
        for mut sum in nothing().into_iter().filter(|sum| is_same_kind(sum, &counts)) {
            prop_assert!(sum.merge_bytes(&bytes));
            prop_assert_eq!(sum.to_bytes(), bytes.clone());
            n_taken += 1;
        }
        prop_assert_eq!(n_taken, 1);
    }

    /// Bytes are either those of counts, or change nothing; they never panic.
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        for before in nothing() {
            let mut sum = before.clone();
            if sum.merge_bytes(&bytes) {
                prop_assert_eq!(sum.to_bytes(), bytes.clone());
                prop_assert!(is_share(sum.value()));
            } else {
                prop_assert_eq!(sum, before);
            }
        }
    }

    #[test]
    fn damaged_bytes(counts in counts(), place in 0..70_usize, flip in 1..=255_u8, cut in 0..70_usize) {
        let whole = counts.to_bytes();
        let mut flipped = whole.clone();
        if let Some(byte) = flipped.get_mut(place) {
            *byte ^= flip;
        }
        let longer = [&whole[..], &[0]].concat();
        let shorter = whole[..cut.min(whole.len())].to_vec();
        for before in nothing() {
            for bytes in [&flipped, &longer, &shorter] {
                let mut sum = before.clone();
                if sum.merge_bytes(bytes) {
                    prop_assert_eq!(&sum.to_bytes(), bytes);
                    prop_assert!(is_share(sum.value()));
                }
            }
            let mut sum = before.clone();
            let is_refused = !sum.merge_bytes(&longer) || !is_same_kind(&before, &counts);
            prop_assert!(is_refused, "a byte too many");
        }
    }
}

#[test]
fn counts_that_cannot_be_are_refused() {
    let bytes = |counts: &[u64]| counts.iter().flat_map(|c| c.to_le_bytes()).collect::<Vec<u8>>();
    let [mut accuracy, mut f1, mut scores, _, mut class_f1] = nothing();
    assert!(!accuracy.merge_bytes(&bytes(&[3, 2])), "more right than there are");
    assert!(!accuracy.merge_bytes(&bytes(&[0, u64::MAX])), "would overflow when added");
    assert!(!f1.merge_bytes(&bytes(&[u64::MAX, 1, 1])));
    assert!(!class_f1.merge_bytes(&bytes(&[0, 0, u64::MAX, 0, 0, 0])));
    assert!(!class_f1.merge_bytes(&bytes(&[1, 1, 1])), "of one class only");
    assert!(!scores.merge_bytes(&bytes(&[u64::MAX / 5 + 1])), "a length that wraps");
    let mut entry = bytes(&[1]);
    entry.extend([0, 0, 0, 0, 2]);
    assert!(!scores.merge_bytes(&entry), "an outcome that is neither");
    let [.., two_lists, _] = nothing();
    assert_eq!([accuracy, f1, scores, two_lists, class_f1], nothing());
}

#[test]
fn one_outcome_has_no_curve() {
    for class in [0, 1] {
        let labels = Labels::single(2, vec![class; 3]).expect("labels");
        let counts =
            MetricCounts::new(Metric::RocAuc, &[0.0, 1.0, 2.0, 0.5, 0.1, 0.2], &labels, &[0, 1, 2]);
        assert_eq!(counts.value(), None);
    }
    // Of two multi-label classes one has both outcomes.
    let labels = Labels::multi(2, vec![1, 1, 0, 1]).expect("labels");
    let counts = MetricCounts::new(Metric::RocAuc, &[2.0, 0.0, 1.0, 0.0], &labels, &[0, 1]);
    assert_eq!(counts.value(), Some(1.0));
}

#[test]
fn zeros_of_both_signs_tie_and_so_do_scores_that_are_no_numbers() {
    let area = |scores: Vec<(f32, bool)>| MetricCounts::Scores(vec![scores]).value();
    assert_eq!(area(vec![(0.0, true), (-0.0, false)]), Some(0.5));
    assert_eq!(area(vec![(-0.0, true), (0.0, false)]), Some(0.5));
    assert_eq!(area(vec![(f32::NAN, true), (f32::NAN, false)]), Some(0.5));
    assert_eq!(area(vec![(f32::NAN, false), (f32::NAN, true)]), Some(0.5));
    assert_eq!(area(vec![(f32::INFINITY, true), (f32::NEG_INFINITY, false)]), Some(1.0));
}

#[test]
fn roc_auc_fits_two_classes_and_multi_labels() {
    for (n_classes, fits) in [(1, false), (2, true), (3, false)] {
        let single = Labels::single(n_classes, vec![0]).expect("labels");
        assert_eq!(Metric::RocAuc.fits(&single), fits);
        assert!(Metric::Accuracy.fits(&single) && Metric::MicroF1.fits(&single));
        assert!(Metric::MacroF1.fits(&single));
        let multi = Labels::multi(n_classes, vec![0; n_classes as usize]).expect("labels");
        assert!(Metric::RocAuc.fits(&multi));
    }
}

#[test]
fn macro_f1_by_hand() {
    // Classes 0, 0, 1, 2 predicted as 0, 1, 1, 3: F1 of 2/3, 2/3, 0 and 0; class 4 does not occur.
    let labels = Labels::single(5, vec![0, 0, 1, 2, UNLABELLED]).expect("labels");
    let mut logits = vec![0.0; 25];
    for (row, class) in [0, 1, 1, 3, 4].into_iter().enumerate() {
        logits[row * 5 + class] = 1.0;
    }
    let rows = [0, 1, 2, 3, 4];
    let counts = MetricCounts::new(Metric::MacroF1, &logits, &labels, &rows);
    let expected = [[1, 0, 1], [1, 1, 0], [0, 0, 1], [0, 1, 0], [0, 0, 0]];
    assert_eq!(counts, MetricCounts::ClassF1(expected.to_vec()));
    assert_eq!(counts.value(), Some((2.0 / 3.0 + 2.0 / 3.0 + 0.0 + 0.0) / 4.0));
    assert_eq!(MetricCounts::new(Metric::MacroF1, &logits, &labels, &[4]).value(), None);

    // Of three classes a node: the first always right, the second missed once and once made up.
    let labels = Labels::multi(3, vec![1, 1, 0, 1, 0, 0]).expect("labels");
    let logits = [1.0, -1.0, -1.0, 0.5, 2.0, -0.1];
    let counts = MetricCounts::new(Metric::MacroF1, &logits, &labels, &[0, 1]);
    assert_eq!(counts, MetricCounts::ClassF1(vec![[2, 0, 0], [0, 1, 1], [0, 0, 0]]));
    assert_eq!(counts.value(), Some(0.5));
}
