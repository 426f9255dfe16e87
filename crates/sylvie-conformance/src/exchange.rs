//! Exchanges deliver what was sent, in every order that the trait allows, and count it.

use std::collections::BTreeMap;

use sylvie_comm::{
    CommError, Communicator, Count, Incoming, Outgoing, Pass, Purpose, Received, Tag, Traffic,
};

use crate::plan::{Step, content};
use crate::{Jittered, Plan, Runner, run_well};

/// The tag of a training exchange.
pub(crate) const fn tag(epoch: u32, layer: u16, pass: Pass) -> Tag {
    Tag { epoch, layer, pass, purpose: Purpose::Training }
}

/// A message whose last fifth is metadata.
pub(crate) fn outgoing<R: Runner>(runner: &R, peer: usize, bytes: Vec<u8>) -> Outgoing<R::Buffer> {
    let (payload_bytes, metadata_bytes) = split(bytes.len());
    Outgoing { peer, buffer: runner.buffer(bytes), payload_bytes, metadata_bytes }
}

const fn split(n_bytes: usize) -> (u64, u64) {
    let metadata_bytes = n_bytes as u64 / 5;
    (n_bytes as u64 - metadata_bytes, metadata_bytes)
}

/// Every message of the plan arrives whole, in the order asked for, whichever exchanges are in flight
/// and whatever collectives lie between; the traffic counts are those of the plan.
pub fn follows_plan<R: Runner>(runner: &R, plan: &Plan) {
    run_well(runner, plan.n_ranks, |comm| play(runner, comm, plan, |_, _, _| Ok(())));
}

/// As [`follows_plan`], with every rank late by random amounts.
pub fn follows_plan_with_delays<R: Runner>(runner: &R, plan: &Plan, seed: u64) {
    run_well(runner, plan.n_ranks, |comm| {
        play(runner, &mut Jittered::new(comm, seed), plan, |_, _, _| Ok(()))
    });
}

/// Plays one rank of the plan. `before_wait` gets the exchanges in flight and the one that is about to
/// be waited for.
pub(crate) fn play<R, C>(
    runner: &R,
    comm: &mut C,
    plan: &Plan,
    mut before_wait: impl FnMut(&mut C, &BTreeMap<usize, C::Pending>, usize) -> Result<(), CommError>,
) -> Result<(), CommError>
where
    R: Runner,
    C: Communicator<Buffer = R::Buffer>,
{
    let rank = comm.rank();
    assert_eq!(comm.size(), plan.n_ranks);
    let mut in_flight = BTreeMap::new();
    let mut n_gathers = 0;
    for step in plan.steps() {
        match step {
            Step::Start(i) => {
                let send = |peer| {
                    let n_bytes = plan.n_bytes(i, rank, peer)?;
                    Some(outgoing(runner, peer, content(i, rank, peer, n_bytes)))
                };
                let sends = plan.peers(i, rank).filter_map(send).collect();
                let recvs = plan.recvs(i, rank);
                in_flight.insert(i, comm.start(plan.exchanges[i].tag, sends, &recvs)?);
            }
            Step::Wait(i) => {
                before_wait(comm, &in_flight, i)?;
                let pending = in_flight.remove(&i).expect("a plan waits for what it started");
                check_arrivals(runner, plan, i, rank, comm.wait(pending)?);
            }
            Step::Gather(i) => {
                let gathered = comm.all_gather(&content(i, rank, rank, i + rank))?;
                let expected: Vec<_> =
                    (0..plan.n_ranks).map(|peer| content(i, peer, peer, i + peer)).collect();
                assert_eq!(gathered, expected);
                n_gathers += 1;
            }
        }
    }
    check_traffic(comm, plan, n_gathers);
    Ok(())
}

fn check_arrivals<R: Runner>(
    runner: &R,
    plan: &Plan,
    exchange: usize,
    rank: usize,
    received: Vec<Received<R::Buffer>>,
) {
    let found: Vec<(usize, Vec<u8>)> =
        received.into_iter().map(|message| (message.peer, runner.bytes(message.buffer))).collect();
    let expected: Vec<(usize, Vec<u8>)> = plan
        .recvs(exchange, rank)
        .iter()
        .map(|recv| (recv.peer, content(exchange, recv.peer, rank, recv.bytes)))
        .collect();
    assert_eq!(found, expected, "what rank {rank} received in exchange {exchange}");
}

