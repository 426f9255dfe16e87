//! Every suite that leaves its process alive.

use std::sync::Mutex;

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use sylvie_comm::{CommError, Communicator as _, Mpi};
use sylvie_conformance::{collectives, exchange, plans_of, polling};

use crate::runner::OnMpi;
use crate::{large, same_bits};

const N_PLANS: u64 = 60;

/// Runs all of them; a difference panics, which ends the job.
pub(crate) fn run(comm: &mut Mpi, piece_bytes: usize) -> Result<(), CommError> {
    let (rank, size) = (comm.rank(), comm.size());
    let runner = OnMpi { comm: Mutex::new(&mut *comm) };
    for (name, suite) in suites() {
        suite(&runner, size);
        note(rank, name);
    }
    follow_plans(&runner, size);
    note(rank, "plans");
    same_bits::check(comm)?;
    note(rank, "same bits as threads");
    // A megabyte in pieces of a few bytes would take MPI a while.
    if piece_bytes > 1 << 10 {
        large::check(comm)?;
        note(rank, "large messages");
    }
    Ok(())
}

/// A suite on this number of ranks.
type Suite<'a> = fn(&OnMpi<'a>, usize);

/// Suites that ask for nothing but ranks.
fn suites<'a>() -> [(&'static str, Suite<'a>); 8] {
    [
        ("ring", exchange::ring_brings_buffers_home),
        ("mirror", exchange::backward_mirrors_forward),
        ("early leaver", exchange::sender_may_leave_first),
        ("ready", polling::ready_after_the_last_peer_sent),
        ("ready late", polling::ready_late_with_delays),
        ("all_gather", collectives::all_gather_is_in_rank_order),
        ("reduce", collectives::reduce_has_the_bits_of_rank_order),
        ("barrier", collectives::barrier_holds_everyone),
    ]
}

/// Random plans, the same ones on every rank.
fn follow_plans(runner: &OnMpi<'_>, n_ranks: usize) {
    let mut random = TestRunner::deterministic();
    for seed in 0..N_PLANS {
        let plan = plans_of(n_ranks).new_tree(&mut random).expect("a plan").current();
        match seed % 4 {
            0 => exchange::follows_plan(runner, &plan),
            1 => exchange::follows_plan_with_delays(runner, &plan, seed),
            2 => polling::follows_plan(runner, &plan, seed),
            _ => polling::follows_plan_with_delays(runner, &plan, seed),
        }
    }
}

fn note(rank: usize, what: &str) {
    if rank == 0 {
        println!("passed: {what}");
    }
}
