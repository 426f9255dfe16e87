//! What one rank holds.

use std::borrow::Cow;

use sylvie_graph::{Dataset, DenseMatrix, Direction, Features, HaloPlan, Labels, PartGraph, Role};

/// A part of a graph with what is known of its own nodes; rows are local.
///
/// # Example
/// ```
/// use sylvie_graph::Role;
/// use sylvie_partition::build_parts;
/// use sylvie_pipeline::PartData;
/// # use sylvie_graph::{Dataset, DenseMatrix, Direction, Features, Labels, Split, clean_edges};
/// # use sylvie_partition::{Contiguous, Partitioner};
/// # let ring = |first: u32| (0..8).map(move |i| (first + i, first + (i + 1) % 8));
/// # let edges: Vec<(u32, u32)> = ring(0).chain(ring(8)).chain([(0, 8)]).collect();
/// # let (graph, cleaning) = clean_edges(16, &edges, Direction::Symmetric)?;
/// # let features = (0..16_u8).flat_map(|node| [f32::from(node / 8), 0.1 * f32::from(node)]).collect();
/// # let roles = [Role::Train, Role::Val, Role::Test];
/// # let dataset = Dataset {
/// #     name: "rings".to_owned(),
/// #     direction: Direction::Symmetric,
/// #     cleaning,
/// #     features: Features::Dense(DenseMatrix::new(16, 2, features)?),
/// #     labels: Labels::single(2, (0..16).map(|node| node / 8).collect())?,
/// #     split: Split::new((0..16).map(|node| roles[node % 3]).collect()),
/// #     graph,
/// # };
/// # let assignment = Contiguous.partition(&dataset.graph, &[true; 16], 2)?;
///
/// // Two rings of eight nodes, of which each is a part.
/// let parts = build_parts(&dataset.graph, &assignment, None).into_iter();
/// let data: Vec<PartData> = parts.map(|part| PartData::gather(&dataset, part)).collect();
/// assert_eq!((data[1].graph.own_ids[0], data[1].features.n_rows()), (8, 8));
/// assert_eq!(data[1].roles[0], dataset.split.roles()[8]);
/// assert_eq!(data[0].roles[..3], [Role::Train, Role::Val, Role::Test]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PartData {
    /// Structure and halo plan.
    pub graph: PartGraph,
    /// Whether the whole graph is read both ways.
    pub direction: Direction,
    /// Features of the own rows.
    pub features: Features,
    /// Labels of the own rows.
    pub labels: Labels,
    /// Roles of the own rows.
    pub roles: Vec<Role>,
}

impl PartData {
    /// Takes the own rows of `graph` out of a data set.
    ///
    /// # Panics
    /// If the part has nodes that the data set has not.
    #[must_use]
    pub fn gather(dataset: &Dataset, graph: PartGraph) -> Self {
        let roles = dataset.split.roles();
        Self {
            direction: dataset.direction,
            features: dataset.features.gather_rows(&graph.own_ids),
            labels: dataset.labels.gather_rows(&graph.own_ids),
            roles: graph.own_ids.iter().map(|&id| roles[id as usize]).collect(),
            graph,
        }
    }

    /// Frees what a backend has a copy of by now: features and edges.
    fn let_go(&mut self) {
        self.features = Features::Dense(DenseMatrix::default());
        self.graph.degrees = Vec::new();
        self.graph.blocks = Vec::new();
        self.graph.plan = HaloPlan::default();
    }

    /// Local rows with `role`, ascending.
    pub(crate) fn rows(&self, role: Role) -> Vec<u32> {
        (0_u32..).zip(&self.roles).filter(|&(_, &r)| r == role).map(|(row, _)| row).collect()
    }
}

/// What one rank trains and evaluates on.
///
/// # Example
/// Inductive: what is trained on is the graph that the training nodes induce.
///
/// ```
/// use sylvie_partition::build_parts;
/// use sylvie_pipeline::{PartData, RankInput};
/// # use sylvie_graph::{Dataset, DenseMatrix, Direction, Features, Labels, Role, Split, clean_edges};
/// # use sylvie_partition::{Contiguous, Partitioner};
/// # let ring = |first: u32| (0..8).map(move |i| (first + i, first + (i + 1) % 8));
/// # let edges: Vec<(u32, u32)> = ring(0).chain(ring(8)).chain([(0, 8)]).collect();
/// # let (graph, cleaning) = clean_edges(16, &edges, Direction::Symmetric)?;
/// # let features = (0..16_u8).flat_map(|node| [f32::from(node / 8), 0.1 * f32::from(node)]).collect();
/// # let roles = [Role::Train, Role::Val, Role::Test];
/// # let dataset = Dataset {
/// #     name: "rings".to_owned(),
/// #     direction: Direction::Symmetric,
/// #     cleaning,
/// #     features: Features::Dense(DenseMatrix::new(16, 2, features)?),
/// #     labels: Labels::single(2, (0..16).map(|node| node / 8).collect())?,
/// #     split: Split::new((0..16).map(|node| roles[node % 3]).collect()),
/// #     graph,
/// # };
/// # let assignment = Contiguous.partition(&dataset.graph, &[true; 16], 2)?;
///
/// let train = dataset.split.mask(Role::Train);
/// let training = build_parts(&dataset.graph, &assignment, Some(&train)).into_iter();
/// let whole = build_parts(&dataset.graph, &assignment, None);
/// let inputs: Vec<RankInput> = training
///     .zip(whole)
///     .map(|(training, whole)| RankInput {
///         training: PartData::gather(&dataset, training),
///         evaluation: Some(PartData::gather(&dataset, whole)),
///     })
///     .collect();
/// // A part of eight nodes, of which every third trains.
/// assert_eq!(inputs[0].training.graph.own_ids, [0, 3, 6]);
/// assert_eq!(inputs[0].evaluation.as_ref().map(|data| data.graph.n_local()), Some(8));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RankInput {
    /// The part that is trained on.
    pub training: PartData,
    /// The part that is evaluated on, where it is another: inductive training.
    pub evaluation: Option<PartData>,
}

impl RankInput {
    /// A part that is trained and evaluated on.
    #[must_use]
    pub fn transductive(training: PartData) -> Self {
        Self { training, evaluation: None }
    }

    /// Frees what a backend has a copy of by now.
    pub(crate) fn let_go(&mut self) {
        self.training.let_go();
        if let Some(evaluation) = &mut self.evaluation {
            evaluation.let_go();
        }
    }
}

impl<'a> From<&'a RankInput> for Cow<'a, RankInput> {
    fn from(input: &'a RankInput) -> Self {
        Self::Borrowed(input)
    }
}

impl From<RankInput> for Cow<'_, RankInput> {
    fn from(input: RankInput) -> Self {
        Self::Owned(input)
    }
}
