//! A rank that fails takes the others down at once, and the error names the cause.
//!
//! "At once" is checked without a clock: the runner's deadline should be long, so that a rank which is
//! not woken ends in a [`CommError::Timeout`] that the suites refuse. Only [`silence_times_out`]
//! wants a short one.

use std::sync::{Barrier, Mutex};
use std::time::Duration;

use sylvie_comm::{CommError, Communicator, Incoming, Operation, Pass, RankError, Tag};

use crate::exchange::{outgoing, tag};
use crate::polling::poll_until_ready;
use crate::{Jittered, Runner};

/// Repetitions of what races: ranks are sometimes caught in a call, sometimes before one.
const N_ROUNDS: u64 = 15;

/// The ways in which a rank can be waiting for another.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    Exchange,
    Polling,
    Gather,
    Reduce,
}

impl Waiting {
    const ALL: [Self; 4] = [Self::Exchange, Self::Polling, Self::Gather, Self::Reduce];

    /// Waits for `peer`, which does not come.
    fn wait<C: Communicator>(self, comm: &mut C, peer: usize) -> Result<(), CommError> {
        match self {
            Self::Exchange | Self::Polling => {
                let recvs = [Incoming { peer, bytes: 8 }];
                let pending = comm.start(WAITED, Vec::new(), &recvs)?;
                self.finish(comm, pending)
            }
            Self::Gather => comm.all_gather(b"here").map(drop),
            Self::Reduce => comm.reduce(&mut [1.0; 10]),
        }
    }

    /// Waits for an exchange by polling first, or not.
    fn finish<C: Communicator>(self, comm: &mut C, pending: C::Pending) -> Result<(), CommError> {
        if matches!(self, Self::Polling) {
            poll_until_ready(comm, &pending)?;
        }
        comm.wait(pending).map(drop)
    }

    fn operation(self) -> Operation {
        match self {
            Self::Exchange | Self::Polling => Operation::Exchange(WAITED),
            Self::Gather => Operation::AllGather,
            Self::Reduce => Operation::Reduce,
        }
    }
}

const WAITED: Tag = tag(3, 2, Pass::Backward);

/// What came of a run whose last rank failed.
struct Fallout {
    waiting: Waiting,
    /// The rank that failed.
    last: usize,
    /// The error of the run.
    error: RankError<CommError>,
    /// What the ranks that waited got from their calls.
    others: Vec<Result<(), CommError>>,
}

impl Fallout {
    /// Checks that the ranks that waited were told who ended the run, not merely that it had ended.
    fn assert_others_aborted(&self) {
        for answer in &self.others {
            let is_aborted =
                matches!(answer, Err(CommError::Aborted { rank, .. }) if *rank == self.last);
            assert!(is_aborted, "{answer:?} instead of an abort, waiting in {:?}", self.waiting);
        }
    }
}

/// Runs the last of `n_ranks` ranks through `fail` while the others wait for it in every way, and
/// hands what came of it to `check`.
fn fail_last<R: Runner>(
    runner: &R,
    n_ranks: usize,
    fail: impl Fn(&mut R::Comm<'_>) -> Result<(), CommError> + Sync,
    check: impl Fn(Fallout),
) {
    let last = n_ranks - 1;
    for waiting in Waiting::ALL {
        for round in 0..N_ROUNDS {
            let answers = Mutex::new(Vec::new());
            let outcome = runner.run(n_ranks, |comm| {
                if comm.rank() == last {
                    return fail(comm);
                }
                let result = waiting.wait(&mut Jittered::new(comm, round), last);
                note(&answers, result.clone());
                result
            });
            let error = outcome.expect_err("a rank that fails is noticed");
            let others = answers.into_inner().expect("no rank panicked while it noted an answer");
            check(Fallout { waiting, last, error, others });
        }
    }
}

/// An abort wakes ranks in exchanges and collectives, names its rank and cause, and outweighs what the
/// aborting rank returns.
pub fn abort_reaches_everyone<R: Runner>(runner: &R, n_ranks: usize) {
    let abort = |comm: &mut R::Comm<'_>| {
        comm.abort("first");
        comm.abort("second");
        let rank = comm.rank();
        let aborted = Err(CommError::Aborted { rank, cause: "first".into() });
        assert_eq!(comm.barrier(), aborted, "the aborting rank's own next call");
        assert_eq!(comm.start(WAITED, Vec::new(), &[]).map(drop), aborted);
        Ok(())
    };
    fail_last(runner, n_ranks, abort, |fallout| {
        fallout.assert_others_aborted();
        match fallout.error {
            RankError::Aborted { rank, cause } => {
                assert_eq!((rank, &*cause), (fallout.last, "first"));
            }
            other => panic!("{other:?} instead of an abort, waiting in {:?}", fallout.waiting),
        }
    });
}

