//! Ranks with a modelled link: every suite as without one, and nothing sooner than the model says.

use std::time::{Duration, Instant};

use proptest::prelude::{ProptestConfig, any, proptest};
use sylvie_comm::{
    CommError, Communicator, Incoming, LinkModel, Outgoing, Pass, Purpose, RankError, Tag,
    ThreadOptions, Threads, run_ranks,
};
use sylvie_conformance::{collectives, exchange, faults, plans, polling};

use crate::conformance::OnThreads;

type Bytes = Threads<Vec<u8>>;

const TAG: Tag = Tag { epoch: 2, layer: 1, pass: Pass::Backward, purpose: Purpose::Training };

fn over(link: &str) -> ThreadOptions {
    let link: LinkModel = link.parse().expect("the test's link is right");
    ThreadOptions { link: Some(link), ..ThreadOptions::default() }
}

/// Fast, but slow enough for messages to be caught on their way.
fn fast() -> OnThreads {
    OnThreads(over("1Gbps,30us,ranks-per-host=2"))
}

/// Nothing that crosses this link arrives while a test lasts.
const HOPELESS: &str = "1Gbps,3600s";

fn send(peer: usize, n_bytes: usize) -> Outgoing<Vec<u8>> {
    let (buffer, payload_bytes) = (vec![7; n_bytes], n_bytes as u64);
    Outgoing { peer, buffer, payload_bytes, metadata_bytes: 0 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn follows_plan(plan in plans(5)) {
        exchange::follows_plan(&fast(), &plan);
    }

    #[test]
    fn follows_plan_with_delays(plan in plans(5), seed in any::<u64>()) {
        exchange::follows_plan_with_delays(&fast(), &plan, seed);
    }

    #[test]
    fn follows_plan_polling(plan in plans(5), seed in any::<u64>()) {
        polling::follows_plan(&fast(), &plan, seed);
    }

    #[test]
    fn follows_plan_polling_with_delays(plan in plans(5), seed in any::<u64>()) {
        polling::follows_plan_with_delays(&fast(), &plan, seed);
    }
}

#[test]
fn exchanges_and_collectives_are_those_of_threads() {
    for n_ranks in [1, 2, 3, 5] {
        let runner = &fast();
        exchange::ring_brings_buffers_home(runner, n_ranks);
        exchange::backward_mirrors_forward(runner, n_ranks);
        exchange::sender_may_leave_first(runner, n_ranks);
        polling::ready_after_the_last_peer_sent(runner, n_ranks);
        polling::ready_late_with_delays(runner, n_ranks);
        collectives::all_gather_is_in_rank_order(runner, n_ranks);
        collectives::reduce_has_the_bits_of_rank_order(runner, n_ranks);
        collectives::barrier_holds_everyone(runner, n_ranks);
    }
}

#[test]
fn faults_are_those_of_threads() {
    for n_ranks in [1, 2, 3, 5] {
        let runner = &fast();
        faults::abort_reaches_everyone(runner, n_ranks);
        faults::abort_wakes_by_itself(runner, n_ranks);
        faults::abort_is_seen_by_later_calls(runner, n_ranks);
        faults::panic_is_the_root_cause(runner, n_ranks);
        faults::error_is_the_root_cause(runner, n_ranks);
        if n_ranks > 1 {
            faults::early_return_is_an_error(runner, n_ranks);
        }
    }
    faults::polling_sees_every_peer(&fast());
    faults::wrong_tag_names_both(&fast());
    faults::swapped_order_is_an_error(&fast());
    faults::wrong_length_names_both(&fast());
    faults::first_error_is_final(&fast());
    faults::unequal_collectives_are_errors(&fast());
    let deadline = Duration::from_millis(20);
    let hasty = ThreadOptions { deadline, ..fast().0 };
    faults::silence_times_out(&OnThreads(hasty), deadline);
}

/// Runs ranks that each time something, and checks that each took at least `n_ms`.
fn no_sooner(
    n_ranks: usize,
    link: &str,
    n_ms: u64,
    body: impl Fn(&mut Bytes) -> Result<(), CommError> + Sync,
) {
    // Since before any rank has sent anything.
    let began = Instant::now();
    let took = run_ranks(n_ranks, &over(link), |comm: &mut Bytes| {
        body(comm)?;
        Ok::<_, CommError>(began.elapsed())
    });
    for (rank, took) in took.expect("no rank fails").into_iter().enumerate() {
        let least = Duration::from_millis(n_ms);
        assert!(took >= least, "{took:?} of {least:?} at rank {rank} of {n_ranks} over {link}");
    }
}

/// How a rank learns that messages have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Waiting,
    Polling,
}

