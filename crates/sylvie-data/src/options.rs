//! What the reader is told besides the path.

use std::fmt;
use std::str::FromStr;

use sylvie_graph::Direction;

use crate::error::DataError;
use crate::split_rule::SplitRule;

/// How a data set lies on disk, or that it is generated.
///
/// # Example
/// ```
/// use sylvie_data::{DataError, Format};
///
/// let format: Format = "edge-list".parse()?;
/// assert_eq!((format, format.name()), (Format::EdgeList, "edge-list"));
/// assert!(Format::CHOICES.contains("edge-list"));
/// # Ok::<(), DataError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// A folder of npy files: indptr, indices, feat, label, train, val, test.
    Arrays,
    /// An npz with sparse adjacency and attributes, as gnn-benchmark publishes them.
    GnnBenchmark,
    /// A folder with adj_full.npz, role.json, class_map.json and feats.npy.
    GraphSaint,
    /// An npz with an edge list and several mask sets.
    Heterophilous,
    /// A folder of the Open Graph Benchmark, as text or as arrays.
    Ogb,
    /// A folder with reddit_graph.npz and reddit_data.npz.
    Reddit,
    /// Pickles ind.NAME.x and so on.
    Planetoid,
    /// A folder with edges.csv, feat.npy and labels.csv.
    EdgeList,
    /// The same with edges.mtx.
    MatrixMarket,
    /// A graph with planted communities, generated from `synthetic:key=value,...`.
    Synthetic,
}

impl Format {
    /// The words, for messages.
    pub const CHOICES: &str = "arrays|gnn-benchmark|graphsaint|heterophilous|ogb|reddit|planetoid|edge-list|matrix-market|synthetic";

    const ALL: [Self; 10] = [
        Self::Arrays,
        Self::GnnBenchmark,
        Self::GraphSaint,
        Self::Heterophilous,
        Self::Ogb,
        Self::Reddit,
        Self::Planetoid,
        Self::EdgeList,
        Self::MatrixMarket,
        Self::Synthetic,
    ];

    /// Whether a data set is always a folder.
    pub(crate) const fn is_folder(self) -> bool {
        matches!(
            self,
            Self::Arrays
                | Self::GraphSaint
                | Self::Ogb
                | Self::Reddit
                | Self::EdgeList
                | Self::MatrixMarket
        )
    }

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arrays => "arrays",
            Self::GnnBenchmark => "gnn-benchmark",
            Self::GraphSaint => "graphsaint",
            Self::Heterophilous => "heterophilous",
            Self::Ogb => "ogb",
            Self::Reddit => "reddit",
            Self::Planetoid => "planetoid",
            Self::EdgeList => "edge-list",
            Self::MatrixMarket => "matrix-market",
            Self::Synthetic => "synthetic",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = DataError;

    fn from_str(word: &str) -> Result<Self, DataError> {
        Self::ALL.into_iter().find(|format| format.name() == word).ok_or_else(|| {
            let (what, given, choices) = ("format", word.to_owned(), Self::CHOICES);
            DataError::UnknownWord { what, given, choices }
        })
    }
}

/// What is done to features after reading.
///
/// # Example
/// ```
/// use sylvie_data::{Normalization, ReadOptions, read};
/// use sylvie_graph::Features;
///
/// let options = ReadOptions { normalization: "row".parse()?, ..ReadOptions::default() };
/// assert_eq!(options.normalization, Normalization::Row);
/// let dataset = read("synthetic:nodes=200,degree=4,features=4,classes=2", &options)?;
/// let Features::Dense(features) = &dataset.features else { panic!("generated features are dense") };
/// let sum: f32 = features.row(17).iter().map(|value| value.abs()).sum();
/// assert!((sum - 1.0).abs() < 1e-5);
/// # Ok::<(), sylvie_data::DataError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Normalization {
    /// Nothing.
    #[default]
    None,
    /// Each column minus its mean, divided by its population deviation, both over training rows. A
    /// column that is constant there is only shifted. Sparse features become dense.
    Standard,
    /// Each row divided by the sum of its absolute values; rows of zeros stay. Sparse features stay
    /// sparse.
    Row,
}

impl Normalization {
    /// The words, for messages.
    pub const CHOICES: &str = "none|standard|row";

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Standard => "standard",
            Self::Row => "row",
        }
    }
}

impl fmt::Display for Normalization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Normalization {
    type Err = DataError;

    fn from_str(word: &str) -> Result<Self, DataError> {
        let all = [Self::None, Self::Standard, Self::Row];
        all.into_iter().find(|choice| choice.name() == word).ok_or_else(|| {
            let (what, given, choices) = ("normalization", word.to_owned(), Self::CHOICES);
            DataError::UnknownWord { what, given, choices }
        })
    }
}

/// How to read; the default recognises the format and changes nothing.
///
/// # Example
/// A graph of one's own, written as text.
///
/// ```
/// use std::fs;
///
/// use sylvie_data::{Format, ReadOptions, SplitRule, read};
/// use sylvie_graph::{Direction, Role};
///
/// # let scratch = tempfile::tempdir()?;
/// # let folder = scratch.path();
/// // A chain of six nodes of two classes, with two features each.
/// fs::write(folder.join("edges.csv"), "0,1\n1,2\n2,3\n3,4\n4,5\n")?;
/// fs::write(folder.join("labels.csv"), "0\n0\n0\n1\n1\n1\n")?;
/// let features = "6 2 6\n1 1 1\n2 1 2\n3 1 1\n4 2 2\n5 2 1\n6 2 3\n";
/// let header = "%%MatrixMarket matrix coordinate real general\n";
/// fs::write(folder.join("feat.mtx"), [header, features].concat())?;
///
/// let options = ReadOptions {
///     format: Some(Format::EdgeList), // or none: the files tell
///     direction: Direction::Directed,
///     split: SplitRule::PerClass { train: 1, val: 1 },
///     split_seed: 3,
///     ..ReadOptions::default()
/// };
/// let dataset = read(folder.to_str().ok_or("a path in UTF-8")?, &options)?;
/// assert_eq!(dataset.graph.row(1), [0]); // node 1 reads node 0, and not the other way round
/// assert_eq!((dataset.features.n_cols(), dataset.labels.n_classes()), (2, 2));
/// assert_eq!(dataset.split.count(Role::Test), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadOptions {
    /// The format, or `None` to look at the path.
    pub format: Option<Format>,
    /// Whether inverse edges are added.
    pub direction: Direction,
    /// Which split: the set's own, or one that is drawn.
    pub split: SplitRule,
    /// Seed of a drawn split.
    pub split_seed: u64,
    /// Which split where the set has several, from 0.
    pub split_index: usize,
    /// What is done to features.
    pub normalization: Normalization,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            format: None,
            direction: Direction::Symmetric,
            split: SplitRule::Given,
            split_seed: 1,
            split_index: 0,
            normalization: Normalization::None,
        }
    }
}
