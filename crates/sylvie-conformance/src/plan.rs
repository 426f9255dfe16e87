//! Random schedules of exchanges, known to every rank.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any};
use sylvie_comm::{Incoming, Pass, Purpose, Tag};

use crate::mix;

/// Exchanges that all ranks start in the same order.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of ranks.
    pub n_ranks: usize,
    /// The exchanges, in the order in which they start.
    pub exchanges: Vec<PlannedExchange>,
}

/// One exchange of a plan.
#[derive(Clone, Debug)]
pub struct PlannedExchange {
    /// Its tag; several exchanges may have the same.
    pub tag: Tag,
    /// Bytes from rank `i` to rank `j` at `i * n_ranks + j`; `None` where nothing is sent.
    pub n_bytes: Vec<Option<usize>>,
    /// How many later exchanges start before this one is waited for.
    pub lag: usize,
    /// Among exchanges waited for at the same time the lower comes first; also turns the order in
    /// which peers are listed.
    pub turn: usize,
    /// Whether the ranks gather something right after the start.
    pub gathers: bool,
}

/// One call of every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Start(usize),
    Wait(usize),
    Gather(usize),
}

impl Plan {
    /// The calls in order: each exchange is started, and waited for after its lag.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let n_exchanges = self.exchanges.len();
        let mut steps = Vec::new();
        for now in 0..n_exchanges {
            steps.push(Step::Start(now));
            if self.exchanges[now].gathers {
                steps.push(Step::Gather(now));
            }
            let ends_now = |&i: &usize| (i + self.exchanges[i].lag).min(n_exchanges - 1) == now;
            let mut ending: Vec<usize> = (0..=now).filter(ends_now).collect();
            ending.sort_by_key(|&i| self.exchanges[i].turn);
            steps.extend(ending.into_iter().map(Step::Wait));
        }
        steps
    }

    /// Length of the message of an exchange, if there is one.
    pub(crate) fn n_bytes(&self, exchange: usize, from: usize, to: usize) -> Option<usize> {
        if from == to {
            return None;
        }
        self.exchanges[exchange].n_bytes[from * self.n_ranks + to]
    }

    /// The peers of `rank` in this exchange's order.
    pub(crate) fn peers(&self, exchange: usize, rank: usize) -> impl Iterator<Item = usize> {
        let (n_ranks, turn) = (self.n_ranks, self.exchanges[exchange].turn);
        (0..n_ranks).map(move |i| (i + turn) % n_ranks).filter(move |&peer| peer != rank)
    }

    /// What must arrive at `rank`.
    pub(crate) fn recvs(&self, exchange: usize, rank: usize) -> Vec<Incoming> {
        let incoming =
            |peer| self.n_bytes(exchange, peer, rank).map(|bytes| Incoming { peer, bytes });
        self.peers(exchange, rank).filter_map(incoming).collect()
    }
}

/// The bytes of a message, which follow from its place in the plan.
pub(crate) fn content(exchange: usize, from: usize, to: usize, n_bytes: usize) -> Vec<u8> {
    let byte = |i| mix(&[exchange as u64, from as u64, to as u64, i as u64]) as u8;
    (0..n_bytes).map(byte).collect()
}

/// Plans for 1 to `max_ranks` ranks: up to 6 exchanges, up to 4 of them in flight, messages of up to
/// 300 bytes, a third of the pairs silent.
pub fn plans(max_ranks: usize) -> impl Strategy<Value = Plan> {
    (1..=max_ranks).prop_flat_map(plans_of)
}

/// As [`plans`], for this number of ranks.
pub fn plans_of(n_ranks: usize) -> impl Strategy<Value = Plan> {
    (Just(n_ranks), vec(exchanges(n_ranks), 0..=6))
        .prop_map(|(n_ranks, exchanges)| Plan { n_ranks, exchanges })
}

fn exchanges(n_ranks: usize) -> impl Strategy<Value = PlannedExchange> {
    let n_bytes = vec(option::weighted(0.67, 0..=300_usize), n_ranks * n_ranks);
    (tags(), n_bytes, 0..4_usize, 0..8_usize, any::<bool>()).prop_map(
        |(tag, n_bytes, lag, turn, gathers)| PlannedExchange { tag, n_bytes, lag, turn, gathers },
    )
}

fn tags() -> impl Strategy<Value = Tag> {
    (0..2_u32, 0..2_u16, any::<bool>(), 0..3_usize).prop_map(|(epoch, layer, forward, purpose)| {
        let pass = if forward { Pass::Forward } else { Pass::Backward };
        let purpose = [Purpose::Setup, Purpose::Training, Purpose::Evaluation][purpose];
        Tag { epoch, layer, pass, purpose }
    })
}

#[cfg(test)]
mod tests {
    use super::{Plan, PlannedExchange, Step};
    use sylvie_comm::{Pass, Purpose, Tag};

    #[test]
    fn steps_wait_once_for_each_exchange_after_its_lag() {
        let tag = Tag { epoch: 0, layer: 0, pass: Pass::Forward, purpose: Purpose::Setup };
        let exchange =
            |lag, turn, gathers| PlannedExchange { tag, n_bytes: Vec::new(), lag, turn, gathers };
        let exchanges = vec![exchange(1, 5, false), exchange(0, 2, true), exchange(3, 0, false)];
        assert_eq!(
            Plan { n_ranks: 0, exchanges }.steps(),
            [
                Step::Start(0),
                Step::Start(1),
                Step::Gather(1),
                Step::Wait(1),
                Step::Wait(0),
                Step::Start(2),
                Step::Wait(2)
            ]
        );
    }
}