/// Everyone sends `n_bytes` to everyone and waits for it.
fn everyone_to_everyone(comm: &mut Bytes, n_bytes: usize, way: Way) -> Result<(), CommError> {
    let rank = comm.rank();
    let peers = || (0..comm.size()).filter(move |&peer| peer != rank);
    let sends = peers().map(|peer| send(peer, n_bytes)).collect();
    let recvs: Vec<_> = peers().map(|peer| Incoming { peer, bytes: n_bytes }).collect();
    let pending = comm.start(TAG, sends, &recvs)?;
    while way == Way::Polling && !comm.is_ready(&pending)? {
        std::thread::yield_now();
    }
    comm.wait(pending).map(drop)
}

#[test]
fn exchanges_take_what_the_link_takes() {
    for way in [Way::Waiting, Way::Polling] {
        // 100 Mbps are 12500 bytes a millisecond.
        no_sooner(2, "100Mbps,1ms", 3, |comm| everyone_to_everyone(comm, 25_000, way));
        no_sooner(3, "100Mbps", 4, |comm| everyone_to_everyone(comm, 25_000, way));
        // Four messages cross each way.
        let two_hosts = "100Mbps,2ms,ranks-per-host=2";
        no_sooner(4, two_hosts, 6, |comm| everyone_to_everyone(comm, 12_500, way));
        no_sooner(2, "1Gbps,3ms", 3, |comm| everyone_to_everyone(comm, 0, way));
    }
}

#[test]
fn exchanges_in_flight_queue_up_in_their_pair() {
    no_sooner(2, "100Mbps", 6, |comm| {
        let peer = 1 - comm.rank();
        let recvs = [Incoming { peer, bytes: 25_000 }];
        let mut in_flight = Vec::new();
        for layer in 0..3 {
            in_flight.push(comm.start(Tag { layer, ..TAG }, vec![send(peer, 25_000)], &recvs)?);
        }
        // The last is through last.
        let last = in_flight.pop().expect("three are in flight");
        comm.wait(last)?;
        in_flight.into_iter().rev().try_for_each(|pending| comm.wait(pending).map(drop))
    });
}

#[test]
fn collectives_travel_the_link_too() {
    no_sooner(3, "100Mbps,1ms", 3, |comm| comm.all_gather(&[5; 12_500]).map(drop));
    // Each step of the reduction sends two slices of 12500 bytes and pays the latency.
    no_sooner(3, "100Mbps,1ms", 6, |comm| comm.reduce(&mut [1.0; 3 * 12_500 / 4]));
    no_sooner(3, "100Mbps,1ms", 3, |comm| (0..3).try_for_each(|_| comm.barrier()));
}

#[test]
fn ranks_of_a_host_do_not_use_the_link() {
    let options = over(&format!("{HOPELESS},ranks-per-host=4"));
    let outcome = run_ranks(4, &options, |comm: &mut Bytes| {
        everyone_to_everyone(comm, 1000, Way::Polling)?;
        comm.barrier()
    });
    assert!(outcome.is_ok(), "{outcome:?}");
}

#[test]
fn what_is_on_its_way_at_the_deadline_is_missing() {
    let deadline = Duration::from_millis(10);
    let options = ThreadOptions { deadline, ..over(HOPELESS) };
    type Call = fn(&mut Bytes) -> Result<(), CommError>;
    let calls: [Call; 3] = [
        |comm| everyone_to_everyone(comm, 10, Way::Waiting),
        |comm| everyone_to_everyone(comm, 10, Way::Polling),
        |comm| comm.barrier(),
    ];
    for call in calls {
        let outcome = run_ranks(2, &options, call);
        match outcome {
            Err(RankError::Failed { rank, source: CommError::Timeout { peer, waited, .. } }) => {
                assert_eq!(peer, 1 - rank);
                assert!(waited >= deadline, "gave up after {waited:?}");
            }
            other => panic!("{other:?} instead of a timeout"),
        }
    }
}

#[test]
fn an_abort_wakes_who_waits_for_the_link() {
    let outcome = run_ranks(3, &over(HOPELESS), |comm: &mut Bytes| {
        if comm.rank() == 2 {
            for peer in 0..2 {
                let _ = comm.start(TAG, vec![send(peer, 10)], &[])?;
            }
            comm.abort("enough");
            return Ok(());
        }
        let pending = comm.start(TAG, Vec::new(), &[Incoming { peer: 2, bytes: 10 }])?;
        comm.wait(pending).map(drop)
    });
    assert!(matches!(outcome, Err(RankError::Aborted { rank: 2, .. })), "{outcome:?}");
}

#[test]
#[should_panic(expected = "a host has 0 ranks")]
fn impossible_links_are_refused() {
    let link = LinkModel { bits_per_second: 1e9, latency: Duration::ZERO, ranks_per_host: 0 };
    let options = ThreadOptions { link: Some(link), ..ThreadOptions::default() };
    let _ = run_ranks(2, &options, |_: &mut Bytes| Ok::<_, CommError>(()));
}
