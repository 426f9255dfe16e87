//! The flow of messages through the modelled links, as a function of times handed in.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::LinkModel;
use super::fair::{self, Path};

/// A message on its way between hosts. Whoever learns of its arrival has claimed it: it is asked about
/// no more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Flow(u64);

/// All messages in progress. Times are counted from the start of the run.
///
/// # Cost
/// Time passes when somebody sends or asks. Each message that goes through costs a computation of the
/// shares of all connections in use; an answer about the future adds, after a send, those that go
/// through until then.
#[derive(Debug)]
pub(crate) struct Network {
    model: LinkModel,
    n_flows: u64,
    present: Progress,
    /// `present`, run on as if nothing more were sent; as far as somebody has asked.
    future: Option<Progress>,
}

impl Network {
    pub(crate) fn new(model: LinkModel) -> Self {
        model.assert_sound();
        Self {
            model,
            n_flows: 0,
            present: Progress::new(model.bits_per_second / 8.0),
            future: None,
        }
    }

    /// Sends a message at the time `at`; none is on its way between ranks of the same host.
    pub(crate) fn send(
        &mut self,
        at: Duration,
        from: usize,
        to: usize,
        n_bytes: usize,
    ) -> Option<Flow> {
        let path = Path { from_host: self.model.host_of(from), to_host: self.model.host_of(to) };
        if path.from_host == path.to_host {
            return None;
        }
        let flow = self.n_flows;
        self.n_flows += 1;
        self.present.send(at.as_secs_f64(), (from, to), path, Parcel { flow, n_bytes });
        self.future = None;
        Some(Flow(flow))
    }

    /// Whether the message has arrived.
    pub(crate) fn has_arrived(&mut self, at: Duration, flow: &Flow) -> bool {
        let at = at.as_secs_f64();
        self.present.advance(at);
        let through = self.present.through.get(&flow.0);
        let has_arrived =
            through.is_some_and(|through| through + self.model.latency.as_secs_f64() <= at);
        if has_arrived {
            self.present.through.remove(&flow.0);
        }
        has_arrived
    }

    /// When the message, which has not arrived, will arrive if nothing more is sent.
    pub(crate) fn arrival(&mut self, flow: &Flow) -> Duration {
        let through = match self.present.through.get(&flow.0) {
            Some(&through) => through,
            None => self.future.get_or_insert_with(|| self.present.future()).run_until(flow.0),
        };
        let through = Duration::try_from_secs_f64(through).unwrap_or(Duration::MAX);
        through.saturating_add(self.model.latency)
    }
}

/// A message and its length.
#[derive(Clone, Copy, Debug)]
struct Parcel {
    flow: u64,
    n_bytes: usize,
}

/// An ordered pair of ranks with a message in progress.
#[derive(Clone, Debug)]
struct Connection {
    ranks: (usize, usize),
    path: Path,
    /// The message in progress.
    flow: u64,
    /// What of it had not gone through when the time was last `now`.
    bytes_left: f64,
    bytes_per_second: f64,
    /// When it will be through at this rate.
    end: f64,
    /// Messages behind it.
    waiting: VecDeque<Parcel>,
}

/// The network at one time. Between two events, a send or a message going through, rates are constant
/// and nothing has to be done.
#[derive(Debug)]
struct Progress {
    bytes_per_second: f64,
    /// Time of the last event, in seconds.
    now: f64,
    /// The earliest end; infinite when nothing is in progress.
    next: f64,
    connections: Vec<Connection>,
    /// When messages that nobody has claimed went through.
    through: HashMap<u64, f64>,
}

impl Progress {
    /// Ends nearer to each other than this are one event, in seconds.
    const SAME_TIME: f64 = 1e-12;

    fn new(bytes_per_second: f64) -> Self {
        let (connections, through) = (Vec::new(), HashMap::new());
        Self { bytes_per_second, now: 0.0, next: f64::INFINITY, connections, through }
    }

