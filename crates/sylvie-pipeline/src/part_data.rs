//! What one rank holds.

use std::borrow::Cow;

use sylvie_graph::{Dataset, DenseMatrix, Direction, Features, HaloPlan, Labels, PartGraph, Role};

/// A part of a graph with what is known of its own nodes; rows are local.
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
