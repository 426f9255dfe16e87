//! METIS k-way behind a safe door.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use metis::option::{ObjType, Seed};
use metis::{Idx, Real};
use sylvie_graph::{Assignment, Csr};

use crate::error::PartitionError;
use crate::partitioner::{Partitioner, assignment, check_input};
use crate::repair::fill_empty_parts;

/// Largest number METIS can count to.
const INDEX_MAX: usize = Idx::MAX as usize;

/// Far looser, METIS leaves parts empty, and complains on standard output when it then cannot bisect
/// them.
const IMBALANCE_MAX: f32 = 1.5;

/// METIS draws from the C library's one generator and swaps the process's signal handlers while it
/// runs: two calls at once would mix their draws and could restore each other's handlers.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What METIS makes small.
///
/// # Example
/// ```
/// use sylvie_partition::{Objective, PartitionError};
///
/// let objective: Objective = "cut".parse()?;
/// assert_eq!((objective, objective.to_string()), (Objective::Cut, "cut".to_owned()));
/// let unknown = PartitionError::UnknownObjective { found: "edges".to_owned() };
/// assert_eq!("edges".parse::<Objective>(), Err(unknown));
/// # Ok::<(), PartitionError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Objective {
    /// Rows sent in an exchange: for each node, the number of other parts that hold a neighbour.
    #[default]
    Volume,
    /// Edges between parts.
    Cut,
}

impl Objective {
    /// Directed edges that METIS can take. With the volume objective it gives each edge weight 3 and
    /// sums the weights in 32 bits.
    const fn max_edges(self) -> usize {
        match self {
            Self::Volume => INDEX_MAX / 3,
            Self::Cut => INDEX_MAX,
        }
    }
}

impl FromStr for Objective {
    type Err = PartitionError;

    fn from_str(found: &str) -> Result<Self, Self::Err> {
        [Self::Volume, Self::Cut]
            .into_iter()
            .find(|objective| objective.to_string() == found)
            .ok_or_else(|| PartitionError::UnknownObjective { found: found.to_owned() })
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Volume => "volume",
            Self::Cut => "cut",
        })
    }
}

/// Multilevel k-way partitioning by METIS, balanced over nodes and, where there are any, over training
/// nodes.
///
/// METIS knows undirected graphs without loops: inverses are added to the edges it sees, loops left
/// out. A constraint that whole nodes cannot meet (10 training nodes in 4 parts) is loosened just as
/// far as it must be. Parts that METIS leaves empty, as it does on graphs of a few nodes a part, are
/// filled from the largest ones.
///
/// Calls in several threads wait for each other. The assignment depends on the C library's `rand`,
/// hence may differ between platforms, never between runs or threads of one - unless other C code of
/// the process draws from `rand` during the call.
///
/// METIS catches SIGTERM and SIGABRT while it runs: a process told to terminate meanwhile gets
/// [`PartitionError::Metis`] from here.
///
/// # Cost
/// About linear in edges. The volume objective takes two to six times as long as the cut, the
/// constraint of training nodes up to three times as long as none; edges are not balanced. Memory: a
/// transposed copy of the graph for the check that it is symmetric, 4 bytes a directed edge for what
/// METIS is handed, and METIS's own hierarchy of graphs.
///
/// # Example
/// ```
/// use sylvie_graph::{Direction, clean_edges};
/// use sylvie_partition::{Metis, Objective, Partitioner, quality};
///
/// // Two squares joined by one edge.
/// let edges = [(0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (7, 4), (3, 4)];
/// let (graph, _) = clean_edges(8, &edges, Direction::Symmetric)?;
/// let train = [true; 8];
/// let metis = Metis { objective: Objective::Cut, seed: 7, ..Metis::default() };
/// let assignment = metis.partition(&graph, &train, 2)?;
/// assert_eq!(assignment.sizes(), [4, 4]);
/// assert_eq!(quality(&graph, &assignment, &train).cut_edges, 2); // one edge, both ways
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metis {
    /// What to make small.
    pub objective: Objective,
    /// Largest part allowed, as a multiple of the mean: above 1, at most 1.5. METIS may miss it.
    pub imbalance: f32,
    /// Seed of METIS's draws; folded to 31 bits.
    pub seed: u64,
}

impl Default for Metis {
    fn default() -> Self {
        Self { objective: Objective::Volume, imbalance: 1.03, seed: 1 }
    }
}

impl Partitioner for Metis {
    /// # Errors
    /// Those of every partitioner; a graph too large for 32-bit counts, with what to use instead; an
    /// imbalance out of range; a failure of METIS (memory).
    fn partition(
        &self,
        graph: &Csr,
        train: &[bool],
        n_parts: u32,
    ) -> Result<Assignment, PartitionError> {
        check_input(graph, train, n_parts)?;
        // Written so that NaN is refused too.
        if !(self.imbalance > 1.0 && self.imbalance <= IMBALANCE_MAX) {
            let (imbalance, limit) = (self.imbalance, IMBALANCE_MAX);
            return Err(PartitionError::BadImbalance { imbalance, limit });
        }
        if n_parts == 1 {
            return Ok(assignment(1, vec![0; graph.n_rows()]));
        }
        check_size(graph.n_rows(), graph.n_edges(), self.objective)?;
        let undirected = symmetrised(graph);
        check_size(undirected.n_rows(), undirected.n_edges(), self.objective)?;
        let mut parts = self.call(&undirected, train, n_parts)?;
        fill_empty_parts(&undirected, n_parts, &mut parts);
        Ok(assignment(n_parts, parts))
    }

