//! Whether two ranks' data are the same.

use sha2::{Digest as _, Sha256};
use sylvie::graph::{Features, Labels, PartGraph, Role};
use sylvie::pipeline::{PartData, RankInput};

/// SHA-256 of everything that a rank trains and evaluates on, in hexadecimal digits.
///
/// # Cost
/// One pass over structure and features.
pub(crate) fn of(input: &RankInput) -> String {
    let mut sum = Sum(Sha256::new());
    sum.data(&input.training);
    sum.number(u64::from(input.evaluation.is_some()));
    if let Some(evaluation) = &input.evaluation {
        sum.data(evaluation);
    }
    hexadecimal(&sum.0.finalize())
}

/// Bytes as hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Sum(Sha256);

impl Sum {
    fn number(&mut self, value: u64) {
        self.0.update(value.to_le_bytes());
    }

    /// A list with its length, so that no two lists run into each other.
    fn list<const N: usize>(&mut self, bytes: impl ExactSizeIterator<Item = [u8; N]>) {
        self.number(bytes.len() as u64);
        let mut chunk = Vec::with_capacity(N << 12);
        for value in bytes {
            chunk.extend(value);
            if chunk.len() == chunk.capacity() {
                self.0.update(&chunk);
                chunk.clear();
            }
        }
        self.0.update(&chunk);
    }

    fn ids(&mut self, ids: &[u32]) {
        self.list(ids.iter().map(|id| id.to_le_bytes()));
    }

    fn offsets(&mut self, offsets: &[u64]) {
        self.list(offsets.iter().map(|offset| offset.to_le_bytes()));
    }

    fn values(&mut self, values: &[f32]) {
        self.list(values.iter().map(|value| value.to_le_bytes()));
    }

    fn data(&mut self, data: &PartData) {
        self.graph(&data.graph);
        self.number(data.direction as u64);
        self.number(data.features.n_cols() as u64);
        match &data.features {
            Features::Dense(dense) => self.values(dense.values()),
            Features::Sparse(sparse) => {
                self.offsets(sparse.indptr());
                self.ids(sparse.indices());
                self.values(sparse.values());
            }
        }
        self.number(u64::from(data.labels.n_classes()));
        match &data.labels {
            Labels::Single { classes, .. } => self.ids(classes),
            Labels::Multi { values, labelled, .. } => {
                self.list(values.iter().map(|&value| [value]));
                self.list(labelled.iter().map(|&is_known| [u8::from(is_known)]));
            }
        }
        self.list(data.roles.iter().map(|role| match role {
            Role::Train => [1_u8],
            Role::Val => [2],
            Role::Test => [3],
            Role::None => [0],
        }));
    }

    fn graph(&mut self, graph: &PartGraph) {
        self.number(u64::from(graph.part));
        self.number(u64::from(graph.n_parts));
        self.ids(&graph.own_ids);
        for block in &graph.blocks {
            self.number(u64::from(block.owner));
            self.ids(&block.column_ids);
            self.ids(&block.rows);
            self.offsets(block.edges.indptr());
            self.ids(block.edges.indices());
        }
    }
}

#[cfg(test)]
mod tests {
    use sylvie::graph::{Assignment, DenseMatrix, Direction, Features, clean_edges};
    use sylvie::partition::build_parts;

    use super::*;

    fn input(change: impl Fn(&mut PartData)) -> RankInput {
        let (graph, _) = clean_edges(4, &[(0, 1), (1, 2)], Direction::Symmetric).unwrap();
        let assignment = Assignment::new(1, vec![0; 4]).unwrap();
        let graph = build_parts(&graph, &assignment, None).remove(0);
        let features = DenseMatrix::new(4, 1, vec![1.0, 2.0, 3.0, 4.0]).unwrap();
        let mut training = PartData {
            graph,
            direction: Direction::Symmetric,
            features: Features::Dense(features),
            labels: Labels::multi(2, vec![0, 1, 1, 1, 0, 0, 1, 0]).unwrap(),
            roles: vec![Role::Train, Role::Val, Role::Test, Role::None],
        };
        change(&mut training);
        RankInput { training, evaluation: None }
    }

    #[test]
    fn whatever_differs_changes_the_sum() {
        let changes: [fn(&mut PartData); 7] = [
            |_| {},
            |data| data.roles[0] = Role::None,
            |data| data.direction = Direction::Directed,
            |data| data.graph.own_ids[3] = 7,
            |data| data.labels = Labels::single(2, vec![0, 1, 1, 0]).unwrap(),
            |data| {
                if let Labels::Multi { labelled, .. } = &mut data.labels {
                    labelled[2] = false;
                }
            },
            |data| {
                if let Features::Dense(features) = &mut data.features {
                    features.values_mut()[0] = -1.0;
                }
            },
        ];
        let sums: std::collections::BTreeSet<String> =
            changes.iter().map(|change| of(&input(change))).collect();
        assert_eq!(sums.len(), changes.len());
        let again = RankInput { evaluation: Some(input(|_| {}).training), ..input(|_| {}) };
        assert!(!sums.contains(&of(&again)), "parts to evaluate on count too");
    }
}
