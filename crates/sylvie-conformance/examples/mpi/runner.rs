//! Suites on the ranks of one job.

use std::sync::{Mutex, PoisonError};

use sylvie_comm::{CommError, Communicator as _, Mpi, RankError};
use sylvie_conformance::Runner;

/// One rank of a job, lent to one suite after the other.
pub(crate) struct OnMpi<'a> {
    pub(crate) comm: Mutex<&'a mut Mpi>,
}

impl Runner for OnMpi<'_> {
    type Buffer = Vec<u8>;
    type Comm<'a> = Mpi;

    fn run(
        &self,
        n_ranks: usize,
        body: impl Fn(&mut Mpi) -> Result<(), CommError> + Sync,
    ) -> Result<(), RankError<CommError>> {
        let mut comm = self.comm.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(comm.size(), n_ranks, "a job has as many ranks as it was started with");
        // The counts of the suite before.
        drop(comm.take_traffic());
        let rank = comm.rank();
        body(&mut comm).map_err(|source| RankError::Failed { rank, source })
    }

    fn n_ranks_here(&self, _: usize) -> usize {
        1
    }

    fn buffer(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    fn bytes(&self, buffer: Vec<u8>) -> Vec<u8> {
        buffer
    }
}
