//! What ranks on threads promise beyond the trait: buffers move, panics name numbers, nothing leaks.

use std::error::Error;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use sylvie_comm::{
    CommError, Communicator, Incoming, MessageLength, Outgoing, Pass, PendingExchange, Purpose,
    RankError, Tag, ThreadOptions, Threads, run_ranks,
};

type Bytes = Threads<Vec<u8>>;

const TAG: Tag = Tag { epoch: 4, layer: 1, pass: Pass::Forward, purpose: Purpose::Evaluation };

fn send(peer: usize, buffer: Vec<u8>) -> Outgoing<Vec<u8>> {
    let payload_bytes = buffer.len() as u64;
    Outgoing { peer, buffer, payload_bytes, metadata_bytes: 0 }
}

/// The message of the panic with which rank 0 of two ends.
fn panic_of(body: impl Fn(&mut Bytes) -> Result<(), CommError> + Sync) -> String {
    let outcome = run_ranks(2, &ThreadOptions::default(), |comm: &mut Bytes| {
        if comm.rank() == 0 { body(comm) } else { comm.barrier() }
    });
    match outcome {
        Err(RankError::Panicked { rank: 0, message }) => message,
        other => panic!("{other:?} instead of a panic of rank 0"),
    }
}

#[test]
fn values_come_in_rank_order() {
    let squares =
        run_ranks(5, &ThreadOptions::default(), |comm: &mut Bytes| -> Result<_, CommError> {
            Ok(comm.rank() * comm.rank())
        });
    assert_eq!(squares.expect("no rank fails"), [0, 1, 4, 9, 16]);
}

#[test]
fn a_message_is_the_buffer_itself() {
    let addresses = run_ranks(2, &ThreadOptions::default(), |comm: &mut Bytes| {
        let peer = 1 - comm.rank();
        let buffer = vec![5; 64];
        let sent = buffer.as_ptr() as usize;
        let pending = comm.start(TAG, vec![send(peer, buffer)], &[Incoming { peer, bytes: 64 }])?;
        let received = comm.wait(pending)?;
        // Both stay alive past the barrier, so that no allocation is used twice.
        comm.barrier()?;
        Ok::<_, CommError>((sent, received[0].buffer.as_ptr() as usize))
    })
    .expect("no rank fails");
    assert_eq!(addresses[0].0, addresses[1].1);
    assert_eq!(addresses[1].0, addresses[0].1);
}

#[test]
fn a_communicator_may_be_lent_to_another_thread() {
    let sums = run_ranks(2, &ThreadOptions::default(), |comm: &mut Bytes| {
        std::thread::scope(|scope| {
            let reduce = || {
                let mut values = [1.0];
                comm.reduce(&mut values).map(|()| values[0])
            };
            scope.spawn(reduce).join().expect("reducing does not panic")
        })
    });
    assert_eq!(sums.expect("no rank fails"), [2.0, 2.0]);
}

#[test]
fn broken_contracts_panic_with_the_numbers() {
    let start = |peer: usize| {
        panic_of(move |comm| comm.start(TAG, vec![send(peer, vec![1])], &[]).map(drop))
    };
    assert_eq!(start(2), "a send names rank 2 of 2 ranks");
    assert_eq!(start(0), "a send names its own rank 0");
    let twice = panic_of(|comm| {
        let recv = Incoming { peer: 1, bytes: 3 };
        comm.start(TAG, Vec::new(), &[recv, recv]).map(drop)
    });
    assert_eq!(twice, "a receive names rank 1 twice");
    let miscounted = panic_of(|comm| {
        let send = Outgoing { peer: 1, buffer: vec![0; 10], payload_bytes: 8, metadata_bytes: 1 };
        comm.start(TAG, vec![send], &[]).map(drop)
    });
    assert_eq!(miscounted, "a buffer of 10 bytes is counted as 9 bytes");
}

#[test]
#[should_panic(expected = "a run has at least one rank")]
fn no_ranks_are_refused() {
    let _ = run_ranks(0, &ThreadOptions::default(), |_: &mut Bytes| Ok::<_, CommError>(()));
}

#[test]
fn impossible_stacks_are_an_error() {
    let options = ThreadOptions { stack_bytes: 1 << 60, ..ThreadOptions::default() };
    let outcome = run_ranks(3, &options, |comm: &mut Bytes| comm.barrier());
    assert!(matches!(&outcome, Err(RankError::Spawn { rank: 0, .. })), "{outcome:?}");
}

#[test]
fn endless_deadlines_do_not_overflow() {
    let options = ThreadOptions { deadline: Duration::MAX, ..ThreadOptions::default() };
    let outcome = run_ranks(3, &options, |comm: &mut Bytes| comm.barrier());
    assert!(outcome.is_ok(), "{outcome:?}");
}

/// What polling says in the end.
fn poll(comm: &mut Bytes, pending: &PendingExchange) -> Result<(), CommError> {
    while !comm.is_ready(pending)? {}
    Ok(())
}

