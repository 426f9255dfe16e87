//! Which nodes train, validate and test.

use crate::error::GraphError;
use crate::labels::Labels;

/// What a node is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Role {
    /// Nothing: it is in no set.
    #[default]
    None,
    /// Its label is learnt from.
    Train,
    /// Its label chooses among models.
    Val,
    /// Its label measures the chosen model.
    Test,
}

impl Role {
    const fn set(self) -> &'static str {
        match self {
            Self::None => "unused",
            Self::Train => "training",
            Self::Val => "validation",
            Self::Test => "test",
        }
    }
}

/// A role for each node.
///
/// # Example
/// ```
/// use sylvie_graph::{Role, Split};
///
/// let split = Split::from_ids(5, &[0, 3], &[1], &[4])?;
/// assert_eq!(split.roles()[2], Role::None);
/// assert_eq!(split.ids(Role::Train), [0, 3]);
/// assert_eq!(split.mask(Role::Test), [false, false, false, false, true]);
/// assert!(Split::from_ids(5, &[0, 3], &[3], &[4]).is_err()); // in two sets
/// # Ok::<(), sylvie_graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    roles: Vec<Role>,
}

impl Split {
    /// Takes one role a node.
    #[must_use]
    pub fn new(roles: Vec<Role>) -> Self {
        Self { roles }
    }

    /// Builds the split from lists of node ids.
    ///
    /// # Errors
    /// An id not below `n_nodes`; a node in two sets.
    pub fn from_ids(
        n_nodes: usize,
        train: &[u32],
        val: &[u32],
        test: &[u32],
    ) -> Result<Self, GraphError> {
        let mut roles = vec![Role::None; n_nodes];
        for (ids, role) in [(train, Role::Train), (val, Role::Val), (test, Role::Test)] {
            for (position, &node) in ids.iter().enumerate() {
                let Some(slot) = roles.get_mut(node as usize) else {
                    let index = u64::from(node);
                    return Err(GraphError::IndexOutOfRange { position, index, bound: n_nodes });
                };
                if *slot != Role::None && *slot != role {
                    let (first, second) = (slot.set(), role.set());
                    return Err(GraphError::OverlappingSplit { node, first, second });
                }
                *slot = role;
            }
        }
        Ok(Self { roles })
    }

    /// The role of each node.
    #[must_use]
    pub fn roles(&self) -> &[Role] {
        &self.roles
    }

    /// One flag a node, set where it has `role`: what a partitioner is told of training nodes.
    #[must_use]
    pub fn mask(&self, role: Role) -> Vec<bool> {
        self.roles.iter().map(|&r| r == role).collect()
    }

    /// Ids of the nodes with `role`, ascending.
    #[must_use]
    pub fn ids(&self, role: Role) -> Vec<u32> {
        (0_u32..).zip(&self.roles).filter(|&(_, &r)| r == role).map(|(id, _)| id).collect()
    }

    /// Number of nodes with `role`.
    #[must_use]
    pub fn count(&self, role: Role) -> usize {
        self.roles.iter().filter(|&&r| r == role).count()
    }

    /// Checks that each of the three sets has a labelled node.
    ///
    /// # Errors
    /// [`GraphError::EmptySplit`] with the first set that has none.
    /// # Panics
    /// If labels and split are of different numbers of nodes.
    ///
    /// # Example
    /// ```
    /// use sylvie_graph::{GraphError, Labels, Split, UNLABELLED};
    ///
    /// let split = Split::from_ids(3, &[0], &[1], &[2])?;
    /// let labels = Labels::single(2, vec![0, 1, UNLABELLED])?;
    /// assert_eq!(split.check_usable(&labels), Err(GraphError::EmptySplit { set: "test" }));
    /// # Ok::<(), GraphError>(())
    /// ```
    pub fn check_usable(&self, labels: &Labels) -> Result<(), GraphError> {
        assert_eq!(self.roles.len(), labels.n_nodes(), "nodes of split and labels");
        for role in [Role::Train, Role::Val, Role::Test] {
            let mut nodes = self.roles.iter().enumerate();
            if !nodes.any(|(node, &r)| r == role && labels.is_labelled(node)) {
                return Err(GraphError::EmptySplit { set: role.set() });
            }
        }
        Ok(())
    }
}
