//! What is made small: targets of a rank, and what the sum of all losses is divided by.

use sylvie_comm::Communicator;
use sylvie_gnn::{ClassCounts, ClassWeights, Targets, loss_divisor};
use sylvie_graph::Role;
use sylvie_tensor::Wire;

use crate::communication::sum_counts;
use crate::error::TrainError;
use crate::part_data::PartData;

/// A rank's targets, and the divisor of the loss, which is the same on every rank.
pub(super) struct Objective<B: Wire> {
    pub(super) targets: Targets<B>,
    pub(super) divisor: f64,
}

impl<B: Wire> Objective<B> {
    /// Collective where classes are counted and where training nodes are.
    ///
    /// # Errors
    /// No training node on any rank; weights for another number of classes; a failing transport.
    pub(super) fn new<C: Communicator>(
        backend: &B,
        comm: &mut C,
        data: &PartData,
        weights: &ClassWeights,
    ) -> Result<Self, TrainError> {
        let (labels, rows) = (&data.labels, data.rows(Role::Train));
        let n_classes = labels.n_classes() as usize;
        if let Some(found) = weights.n_given().filter(|&n_given| n_given != n_classes) {
            return Err(TrainError::ClassWeights { found, expected: n_classes });
        }
        let own = ClassCounts::new(labels, &rows);
        let n_nodes = sum_before(comm, own.n_nodes)?;
        if n_nodes == 0 {
            return Err(TrainError::NoTrainingNodes);
        }
        if *weights == ClassWeights::None {
            let targets = Targets::new(backend, labels, &rows);
            return Ok(Self { targets, divisor: n_nodes as f64 });
        }
        let counts = ClassCounts { n_nodes, n_of_class: sums_before(comm, &own.n_of_class)? };
        let weights = weights.of_classes(labels, &counts);
        let divisor = loss_divisor(labels, &counts, weights.as_deref());
        let targets = match weights {
            Some(weights) => Targets::weighted(labels, &rows, weights),
            None => Targets::new(backend, labels, &rows),
        };
        Ok(Self { targets, divisor })
    }
}

/// The sum of a count over the ranks, before the first epoch.
pub(super) fn sum_before<C: Communicator>(comm: &mut C, value: u64) -> Result<u64, TrainError> {
    sums_before(comm, &[value]).map(|sums| sums[0])
}

/// Sums of counts over the ranks, of as many as here.
fn sums_before<C: Communicator>(comm: &mut C, values: &[u64]) -> Result<Vec<u64>, TrainError> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let all = comm.all_gather(&bytes).map_err(|source| TrainError::SetUp { source })?;
    sum_counts(comm.rank(), &all, values.len())
}
