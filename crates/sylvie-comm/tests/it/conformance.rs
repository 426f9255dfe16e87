//! Threads pass every suite.

use std::time::Duration;

use proptest::prelude::{ProptestConfig, any, proptest};
use sylvie_comm::{CommError, RankError, ThreadOptions, Threads, run_ranks};
use sylvie_conformance::{Runner, collectives, exchange, faults, plans, polling};

pub(crate) struct OnThreads(pub(crate) ThreadOptions);

impl Runner for OnThreads {
    type Buffer = Vec<u8>;
    type Comm<'a> = Threads<Vec<u8>>;

    fn run(
        &self,
        n_ranks: usize,
        body: impl Fn(&mut Self::Comm<'_>) -> Result<(), CommError> + Sync,
    ) -> Result<(), RankError<CommError>> {
        run_ranks(n_ranks, &self.0, body).map(|values| assert_eq!(values.len(), n_ranks))
    }

    fn buffer(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    fn bytes(&self, buffer: Vec<u8>) -> Vec<u8> {
        buffer
    }
}

fn patient() -> OnThreads {
    OnThreads(ThreadOptions::default())
}

fn on_sizes(sizes: &[usize], suite: impl Fn(&OnThreads, usize)) {
    for &n_ranks in sizes {
        suite(&patient(), n_ranks);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn follows_plan(plan in plans(5)) {
        exchange::follows_plan(&patient(), &plan);
    }

    #[test]
    fn follows_plan_with_delays(plan in plans(5), seed in any::<u64>()) {
        exchange::follows_plan_with_delays(&patient(), &plan, seed);
    }

    #[test]
    fn follows_plan_polling(plan in plans(5), seed in any::<u64>()) {
        polling::follows_plan(&patient(), &plan, seed);
    }

    #[test]
    fn follows_plan_polling_with_delays(plan in plans(5), seed in any::<u64>()) {
        polling::follows_plan_with_delays(&patient(), &plan, seed);
    }
}

#[test]
fn ring_brings_buffers_home() {
    on_sizes(&[1, 2, 3, 5], exchange::ring_brings_buffers_home);
}

#[test]
fn backward_mirrors_forward() {
    on_sizes(&[1, 2, 3, 5], exchange::backward_mirrors_forward);
}

#[test]
fn sender_may_leave_first() {
    on_sizes(&[1, 2, 3, 5], exchange::sender_may_leave_first);
}

#[test]
fn ready_after_the_last_peer_sent() {
    on_sizes(&[1, 2, 3, 5], polling::ready_after_the_last_peer_sent);
}

#[test]
fn ready_late_with_delays() {
    on_sizes(&[1, 2, 3, 5], polling::ready_late_with_delays);
}

#[test]
fn all_gather_is_in_rank_order() {
    on_sizes(&[1, 2, 3, 5], collectives::all_gather_is_in_rank_order);
}

#[test]
fn reduce_has_the_bits_of_rank_order() {
    on_sizes(&[1, 2, 3, 5], collectives::reduce_has_the_bits_of_rank_order);
}

#[test]
fn barrier_holds_everyone() {
    on_sizes(&[1, 2, 3, 5], collectives::barrier_holds_everyone);
}

#[test]
fn abort_reaches_everyone() {
    on_sizes(&[1, 2, 3, 5], faults::abort_reaches_everyone);
}

#[test]
fn abort_wakes_by_itself() {
    on_sizes(&[1, 2, 3, 5], faults::abort_wakes_by_itself);
}

#[test]
fn abort_is_seen_by_later_calls() {
    on_sizes(&[1, 2, 3, 5], faults::abort_is_seen_by_later_calls);
}

#[test]
fn panic_is_the_root_cause() {
    on_sizes(&[1, 2, 3, 5], faults::panic_is_the_root_cause);
}

#[test]
fn error_is_the_root_cause() {
    on_sizes(&[1, 2, 3, 5], faults::error_is_the_root_cause);
}

#[test]
fn early_return_is_an_error() {
    on_sizes(&[2, 3, 5], faults::early_return_is_an_error);
}

#[test]
fn silence_times_out() {
    let deadline = Duration::from_millis(20);
    let hasty = OnThreads(ThreadOptions { deadline, ..ThreadOptions::default() });
    faults::silence_times_out(&hasty, deadline);
}

#[test]
fn polling_sees_every_peer() {
    faults::polling_sees_every_peer(&patient());
}

#[test]
fn wrong_tag_names_both() {
    faults::wrong_tag_names_both(&patient());
}

#[test]
fn swapped_order_is_an_error() {
    faults::swapped_order_is_an_error(&patient());
}

#[test]
fn wrong_length_names_both() {
    faults::wrong_length_names_both(&patient());
}

#[test]
fn first_error_is_final() {
    faults::first_error_is_final(&patient());
}

#[test]
fn unequal_collectives_are_errors() {
    faults::unequal_collectives_are_errors(&patient());
}