/// An abort wakes ranks that wait for others than the aborting one, and without its leaving.
pub fn abort_wakes_by_itself<R: Runner>(runner: &R, n_ranks: usize) {
    for waiting in Waiting::ALL {
        let everyone_knows = Barrier::new(runner.n_ranks_here(n_ranks));
        let answers = Mutex::new(Vec::new());
        let outcome = runner.run(n_ranks, |comm| {
            let (rank, size) = (comm.rank(), comm.size());
            let answer = if rank == size - 1 {
                comm.abort("enough");
                comm.barrier()
            } else {
                waiting.wait(comm, (rank + 1) % size)
            };
            note(&answers, answer);
            // Nobody's channels close before everybody has an answer.
            everyone_knows.wait();
            Ok(())
        });
        assert!(matches!(outcome, Err(RankError::Aborted { .. })), "{outcome:?} in {waiting:?}");
        assert_all_aborted(answers, n_ranks - 1, runner.n_ranks_here(n_ranks));
    }
}

/// After an abort every call of every rank fails, also of those that had been getting on well.
pub fn abort_is_seen_by_later_calls<R: Runner>(runner: &R, n_ranks: usize) {
    for round in 0..N_ROUNDS {
        let n_good = round % 3;
        let answers = Mutex::new(Vec::new());
        let outcome = runner.run(n_ranks, |comm| {
            let comm = &mut Jittered::new(comm, round);
            if comm.rank() == 0 {
                for _ in 0..n_good {
                    comm.barrier()?;
                }
                comm.abort("enough");
            }
            // Rank 0 took part in `n_good` barriers, so the next cannot succeed.
            let failed = (0..=n_good).map(|_| comm.barrier()).find(Result::is_err);
            note(&answers, failed.unwrap_or(Ok(())));
            note(&answers, comm.reduce(&mut [1.0]));
            Ok(())
        });
        assert!(matches!(outcome, Err(RankError::Aborted { rank: 0, .. })), "{outcome:?}");
        assert_all_aborted(answers, 0, 2 * runner.n_ranks_here(n_ranks));
    }
}

/// What calls returned, noted by the ranks and judged after the run: a rank that panicked in an
/// aborted run would go unreported, because the abort came first.
type Answers = Mutex<Vec<Result<(), CommError>>>;

fn note(answers: &Answers, answer: Result<(), CommError>) {
    answers.lock().expect("no rank panics while it notes an answer").push(answer);
}

fn assert_all_aborted(answers: Answers, rank: usize, n_expected: usize) {
    let answers = answers.into_inner().expect("no rank panicked while it noted an answer");
    let aborted = Err(CommError::Aborted { rank, cause: "enough".into() });
    assert_eq!(answers, vec![aborted; n_expected]);
}

/// A panic ends every rank and is reported with its message.
pub fn panic_is_the_root_cause<R: Runner>(runner: &R, n_ranks: usize) {
    let fail = |comm: &mut R::Comm<'_>| panic!("rank {} gives up on purpose", comm.rank());
    fail_last(runner, n_ranks, fail, |fallout| {
        fallout.assert_others_aborted();
        match fallout.error {
            RankError::Panicked { rank, message } => {
                assert_eq!(rank, fallout.last);
                assert_eq!(message, format!("rank {rank} gives up on purpose"));
            }
            other => panic!("{other:?} instead of the panic, waiting in {:?}", fallout.waiting),
        }
    });
}