    /// A copy to run ahead with.
    fn future(&self) -> Self {
        let connections = self.connections.clone();
        Self { connections, through: HashMap::new(), ..*self }
    }

    fn send(&mut self, at: f64, ranks: (usize, usize), path: Path, parcel: Parcel) {
        self.advance(at);
        let Parcel { flow, n_bytes } = parcel;
        if let Some(same) = self.connections.iter_mut().find(|other| other.ranks == ranks) {
            same.waiting.push_back(parcel);
        } else if n_bytes == 0 {
            self.through.insert(flow, at);
        } else {
            let (bytes_left, waiting) = (n_bytes as f64, VecDeque::new());
            let (bytes_per_second, end) = (0.0, f64::INFINITY);
            self.pass_time(at);
            self.connections.push(Connection {
                ranks,
                path,
                flow,
                bytes_left,
                bytes_per_second,
                end,
                waiting,
            });
            self.share();
        }
    }

    /// Lets everything go through that will be through at the time `to`.
    fn advance(&mut self, to: f64) {
        while self.next <= to {
            self.step();
        }
    }

    /// The time at which `flow` goes through; infinite if it never does.
    fn run_until(&mut self, flow: u64) -> f64 {
        loop {
            if let Some(&through) = self.through.get(&flow) {
                return through;
            }
            if self.next.is_infinite() {
                return self.next;
            }
            self.step();
        }
    }

    /// Goes to the next event: whatever ends then is through, and what waited behind it begins.
    fn step(&mut self) {
        let now = self.next;
        self.pass_time(now);
        let through = &mut self.through;
        self.connections.retain_mut(|connection| {
            connection.end > now + Self::SAME_TIME || connection.begin_next(now, through)
        });
        self.share();
    }

    /// Lets the bytes flow that go through until `to`, when nothing has ended yet.
    fn pass_time(&mut self, to: f64) {
        let n_secs = to - self.now;
        for connection in &mut self.connections {
            let bytes_through = connection.bytes_per_second * n_secs;
            connection.bytes_left = (connection.bytes_left - bytes_through).max(0.0);
        }
        self.now = to;
    }

    /// Shares the links anew, after an event.
    fn share(&mut self) {
        let paths: Vec<Path> = self.connections.iter().map(|connection| connection.path).collect();
        self.next = f64::INFINITY;
        let rates = fair::rates(&paths, self.bytes_per_second);
        for (connection, rate) in self.connections.iter_mut().zip(rates) {
            connection.bytes_per_second = rate;
            connection.end = self.now + connection.bytes_left / rate;
            self.next = self.next.min(connection.end);
        }
    }
}