#[test]
fn polling_names_the_first_missing_peer_unless_all_are_there() {
    let options = ThreadOptions { deadline: Duration::ZERO, ..ThreadOptions::default() };
    let second = Tag { layer: 2, ..TAG };
    let (all_sent, all_polled) = (Barrier::new(3), Barrier::new(3));
    // Both send to rank 0 in the first exchange, and only rank 2 in the second.
    let mut answers = run_ranks(3, &options, |comm: &mut Bytes| {
        let n_sent = comm.rank();
        let recvs = [2, 1].map(|peer| Incoming { peer, bytes: 4 });
        let mut pending = Vec::new();
        for (i, tag) in [TAG, second].into_iter().enumerate() {
            let sends = if i < n_sent { vec![send(0, vec![9; 4])] } else { Vec::new() };
            let recvs = if n_sent == 0 { &recvs[..] } else { &[] };
            pending.push(comm.start(tag, sends, recvs)?);
        }
        all_sent.wait();
        let answers = [0, 1, 0].map(|i| poll(comm, &pending[i]));
        all_polled.wait();
        Ok::<_, CommError>(answers)
    })
    .expect("no rank fails");
    let [first, second, again] = answers.swap_remove(0);
    assert_eq!(first, Ok(()), "what is there is there, however late");
    assert!(matches!(second, Err(CommError::Timeout { rank: 0, peer: 1, .. })), "{second:?}");
    assert_eq!(again, second, "the first error is final");
}

#[test]
fn the_deadline_of_polling_counts_from_the_start() {
    let deadline = Duration::from_millis(2);
    let options = ThreadOptions { deadline, ..ThreadOptions::default() };
    let all_polled = Barrier::new(2);
    let answers = run_ranks(2, &options, |comm: &mut Bytes| {
        let recvs = [Incoming { peer: 1 - comm.rank(), bytes: 4 }];
        let pending = comm.start(TAG, Vec::new(), &recvs)?;
        std::thread::sleep(deadline + Duration::from_millis(1));
        let answer = comm.is_ready(&pending);
        all_polled.wait();
        Ok::<_, CommError>(answer)
    })
    .expect("no rank fails");
    for (rank, answer) in answers.into_iter().enumerate() {
        match answer {
            Err(CommError::Timeout { peer, waited, .. }) => {
                assert_eq!(peer, 1 - rank);
                assert!(waited > deadline, "gave up after {waited:?}");
            }
            other => panic!("{other:?} instead of a timeout"),
        }
    }
}

#[test]
fn a_foreign_exchange_is_refused() {
    let started = |comm: &mut Bytes| comm.start(TAG, Vec::new(), &[]);
    let of_rank_0 = Mutex::new(Some(run_ranks(1, &ThreadOptions::default(), started)));
    let outcome = run_ranks(2, &ThreadOptions::default(), |comm: &mut Bytes| {
        if comm.rank() == 0 {
            return Ok(());
        }
        let foreign = of_rank_0.lock().expect("nobody panics under the lock").take();
        let mut foreign = foreign.expect("it is taken once").expect("the rank started it");
        comm.is_ready(&foreign.remove(0)).map(drop)
    });
    match outcome {
        Err(RankError::Panicked { rank: 1, message }) => {
            assert_eq!(message, "rank 1 waits for an exchange of rank 0");
        }
        other => panic!("{other:?} instead of a panic"),
    }
}

/// A buffer whose copies can be counted.
struct Counted(#[expect(dead_code, reason = "held to be counted")] Arc<()>);

impl MessageLength for Counted {
    fn n_bytes(&self) -> usize {
        1
    }
}

#[test]
fn buffers_in_flight_are_dropped_with_a_failed_run() {
    let alive = Arc::new(());
    let outcome = run_ranks(3, &ThreadOptions::default(), |comm: &mut Threads<Counted>| {
        let rank = comm.rank();
        let peers = || (0..3).filter(move |&peer| peer != rank);
        for _ in 0..4 {
            let message = |peer| {
                let buffer = Counted(Arc::clone(&alive));
                Outgoing { peer, buffer, payload_bytes: 1, metadata_bytes: 0 }
            };
            let recvs: Vec<_> = peers().map(|peer| Incoming { peer, bytes: 1 }).collect();
            let _ = comm.start(TAG, peers().map(message).collect(), &recvs)?;
        }
        if rank == 1 {
            panic!("rank 1 gives up on purpose")
        }
        comm.barrier()
    });
    assert!(matches!(outcome, Err(RankError::Panicked { rank: 1, .. })), "{outcome:?}");
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn errors_read_well_and_keep_their_source() {
    let error = RankError::Failed {
        rank: 2,
        source: CommError::Timeout {
            rank: 2,
            operation: sylvie_comm::Operation::Exchange(TAG),
            peer: 0,
            waited: Duration::from_millis(1500),
        },
    };
    assert_eq!(error.to_string(), "rank 2 failed");
    let source = error.source().expect("a failed rank has a source").to_string();
    assert_eq!(
        source,
        "rank 2 waited 1.5s in vain for rank 0 in the exchange of evaluation epoch 4 layer 1 forward"
    );
}