/// An error ends every rank and is reported as the rank returned it.
pub fn error_is_the_root_cause<R: Runner>(runner: &R, n_ranks: usize) {
    let own_error = || CommError::WrongLength { tag: WAITED, peer: 77, expected: 1, found: 2 };
    let fail = |_: &mut R::Comm<'_>| Err(own_error());
    fail_last(runner, n_ranks, fail, |fallout| {
        fallout.assert_others_aborted();
        match fallout.error {
            RankError::Failed { rank, source } => {
                assert_eq!((rank, source), (fallout.last, own_error()));
            }
            other => panic!("{other:?} instead of the error, waiting in {:?}", fallout.waiting),
        }
    });
}

/// A rank that leaves although others wait for it is an error, not a hang.
pub fn early_return_is_an_error<R: Runner>(runner: &R, n_ranks: usize) {
    let leave = |_: &mut R::Comm<'_>| Ok(());
    fail_last(runner, n_ranks, leave, |fallout| match fallout.error {
        RankError::Failed { rank, source: CommError::Departed { peer, operation } } => {
            assert_ne!(rank, fallout.last);
            assert_eq!((peer, operation), (fallout.last, fallout.waiting.operation()));
        }
        other => panic!("{other:?} instead of a departure, waiting in {:?}", fallout.waiting),
    });
}

/// Ranks that wait for one another in vain end with the operation, the peer and the time waited.
///
/// `runner` should have a deadline of some 20 ms; `deadline` is what it has.
pub fn silence_times_out<R: Runner>(runner: &R, deadline: Duration) {
    for way in [Waiting::Exchange, Waiting::Polling] {
        let outcome = runner.run(2, |comm| way.wait(comm, 1 - comm.rank()));
        assert_timeout(outcome, deadline, |_| way.operation());

        // One rank gathers, the other awaits a message.
        let ways = [Waiting::Gather, way];
        let outcome = runner.run(2, |comm| ways[comm.rank()].wait(comm, 1 - comm.rank()));
        assert_timeout(outcome, deadline, |rank| ways[rank].operation());
    }
}

fn assert_timeout(
    outcome: Result<(), RankError<CommError>>,
    deadline: Duration,
    expected: impl Fn(usize) -> Operation,
) {
    match outcome {
        Err(RankError::Failed {
            rank: failed,
            source: CommError::Timeout { rank, operation, peer, waited },
        }) => {
            assert_eq!((failed, operation, peer), (rank, expected(rank), 1 - rank));
            assert!(waited >= deadline, "gave up after {waited:?} of {deadline:?}");
        }
        other => panic!("{other:?} instead of a timeout"),
    }
}

/// Polling looks at every peer: it finds the departure of one while an earlier one is merely late.
pub fn polling_sees_every_peer<R: Runner>(runner: &R) {
    let outcome = runner.run(3, |comm| match comm.rank() {
        0 => {
            let recvs = [1, 2].map(|peer| Incoming { peer, bytes: 8 });
            let pending = comm.start(WAITED, Vec::new(), &recvs)?;
            poll_until_ready(comm, &pending)
        }
        1 => Waiting::Exchange.wait(comm, 0),
        _ => Ok(()),
    });
    match outcome {
        Err(RankError::Failed { rank: 0, source: CommError::Departed { peer: 2, operation } }) => {
            assert_eq!(operation, Waiting::Polling.operation());
        }
        other => panic!("{other:?} instead of the departure of rank 2"),
    }
}

/// Runs two ranks that each send one message under `tags[rank]` of `n_sent` bytes, await one of
/// `n_awaited` as `way` says, and returns the error of the run.
fn disagree<R: Runner>(
    runner: &R,
    way: Waiting,
    tags: [Tag; 2],
    n_sent: [usize; 2],
    n_awaited: [usize; 2],
) -> (usize, CommError) {
    let outcome = runner.run(2, |comm| {
        let (rank, peer) = (comm.rank(), 1 - comm.rank());
        let sends = vec![outgoing(runner, peer, vec![1; n_sent[rank]])];
        let recvs = [Incoming { peer, bytes: n_awaited[rank] }];
        let pending = comm.start(tags[rank], sends, &recvs)?;
        way.finish(comm, pending)
    });
    match outcome {
        Err(RankError::Failed { rank, source }) => (rank, source),
        other => panic!("{other:?} although the ranks disagree"),
    }
}