    fn name(&self) -> &str {
        "metis"
    }
}

impl Metis {
    fn call(&self, graph: &Csr, train: &[bool], n_parts: u32) -> Result<Vec<u32>, PartitionError> {
        let failed = |source: metis::Error| {
            let (n_nodes, n_edges) = (graph.n_rows(), graph.n_edges());
            PartitionError::Metis { n_nodes, n_edges, n_parts, source }
        };
        let (offsets, neighbours) = without_loops(graph);
        let (weights, totals) = weights(train);
        let tolerances: Vec<Real> =
            totals.iter().map(|&total| self.tolerance(total, n_parts)).collect();
        // The number of nodes is at least that of parts and has passed the check of sizes.
        let (n_constraints, n_parts_c) = (totals.len() as Idx, n_parts as Idx);
        let mut found = vec![0; graph.n_rows()];
        {
            let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
            metis::Graph::new(n_constraints, n_parts_c, &offsets, &neighbours)
                .map_err(|error| failed(error.into()))?
                .set_vwgt(&weights)
                .set_ubvec(&tolerances)
                .set_option(match self.objective {
                    Objective::Volume => ObjType::Vol,
                    Objective::Cut => ObjType::Cut,
                })
                .set_option(Seed(((self.seed ^ self.seed >> 32) & 0x7fff_ffff) as Idx))
                .part_kway(&mut found)
                .map_err(failed)?;
        }
        found
            .into_iter()
            .map(|part| u32::try_from(part).ok().filter(|&part| part < n_parts))
            .collect::<Option<Vec<u32>>>()
            .ok_or_else(|| failed(metis::Error::Other))
    }

    /// The imbalance to ask for when `total` units, none divisible, go to `n_parts` parts.
    fn tolerance(&self, total: usize, n_parts: u32) -> Real {
        let mean = total as f64 / f64::from(n_parts);
        let feasible = mean.ceil() / mean;
        self.imbalance.max(feasible as Real)
    }
}

/// Checks that METIS's 32-bit counts suffice.
fn check_size(n_nodes: usize, n_edges: usize, objective: Objective) -> Result<(), PartitionError> {
    // It counts nodes once a constraint, and offsets are one more than nodes.
    let limit = INDEX_MAX / 2 - 1;
    if n_nodes > limit {
        return Err(PartitionError::TooManyNodes { n_nodes, limit });
    }
    let limit = objective.max_edges();
    if n_edges > limit {
        return Err(PartitionError::TooManyEdges { n_edges, limit, objective });
    }
    Ok(())
}

/// The graph with each edge's inverse.
fn symmetrised(graph: &Csr) -> Cow<'_, Csr> {
    let inverse = graph.transpose();
    if *graph == inverse { Cow::Borrowed(graph) } else { Cow::Owned(graph.union(&inverse)) }
}

/// Offsets and neighbours as METIS takes them, loops left out.
fn without_loops(graph: &Csr) -> (Vec<Idx>, Vec<Idx>) {
    let mut offsets = Vec::with_capacity(graph.n_rows() + 1);
    let mut neighbours = Vec::with_capacity(graph.n_edges());
    offsets.push(0);
    for node in 0..graph.n_rows() {
        let others = graph.row(node).iter().filter(|&&column| column as usize != node);
        neighbours.extend(others.map(|&column| column as Idx));
        offsets.push(neighbours.len() as Idx);
    }
    (offsets, neighbours)
}

/// One weight a node and constraint, constraints side by side, and the total of each constraint. The
/// constraint of training nodes is there only when there are some: its total must not be 0.
fn weights(train: &[bool]) -> (Vec<Idx>, Vec<usize>) {
    let n_train = train.iter().filter(|&&trains| trains).count();
    if n_train == 0 {
        return (vec![1; train.len()], vec![train.len()]);
    }
    let weights = train.iter().flat_map(|&trains| [1, Idx::from(trains)]).collect();
    (weights, vec![train.len(), n_train])
}

#[cfg(test)]
mod tests {
    use super::{Metis, Objective, check_size};
    use crate::error::PartitionError;

    #[test]
    fn sizes_beyond_32_bits_are_refused_with_the_limit_and_a_way_out() {
        assert_eq!(check_size(1 << 20, 700_000_000, Objective::Volume), Ok(()));
        assert_eq!(check_size(1 << 20, 2_147_483_647, Objective::Cut), Ok(()));
        let cut = check_size(1 << 20, 2_147_483_648, Objective::Cut).unwrap_err();
        assert_eq!(
            cut.to_string(),
            "2147483648 directed edges are more than the 2147483647 that METIS can count with \
             --objective cut; use --partitioner fennel"
        );
        let volume = check_size(1 << 20, 800_000_000, Objective::Volume).unwrap_err();
        assert!(volume.to_string().ends_with("or --objective cut"), "{volume}");
        let nodes = check_size(1 << 30, 0, Objective::Cut).unwrap_err();
        assert!(matches!(nodes, PartitionError::TooManyNodes { .. }), "{nodes}");
    }

    #[test]
    fn tolerance_is_loosened_only_where_whole_nodes_need_it() {
        let metis = Metis::default();
        assert_eq!(metis.tolerance(1000, 4), 1.03);
        assert_eq!(metis.tolerance(10, 4), 1.2);
        assert_eq!(metis.tolerance(1, 4), 4.0);
    }
}
