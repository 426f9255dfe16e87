//! Polling: an exchange is ready once all of it has arrived, and not before.

use std::collections::BTreeMap;
use std::thread;

use sylvie_comm::{CommError, Communicator, Incoming, Pass};

use crate::exchange::{outgoing, play, tag};
use crate::plan::content;
use crate::{Jittered, Plan, Runner, mix, run_well};

/// An exchange is not ready before its last peer has sent, whichever that is, and is ready after; it
/// stays so. One that awaits nothing is ready at once.
pub fn ready_after_the_last_peer_sent<R: Runner>(runner: &R, n_ranks: usize) {
    run_well(runner, n_ranks, |comm| send_in_turn(runner, comm));
}

/// As [`ready_after_the_last_peer_sent`], with every rank late and arrivals denied for a while.
pub fn ready_late_with_delays<R: Runner>(runner: &R, n_ranks: usize) {
    for seed in 0..5 {
        run_well(runner, n_ranks, |comm| send_in_turn(runner, &mut Jittered::new(comm, seed)));
    }
}

/// Rank 0 awaits the others, which send one after the other, a barrier apart.
fn send_in_turn<R, C>(runner: &R, comm: &mut C) -> Result<(), CommError>
where
    R: Runner,
    C: Communicator<Buffer = R::Buffer>,
{
    let (rank, size) = (comm.rank(), comm.size());
    let tag = tag(0, 1, Pass::Forward);
    if rank > 0 {
        for _ in 0..rank {
            comm.barrier()?;
        }
        let bytes = content(0, rank, 0, 60 + rank);
        let pending = comm.start(tag, vec![outgoing(runner, 0, bytes)], &[])?;
        poll_until_ready(comm, &pending)?;
        for _ in rank..size {
            comm.barrier()?;
        }
        return comm.wait(pending).map(drop);
    }
    let recvs: Vec<_> = (1..size).map(|peer| Incoming { peer, bytes: 60 + peer }).collect();
    let pending = comm.start(tag, Vec::new(), &recvs)?;
    for n_sent in 0..size {
        let is_complete = n_sent + 1 == size;
        for _ in 0..3 {
            let is_ready = comm.is_ready(&pending)?;
            assert!(is_complete || !is_ready, "ready when {n_sent} of {} may have sent", size - 1);
        }
        comm.barrier()?;
    }
    poll_until_ready(comm, &pending)?;
    assert!(comm.is_ready(&pending)?, "once ready, always ready");
    for (message, recv) in comm.wait(pending)?.into_iter().zip(&recvs) {
        assert_eq!(message.peer, recv.peer);
        assert_eq!(runner.bytes(message.buffer), content(0, recv.peer, 0, recv.bytes));
    }
    Ok(())
}

/// Exchanges in flight may be polled in any order before each is waited for, ready or not: the plan is
/// followed as [`follows_plan`](crate::exchange::follows_plan) says.
pub fn follows_plan<R: Runner>(runner: &R, plan: &Plan, seed: u64) {
    run_well(runner, plan.n_ranks, |comm| play(runner, comm, plan, poller(seed)));
}

/// As [`follows_plan`], with every rank late by random amounts and arrivals denied for a while.
pub fn follows_plan_with_delays<R: Runner>(runner: &R, plan: &Plan, seed: u64) {
    run_well(runner, plan.n_ranks, |comm| {
        play(runner, &mut Jittered::new(comm, seed), plan, poller(seed))
    });
}

/// Polls what is in flight: in half of the cases some of it a few times, in the others until the
/// exchange that will be waited for is ready.
fn poller<C: Communicator>(
    seed: u64,
) -> impl FnMut(&mut C, &BTreeMap<usize, C::Pending>, usize) -> Result<(), CommError> {
    let mut ready = Vec::new();
    let mut n_draws = 0;
    let mut draw = move |rank: usize| {
        n_draws += 1;
        mix(&[seed, rank as u64, n_draws]) as usize
    };
    move |comm, in_flight, awaited| {
        let exchanges: Vec<usize> = in_flight.keys().copied().collect();
        let insists = draw(comm.rank()) % 2 == 0;
        for _ in 0..draw(comm.rank()) % 6 {
            let i = exchanges[draw(comm.rank()) % exchanges.len()];
            let is_ready = comm.is_ready(&in_flight[&i])?;
            assert!(is_ready || !ready.contains(&i), "exchange {i} is no longer ready");
            if is_ready {
                ready.push(i);
            }
        }
        if insists {
            poll_until_ready(comm, &in_flight[&awaited])?;
        }
        Ok(())
    }
}

/// Polls until the exchange is ready; ends because polling has a deadline.
pub(crate) fn poll_until_ready<C: Communicator>(
    comm: &mut C,
    pending: &C::Pending,
) -> Result<(), CommError> {
    while !comm.is_ready(pending)? {
        thread::yield_now();
    }
    Ok(())
}
