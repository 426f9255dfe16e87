//! The partitioners by name.

use std::fmt;
use std::str::FromStr;

use crate::contiguous::Contiguous;
use crate::error::PartitionError;
use crate::fennel::Fennel;
use crate::kway::{Metis, Objective};
use crate::partitioner::Partitioner;
use crate::random::Random;

/// Which partitioner to use; written `metis`, `fennel`, `contiguous` or `random`.
///
/// # Example
/// ```
/// use sylvie_partition::{Method, Objective};
///
/// let method: Method = "random".parse()?;
/// assert_eq!(method.partitioner(Objective::Volume, 1).name(), "random");
/// # Ok::<(), sylvie_partition::PartitionError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Method {
    /// [`Metis`].
    #[default]
    Metis,
    /// [`Fennel`].
    Fennel,
    /// [`Contiguous`].
    Contiguous,
    /// [`Random`].
    Random,
}

impl Method {
    /// The partitioner of that name; `objective` and `seed` go to those that have one.
    #[must_use]
    pub fn partitioner(self, objective: Objective, seed: u64) -> Box<dyn Partitioner> {
        match self {
            Self::Metis => Box::new(Metis { objective, seed, ..Metis::default() }),
            Self::Fennel => Box::new(Fennel::default()),
            Self::Contiguous => Box::new(Contiguous),
            Self::Random => Box::new(Random { seed }),
        }
    }
}

impl FromStr for Method {
    type Err = PartitionError;

    fn from_str(found: &str) -> Result<Self, Self::Err> {
        [Self::Metis, Self::Fennel, Self::Contiguous, Self::Random]
            .into_iter()
            .find(|method| method.to_string() == found)
            .ok_or_else(|| PartitionError::UnknownMethod { found: found.to_owned() })
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Metis => "metis",
            Self::Fennel => "fennel",
            Self::Contiguous => "contiguous",
            Self::Random => "random",
        })
    }
}
