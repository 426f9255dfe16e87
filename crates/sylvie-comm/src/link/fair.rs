//! Max-min fair shares of the hosts' links.

/// Which way a flow goes: through the egress of one host and the ingress of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) from_host: usize,
    pub(super) to_host: usize,
}

/// What a direction of a link has left for the flows whose rate is not yet fixed.
#[derive(Clone, Copy)]
struct Direction {
    free: f64,
    n_flows: usize,
}

impl Direction {
    fn share(&self) -> f64 {
        if self.n_flows == 0 { f64::INFINITY } else { self.free / self.n_flows as f64 }
    }

    fn give(&mut self, rate: f64) {
        self.free -= rate;
        self.n_flows -= 1;
    }
}

/// The rate of each flow when both directions of every link carry `capacity`.
///
/// Progressive filling: all rates grow alike until some direction is full; the flows through it keep
/// their rate, and the others go on growing.
///
/// # Cost
/// A pass over flows and hosts for each different rate.
pub(super) fn rates(paths: &[Path], capacity: f64) -> Vec<f64> {
    /// Rates as near to each other as this are the same rate, rounded differently.
    const SAME: f64 = 1.0 + 1e-9;
    let n_hosts = paths.iter().map(|path| path.from_host.max(path.to_host) + 1).max().unwrap_or(0);
    let idle = Direction { free: capacity, n_flows: 0 };
    let (mut egress, mut ingress) = (vec![idle; n_hosts], vec![idle; n_hosts]);
    for path in paths {
        egress[path.from_host].n_flows += 1;
        ingress[path.to_host].n_flows += 1;
    }
    let mut rates = vec![0.0; paths.len()];
    let mut growing: Vec<usize> = (0..paths.len()).collect();
    while !growing.is_empty() {
        let least =
            egress.iter().chain(&ingress).map(Direction::share).fold(f64::INFINITY, f64::min);
        growing.retain(|&flow| {
            let Path { from_host, to_host } = paths[flow];
            let share = egress[from_host].share().min(ingress[to_host].share());
            // Fixing a flow at the least share leaves a full direction's share as it is and raises the
            // share of every other, so that the order of the flows makes no difference.
            let is_full = share <= least * SAME;
            if is_full {
                rates[flow] = share;
                egress[from_host].give(share);
                ingress[to_host].give(share);
            }
            !is_full
        });
    }
    rates
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{prop_assert, proptest};

    use super::{Path, rates};

    fn paths(ends: &[(usize, usize)]) -> Vec<Path> {
        ends.iter().map(|&(from_host, to_host)| Path { from_host, to_host }).collect()
    }

    /// Rates of a link of 12.
    fn of_12(ends: &[(usize, usize)]) -> Vec<f64> {
        rates(&paths(ends), 12.0)
    }

    #[test]
    fn flows_share_what_they_have_in_common() {
        assert_eq!(of_12(&[]), []);
        assert_eq!(of_12(&[(0, 1)]), [12.0]);
        assert_eq!(of_12(&[(0, 1), (0, 2)]), [6.0, 6.0], "one egress");
        assert_eq!(of_12(&[(1, 0), (2, 0), (3, 0)]), [4.0; 3], "one ingress");
        assert_eq!(of_12(&[(0, 1), (1, 0)]), [12.0, 12.0], "full duplex");
        assert_eq!(of_12(&[(0, 1), (1, 2), (2, 0)]), [12.0; 3], "a ring");
    }

    #[test]
    fn what_one_flow_cannot_use_others_get() {
        // Host 0 sends three flows, one of them to host 1, to which host 2 sends as well: that one gets
        // a third of host 0's link and leaves two thirds of host 1's.
        assert_eq!(of_12(&[(0, 1), (0, 3), (0, 4), (2, 1)]), [4.0, 4.0, 4.0, 8.0]);
        // Three levels: 3 through host 0's egress, 4.5 through host 1's ingress, 7.5 from host 3.
        let ends = [(0, 1), (0, 4), (0, 5), (0, 6), (2, 1), (3, 1), (3, 7)];
        assert_eq!(of_12(&ends), [3.0, 3.0, 3.0, 3.0, 4.5, 4.5, 7.5]);
    }

    proptest! {
        /// No direction carries more than it can, and every flow crosses a full one in which none is
        /// faster: the definition of max-min fairness.
        #[test]
        fn shares_are_max_min_fair(ends in vec((0..5_usize, 0..5_usize), 0..30)) {
            let ends: Vec<_> = ends.into_iter().filter(|(from, to)| from != to).collect();
            let found = rates(&paths(&ends), 1.0);
            for (flow, &(from, to)) in ends.iter().enumerate() {
                let through = |shares: &dyn Fn(&(usize, usize)) -> bool| {
                    let rates = ends.iter().zip(&found).filter(|(ends, _)| shares(ends));
                    rates.fold((0.0, 0.0_f64), |(sum, most), (_, &rate)| (sum + rate, most.max(rate)))
                };
                let directions = [through(&|ends| ends.0 == from), through(&|ends| ends.1 == to)];
                prop_assert!(directions.iter().all(|&(sum, _)| sum < 1.0 + 1e-9));
                let is_bottleneck =
                    |&(sum, most): &(f64, f64)| sum > 1.0 - 1e-6 && found[flow] > most * (1.0 - 1e-6);
                prop_assert!(directions.iter().any(is_bottleneck), "flow {flow} of {found:?}");
            }
        }
    }
}