fn check_traffic<C: Communicator>(comm: &mut C, plan: &Plan, n_gathers: u64) {
    let rank = comm.rank();
    let mut expected = Traffic::default();
    for (i, exchange) in plan.exchanges.iter().enumerate() {
        for peer in 0..plan.n_ranks {
            if let Some(n_bytes) = plan.n_bytes(i, rank, peer) {
                let (payload_bytes, metadata_bytes) = split(n_bytes);
                expected.record(exchange.tag, payload_bytes, metadata_bytes);
            }
        }
    }
    assert_eq!(comm.traffic().gathered.n_calls, n_gathers);
    let mut found = comm.take_traffic();
    found.gathered = expected.gathered;
    assert_eq!(found, expected, "traffic of rank {rank}");
    assert_eq!(comm.traffic(), &Traffic::default(), "taken traffic begins again at zero");
}

/// A ring passes each rank's bytes around until they are home again, in the buffers that arrived.
pub fn ring_brings_buffers_home<R: Runner>(runner: &R, n_ranks: usize) {
    run_well(runner, n_ranks, |comm| {
        let (rank, size) = (comm.rank(), comm.size());
        if size == 1 {
            return Ok(());
        }
        let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
        let n_bytes = 1000;
        let mut buffer = runner.buffer(content(0, rank, rank, n_bytes));
        for hop in 0..size {
            let n_sent = n_bytes as u64;
            let send = Outgoing { peer: next, buffer, payload_bytes: n_sent, metadata_bytes: 0 };
            let recvs = [Incoming { peer: previous, bytes: n_bytes }];
            let pending = comm.start(tag(hop as u32, 0, Pass::Forward), vec![send], &recvs)?;
            let [message] = comm.wait(pending)?.try_into().unwrap_or_else(|received: Vec<_>| {
                panic!("{} messages instead of one", received.len())
            });
            buffer = message.buffer;
        }
        assert_eq!(runner.bytes(buffer), content(0, rank, rank, n_bytes));
        Ok(())
    });
}

/// Forward and backward of unequal pairs mirror each other: what arrives forward goes back.
pub fn backward_mirrors_forward<R: Runner>(runner: &R, n_ranks: usize) {
    let n_bytes = |from: usize, to: usize| 10 + 7 * from + 3 * to;
    run_well(runner, n_ranks, |comm| {
        let (rank, size) = (comm.rank(), comm.size());
        let peers = || (0..size).filter(|&peer| peer != rank);
        let mut sends: Vec<_> = peers()
            .map(|peer| {
                let bytes = content(9, rank, peer, n_bytes(rank, peer));
                outgoing(runner, peer, bytes)
            })
            .collect();
        for epoch in 0..3 {
            let recvs: Vec<_> =
                peers().map(|peer| Incoming { peer, bytes: n_bytes(peer, rank) }).collect();
            let pending = comm.start(tag(epoch, 1, Pass::Forward), sends, &recvs)?;
            let back = comm.wait(pending)?.into_iter().zip(&recvs).map(|(message, recv)| {
                assert_eq!(message.peer, recv.peer);
                let payload_bytes = recv.bytes as u64;
                let Received { peer, buffer } = message;
                Outgoing { peer, buffer, payload_bytes, metadata_bytes: 0 }
            });
            let back = back.collect();
            let recvs: Vec<_> =
                peers().map(|peer| Incoming { peer, bytes: n_bytes(rank, peer) }).collect();
            let pending = comm.start(tag(epoch, 1, Pass::Backward), back, &recvs)?;
            sends = comm
                .wait(pending)?
                .into_iter()
                .map(|message| {
                    let bytes = runner.bytes(message.buffer);
                    assert_eq!(bytes, content(9, rank, message.peer, n_bytes(rank, message.peer)));
                    outgoing(runner, message.peer, bytes)
                })
                .collect();
        }
        Ok(())
    });
}

/// A rank may leave once it has sent what it owes, whether or not the others have read it.
pub fn sender_may_leave_first<R: Runner>(runner: &R, n_ranks: usize) {
    run_well(runner, n_ranks, |comm| {
        let tag = tag(0, 0, Pass::Forward);
        if comm.rank() == 0 {
            let sends = (1..comm.size()).map(|peer| outgoing(runner, peer, vec![7; 50])).collect();
            let pending = comm.start(tag, sends, &[])?;
            assert_eq!(comm.wait(pending)?.len(), 0);
            let n_peers = comm.size() as u64 - 1;
            let expected = Count {
                payload_bytes: 40 * n_peers,
                metadata_bytes: 10 * n_peers,
                n_messages: n_peers,
            };
            assert_eq!(comm.traffic().of(tag), expected);
            return Ok(());
        }
        let pending = comm.start(tag, Vec::new(), &[Incoming { peer: 0, bytes: 50 }])?;
        let received = comm.wait(pending)?;
        assert_eq!(received.len(), 1);
        Ok(())
    });
}
