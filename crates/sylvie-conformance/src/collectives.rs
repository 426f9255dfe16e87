//! Collectives come in rank order and give the same bits everywhere.

use std::sync::atomic::{AtomicUsize, Ordering};

use sylvie_comm::{CommError, Communicator};

use crate::plan::content;
use crate::{Jittered, Runner, mix, run_well};

/// Gathers of unequal and of no bytes list every rank once, in rank order, call after call.
pub fn all_gather_is_in_rank_order<R: Runner>(runner: &R, n_ranks: usize) {
    run_well(runner, n_ranks, |comm| {
        let (rank, size) = (comm.rank(), comm.size());
        let mut n_bytes_sent = 0;
        for call in 0..10 {
            // Every third call some rank says nothing.
            let n_bytes = |peer: usize| (peer + call) % 3 * 40;
            let gathered = comm.all_gather(&content(call, rank, 0, n_bytes(rank)))?;
            let expected: Vec<_> =
                (0..size).map(|peer| content(call, peer, 0, n_bytes(peer))).collect();
            assert_eq!(gathered, expected, "call {call} of rank {rank}");
            n_bytes_sent += n_bytes(rank) * (size - 1);
        }
        let count = comm.take_traffic().gathered;
        assert_eq!((count.n_calls, count.n_bytes), (10, n_bytes_sent as u64));
        Ok(())
    });
}

/// Sums have the bits of adding in rank order, for vectors of every awkward length.
pub fn reduce_has_the_bits_of_rank_order<R: Runner>(runner: &R, n_ranks: usize) {
    let lengths = [0, 1, 2, 3, 4, 5, 7, 64, 1001];
    run_well(runner, n_ranks, |comm| check_reduce(&mut Jittered::new(comm, 5), &lengths));
    if n_ranks >= 3 {
        assert!(order_matters(n_ranks), "terms whose order does not matter test nothing");
    }
}

fn check_reduce<C: Communicator>(comm: &mut C, lengths: &[usize]) -> Result<(), CommError> {
    let (rank, size) = (comm.rank(), comm.size());
    let mut n_values_sent = 0;
    for &n_values in lengths {
        let mut values: Vec<f32> = (0..n_values).map(|i| term(rank, i)).collect();
        comm.reduce(&mut values)?;
        let found: Vec<u32> = values.iter().map(|value| value.to_bits()).collect();
        let expected: Vec<u32> = (0..n_values).map(|i| sum(0..size, i).to_bits()).collect();
        assert_eq!(found, expected, "{n_values} values at rank {rank} of {size}");
        let n_own = n_values / size + usize::from(rank < n_values % size);
        n_values_sent += n_values - n_own + n_own * (size - 1);
    }
    let count = comm.take_traffic().reduced;
    assert_eq!((count.n_calls, count.n_bytes), (lengths.len() as u64, 4 * n_values_sent as u64));
    Ok(())
}

/// A rank's term: magnitudes over many powers of two, so that the order of adding shows; and the
/// special values whose bits a detour over zero or another order would change.
fn term(rank: usize, i: usize) -> f32 {
    let draw = mix(&[rank as u64, i as u64]);
    match i % 8 {
        3 => -0.0,
        5 => f32::from_bits(draw as u32 & 0x807F_FFFF),
        6 if rank == 1 => f32::INFINITY,
        _ => f32::from_bits(draw as u32 & 0x807F_FFFF | (110 + (draw >> 32) as u32 % 30) << 23),
    }
}

fn sum(mut ranks: impl Iterator<Item = usize>, i: usize) -> f32 {
    let first = ranks.next().map_or(0.0, |rank| term(rank, i));
    ranks.fold(first, |sum, rank| sum + term(rank, i))
}

fn order_matters(n_ranks: usize) -> bool {
    (0..1001).any(|i| sum(0..n_ranks, i).to_bits() != sum((0..n_ranks).rev(), i).to_bits())
}

/// No rank passes a barrier before the last has reached it; a barrier counts as a gather of nothing.
pub fn barrier_holds_everyone<R: Runner>(runner: &R, n_ranks: usize) {
    let (n_rounds, n_arrived) = (20, AtomicUsize::new(0));
    run_well(runner, n_ranks, |comm| {
        let comm = &mut Jittered::new(comm, 6);
        for round in 1..=n_rounds {
            n_arrived.fetch_add(1, Ordering::SeqCst);
            comm.barrier()?;
            let (found, least) =
                (n_arrived.load(Ordering::SeqCst), round * runner.n_ranks_here(n_ranks));
            assert!(found >= least, "{found} of {least} arrivals behind barrier {round}");
        }
        let count = comm.traffic().gathered;
        assert_eq!((count.n_calls, count.n_bytes), (n_rounds as u64, 0));
        Ok(())
    });
}