impl Connection {
    /// Notes that the message in progress is through, and those of no bytes right behind it; begins the
    /// next, if there is one.
    fn begin_next(&mut self, now: f64, through: &mut HashMap<u64, f64>) -> bool {
        through.insert(self.flow, now);
        while let Some(Parcel { flow, n_bytes }) = self.waiting.pop_front() {
            if n_bytes > 0 {
                (self.flow, self.bytes_left) = (flow, n_bytes as f64);
                return true;
            }
            through.insert(flow, now);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{Flow, Network};
    use crate::LinkModel;

    /// A thousand bytes a second, so that milliseconds are bytes, and a latency of 5 ms.
    fn network(ranks_per_host: usize) -> Network {
        let latency = Duration::from_millis(5);
        Network::new(LinkModel { bits_per_second: 8000.0, latency, ranks_per_host })
    }

    fn ms(n_ms: u64) -> Duration {
        Duration::from_millis(n_ms)
    }

    fn sent(network: &mut Network, at_ms: u64, ranks: (usize, usize), n_bytes: usize) -> Flow {
        network.send(ms(at_ms), ranks.0, ranks.1, n_bytes).expect("the ranks are on two hosts")
    }

    /// When the messages arrive, foretold after the last was sent; and checks that they arrive then and
    /// not before.
    fn arrivals_ms(network: &mut Network, flows: &[Flow]) -> Vec<u64> {
        let foretold: Vec<_> = flows.iter().map(|flow| network.arrival(flow)).collect();
        let tick = Duration::from_nanos(10);
        let mut by_time: Vec<_> = foretold.iter().zip(flows).collect();
        by_time.sort_by_key(|&(at, _)| at);
        for (&at, flow) in by_time {
            assert!(!network.has_arrived(at - tick, flow), "{flow:?} before {at:?}");
            assert!(network.has_arrived(at + tick, flow), "{flow:?} after {at:?}");
        }
        foretold.iter().map(|at| (at.as_secs_f64() * 1e3).round() as u64).collect()
    }

    /// Arrivals of messages all sent at 0.
    fn together(ranks_per_host: usize, messages: &[(usize, usize, usize)]) -> Vec<u64> {
        let network = &mut network(ranks_per_host);
        let send = |&(from, to, n_bytes)| sent(network, 0, (from, to), n_bytes);
        let flows: Vec<_> = messages.iter().map(send).collect();
        arrivals_ms(network, &flows)
    }

    #[test]
    fn one_message_takes_its_bytes_and_the_latency() {
        assert_eq!(together(1, &[(0, 1, 100)]), [105]);
        assert_eq!(together(1, &[(0, 1, 0)]), [5]);
        let network = &mut network(1);
        let late = sent(network, 30, (1, 0), 7);
        assert_eq!(arrivals_ms(network, &[late]), [42]);
    }

    #[test]
    fn what_ends_leaves_its_share_to_the_others() {
        // One egress: both at half speed until the shorter is through at 40.
        assert_eq!(together(1, &[(0, 1, 100), (0, 2, 20)]), [125, 45]);
        // One ingress, three senders.
        assert_eq!(together(1, &[(1, 0, 30), (2, 0, 20), (3, 0, 10)]), [65, 55, 35]);
    }

    #[test]
    fn both_directions_are_free_of_each_other() {
        assert_eq!(together(1, &[(0, 1, 100), (1, 0, 60)]), [105, 65]);
    }

    #[test]
    fn what_one_message_cannot_use_others_get() {
        // A third of host 0's egress goes to host 1 and leaves host 2 two thirds of its ingress.
        let messages = [(0, 1, 100), (0, 3, 100), (0, 4, 100), (2, 1, 300)];
        // At 300 the first three are through; host 2 has sent 200 and has the link to itself.
        assert_eq!(together(1, &messages), [305, 305, 305, 405]);
    }

    #[test]
    fn ranks_of_a_host_share_its_link_and_need_none_among_themselves() {
        // Two hosts of two ranks, everyone to everyone else: 4 messages each way across.
        let across = [(0, 2), (0, 3), (1, 2), (1, 3), (2, 0), (2, 1), (3, 0), (3, 1)];
        let messages = across.map(|(from, to)| (from, to, 50));
        assert_eq!(together(2, &messages), [205; 8]);
        let network = &mut network(2);
        assert_eq!(network.send(ms(0), 0, 1, 50), None);
        assert_eq!(network.send(ms(0), 3, 2, 50), None);
    }

    #[test]
    fn who_joins_late_delays_what_is_in_progress() {
        let network = &mut network(1);
        let first = sent(network, 0, (0, 1), 100);
        assert_eq!(network.arrival(&first), ms(105));
        // At 60 there are 40 bytes left; half speed until the second's 10 are through at 80.
        let second = sent(network, 60, (0, 2), 10);
        assert_eq!(arrivals_ms(network, &[first, second]), [115, 85]);
    }

    #[test]
    fn who_joins_after_an_arrival_changes_nothing_before() {
        let network = &mut network(1);
        let first = sent(network, 0, (0, 1), 40);
        let second = sent(network, 100, (0, 2), 40);
        assert!(network.has_arrived(ms(101), &first));
        assert_eq!(arrivals_ms(network, &[second]), [145]);
    }

    #[test]
    fn a_pair_keeps_its_order() {
        // The pair has one share, whatever it has in progress; nothing overtakes, also nothing empty.
        let messages = [(0, 1, 30), (0, 1, 0), (0, 1, 10), (0, 1, 0), (0, 2, 40)];
        assert_eq!(together(1, &messages), [65, 65, 85, 85, 85]);
    }

    #[test]
    fn extreme_settings_neither_panic_nor_hang() {
        for bits_per_second in [f64::MIN_POSITIVE, f64::MAX] {
            for latency in [Duration::ZERO, Duration::MAX] {
                let link = LinkModel { bits_per_second, latency, ranks_per_host: 1 };
                let network = &mut Network::new(link);
                let flow = sent(network, 3, (0, 1), usize::MAX);
                let behind = sent(network, 4, (0, 1), 1);
                let arrival = network.arrival(&behind);
                assert!(arrival >= network.arrival(&flow) && arrival >= latency);
                let _ = network.has_arrived(Duration::MAX, &flow);
            }
        }
    }

    #[test]
    #[should_panic(expected = "a link carries -1 bits a second")]
    fn a_link_that_carries_nothing_is_refused() {
        let latency = Duration::ZERO;
        let _ = Network::new(LinkModel { bits_per_second: -1.0, latency, ranks_per_host: 1 });
    }

    proptest! {
        /// Whatever is sent when: nothing arrives before its own bytes could be through, a host carries
        /// no more than its link, pairs keep their order, and no link that is wanted idles.
        #[test]
        fn messages_keep_to_the_links(
            sends in vec((0..5_u64, 0..5_usize, 1..5_usize, 0..50_usize), 1..40),
            asks in any::<u64>(),
        ) {
            let network = &mut network(1);
            let (mut at_ms, mut sent_at, mut flows) = (0, Vec::new(), Vec::new());
            for (i, &(pause_ms, from, step, n_bytes)) in sends.iter().enumerate() {
                at_ms += pause_ms;
                let ranks = (from, (from + step) % 5);
                flows.push(sent(network, at_ms, ranks, n_bytes));
                sent_at.push((at_ms, ranks, n_bytes as u64));
                // Asking about the future in between must not change it.
                if asks >> (i % 64) & 1 == 1 {
                    let _ = network.arrival(&flows[i / 2]);
                }
            }
            let n_total: usize = sends.iter().map(|&(.., n_bytes)| n_bytes).sum();
            let arrivals = flows.iter().map(|flow| network.arrival(flow)).collect::<Vec<_>>();
            let tick = Duration::from_nanos(100);
            for (i, &(at_ms, ranks, n_bytes)) in sent_at.iter().enumerate() {
                prop_assert!(arrivals[i] + tick >= ms(at_ms + n_bytes + 5));
                // Some wanted link is never idle, so that all is through when all bytes in turn are.
                let last_ms = sent_at.last().map_or(0, |&(at_ms, ..)| at_ms);
                prop_assert!(arrivals[i] <= ms(last_ms + n_total as u64 + 5) + tick);
                let before = sent_at[..i].iter().rposition(|&(_, other, _)| other == ranks);
                prop_assert!(before.is_none_or(|before| arrivals[before] <= arrivals[i]));
                // What left host `from` since this message was sent, up to its arrival.
                let leaves_with = |j: &usize| {
                    let (other_ms, other, _) = sent_at[*j];
                    other.0 == ranks.0 && other_ms >= at_ms && arrivals[*j] <= arrivals[i]
                };
                let n_left: u64 =
                    (0..flows.len()).filter(leaves_with).map(|j| sent_at[j].2).sum();
                prop_assert!(arrivals[i] + tick >= ms(at_ms + n_left + 5));
            }
            for (flow, arrival) in flows.iter().zip(&arrivals) {
                prop_assert_eq!(network.arrival(flow), *arrival, "the future is what it was");
            }
        }
    }
}