/// A message under another tag than the one due names both tags.
pub fn wrong_tag_names_both<R: Runner>(runner: &R) {
    let tags = [tag(1, 0, Pass::Forward), tag(1, 1, Pass::Forward)];
    for way in [Waiting::Exchange, Waiting::Polling] {
        let (rank, error) = disagree(runner, way, tags, [5, 5], [5, 5]);
        let peer = 1 - rank;
        assert_eq!(error, CommError::WrongTag { peer, expected: tags[rank], found: tags[peer] });
    }
}

/// Exchanges that two ranks start in different orders are found out.
pub fn swapped_order_is_an_error<R: Runner>(runner: &R) {
    let tags = [tag(0, 1, Pass::Forward), tag(0, 2, Pass::Forward)];
    let outcome = runner.run(2, |comm| {
        let (rank, peer) = (comm.rank(), 1 - comm.rank());
        let mut in_flight = Vec::new();
        for i in [rank, 1 - rank] {
            let sends = vec![outgoing(runner, peer, vec![3; 9])];
            in_flight.push(comm.start(tags[i], sends, &[Incoming { peer, bytes: 9 }])?);
        }
        let last = in_flight.pop().expect("two exchanges are in flight");
        comm.wait(last).map(drop)
    });
    let is_wrong_tag =
        matches!(&outcome, Err(RankError::Failed { source: CommError::WrongTag { .. }, .. }));
    assert!(is_wrong_tag, "{outcome:?}");
}

/// A message that is longer or shorter than planned is refused with both lengths.
pub fn wrong_length_names_both<R: Runner>(runner: &R) {
    let ways = [Waiting::Exchange, Waiting::Polling];
    for (way, n_found) in ways.into_iter().flat_map(|way| [0, 15, 17].map(|n| (way, n))) {
        let both = [tag(2, 0, Pass::Backward); 2];
        let (rank, error) = disagree(runner, way, both, [16, n_found], [16, 16]);
        let expected =
            CommError::WrongLength { tag: both[0], peer: 1, expected: 16, found: n_found };
        assert_eq!((rank, error), (0, expected));
    }
}

/// After its first error a rank's calls return that error again.
pub fn first_error_is_final<R: Runner>(runner: &R) {
    let outcome = runner.run(2, |comm| {
        let tag = tag(0, 0, Pass::Forward);
        let peer = 1 - comm.rank();
        if comm.rank() == 1 {
            let pending = comm.start(tag, vec![outgoing(runner, peer, vec![0; 3])], &[])?;
            return comm.wait(pending).map(drop);
        }
        let pending = comm.start(tag, Vec::new(), &[Incoming { peer, bytes: 4 }])?;
        let first = comm.wait(pending).map(drop);
        assert!(matches!(first, Err(CommError::WrongLength { .. })), "{first:?}");
        assert_eq!(comm.barrier(), first);
        assert_eq!(comm.start(tag, Vec::new(), &[]).map(drop), first);
        Ok(())
    });
    assert!(outcome.is_ok(), "{outcome:?}");
}

/// Ranks in different collectives, or that reduce different lengths, are told so.
pub fn unequal_collectives_are_errors<R: Runner>(runner: &R) {
    let ways = [Waiting::Gather, Waiting::Reduce];
    let outcome = runner.run(2, |comm| ways[comm.rank()].wait(comm, 1 - comm.rank()));
    match outcome {
        Err(RankError::Failed {
            rank,
            source: CommError::WrongCollective { peer, expected, found },
        }) => {
            assert_eq!(peer, 1 - rank);
            assert_eq!((expected, found), (ways[rank].operation(), ways[peer].operation()));
        }
        other => panic!("{other:?} instead of a wrong collective"),
    }
    // Of one and of two values over two ranks, rank 1 gets slices of the same length.
    for lengths in [[1, 2], [2, 1], [0, 100]] {
        let outcome = runner.run(2, |comm| comm.reduce(&mut vec![1.0; lengths[comm.rank()]]));
        match outcome {
            Err(RankError::Failed {
                rank,
                source: CommError::UnequalReduce { peer, expected, found },
            }) => assert_eq!((peer, expected, found), (1 - rank, lengths[rank], lengths[peer])),
            other => panic!("{other:?} instead of unequal lengths {lengths:?}"),
        }
    }
}
