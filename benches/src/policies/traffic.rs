//! How many bytes cross the hosts' links, from the halo plans and the policy alone.

use sylvie::comm::LinkModel;
use sylvie::gnn::ModelConfig;
use sylvie::pipeline::{ExchangePolicy, Parts};
use sylvie::random::Pass;

/// A number for each ordered pair of ranks: `matrix[from][to]`.
pub(crate) type Matrix = Vec<Vec<f64>>;

/// A square of zeros.
pub(crate) fn zeros(n_ranks: usize) -> Matrix {
    vec![vec![0.0; n_ranks]; n_ranks]
}

/// The most bytes that a direction of a host's link carries; ranks of one host do not use it.
pub(crate) fn busiest(bytes: &Matrix, ranks_per_host: usize) -> f64 {
    let n_hosts = bytes.len().div_ceil(ranks_per_host);
    let (mut egress, mut ingress) = (vec![0.0; n_hosts], vec![0.0; n_hosts]);
    for (from, row) in bytes.iter().enumerate() {
        for (to, n_bytes) in row.iter().enumerate() {
            let (from_host, to_host) = (from / ranks_per_host, to / ranks_per_host);
            if from_host != to_host {
                egress[from_host] += n_bytes;
                ingress[to_host] += n_bytes;
            }
        }
    }
    egress.into_iter().chain(ingress).fold(0.0, f64::max)
}

/// What the exchanges and reductions of an epoch send.
#[derive(Clone, Copy)]
pub(crate) struct Volumes<'a> {
    /// `rows[owner][reader]`: boundary rows of the owner that the reader needs.
    pub(crate) rows: &'a [Vec<usize>],
    pub(crate) model: &'a ModelConfig,
    pub(crate) policy: &'a ExchangePolicy,
}

impl Volumes<'_> {
    /// Bytes of one exchange; with boundary sampling those to be expected.
    pub(crate) fn exchange(&self, layer: usize, pass: Pass, parts: Parts) -> Matrix {
        let codec = self.policy.codec(layer, pass);
        let kept = self.policy.boundary_sampling.unwrap_or(1.0);
        let n_cols = self.model.n_columns_in(layer);
        let mut bytes = zeros(self.rows.len());
        for (owner, readers) in self.rows.iter().enumerate() {
            if !matches!(parts, Parts::All) && parts != Parts::Owner(owner as u32) {
                continue;
            }
            for (reader, &n_rows) in readers.iter().enumerate() {
                let (from, to) = match pass {
                    Pass::Forward => (owner, reader),
                    Pass::Backward => (reader, owner),
                };
                bytes[from][to] = kept * codec.message_bytes(n_rows, n_cols) as f64;
            }
        }
        bytes
    }

    /// Bytes of the two rounds in which a layer's weight gradients are summed: slices to whoever sums
    /// them, sums to everybody.
    pub(crate) fn reduction(&self, layer: usize) -> [Matrix; 2] {
        let tensors = self.model.tensors(layer);
        let n_values: usize = tensors.iter().map(|tensor| tensor.n_rows * tensor.n_cols).sum();
        let n_ranks = self.rows.len();
        let slice_bytes = |rank: usize| {
            4.0 * (n_values / n_ranks + usize::from(rank < n_values % n_ranks)) as f64
        };
        let (mut slices, mut sums) = (zeros(n_ranks), zeros(n_ranks));
        for from in 0..n_ranks {
            for to in (0..n_ranks).filter(|&to| to != from) {
                slices[from][to] = slice_bytes(to);
                sums[from][to] = slice_bytes(from);
            }
        }
        [slices, sums]
    }
}

/// Times that a link's bandwidth and latency imply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pipe {
    pub(crate) bytes_per_s: f64,
    pub(crate) latency_s: f64,
    pub(crate) ranks_per_host: usize,
}

impl Pipe {
    /// The pipe of a modelled link; without one, everything arrives at once.
    pub(crate) fn of(link: Option<&LinkModel>) -> Self {
        let none = Self { bytes_per_s: f64::INFINITY, latency_s: 0.0, ranks_per_host: 1 };
        link.map_or(none, |link| Self {
            bytes_per_s: link.bits_per_second / 8.0,
            latency_s: link.latency.as_secs_f64(),
            ranks_per_host: link.ranks_per_host,
        })
    }

    /// The largest over hosts and directions of bytes over rate.
    pub(crate) fn transfer_s(&self, bytes: &Matrix) -> f64 {
        busiest(bytes, self.ranks_per_host) / self.bytes_per_s
    }

    /// Both rounds of a reduction, each with its latency.
    pub(crate) fn reduction_s(&self, rounds: &[Matrix; 2]) -> f64 {
        rounds.iter().map(|bytes| self.transfer_s(bytes) + self.latency_s).sum()
    }
}

#[cfg(test)]
mod tests {
    use sylvie::gnn::{ModelConfig, ModelKind, NormKind};
    use sylvie::pipeline::{ExchangePolicy, Parts, Preset};
    use sylvie::random::Pass;

    use super::{Pipe, Volumes, busiest};

    fn model() -> ModelConfig {
        let widths = vec![10, 64, 3];
        let (kind, norm) = (ModelKind::Gcn, NormKind::Layer);
        ModelConfig { kind, widths, n_linear: 0, n_heads: 1, dropout: 0.0, norm }
    }

    #[test]
    fn the_busiest_direction_leaves_out_what_stays_on_a_host() {
        // Two hosts of two ranks. Host 0 sends 1 + 2 + 4 + 8 = 15, host 1 sends 16.
        let bytes = vec![
            vec![0.0, 100.0, 1.0, 2.0],
            vec![100.0, 0.0, 4.0, 8.0],
            vec![16.0, 0.0, 0.0, 100.0],
            vec![0.0, 0.0, 100.0, 0.0],
        ];
        assert_eq!(busiest(&bytes, 2), 16.0);
        assert_eq!(busiest(&bytes, 4), 0.0);
        // A host a rank: rank 1 sends 112, and 200 go nowhere but through rank 0's and 1's links.
        assert_eq!(busiest(&bytes, 1), 116.0);
    }

    #[test]
    fn an_exchange_sends_rows_at_the_codecs_width() {
        let (rows, model) = (vec![vec![0, 5], vec![7, 0]], model());
        let of = |policy: &ExchangePolicy, pass, parts| {
            Volumes { rows: &rows, model: &model, policy }.exchange(1, pass, parts)
        };
        let full = Preset::Vanilla.policy();
        let forward = of(&full, Pass::Forward, Parts::All);
        assert_eq!(forward, [[0.0, 5.0 * 256.0], [7.0 * 256.0, 0.0]]);
        let backward = of(&full, Pass::Backward, Parts::All);
        assert_eq!(backward, [[0.0, 7.0 * 256.0], [5.0 * 256.0, 0.0]]);
        let of_part_1 = of(&full, Pass::Backward, Parts::Owner(1));
        assert_eq!(of_part_1, [[0.0, 7.0 * 256.0], [0.0, 0.0]]);
        // One bit: 8 bytes a row and 4 of metadata.
        let one_bit = of(&Preset::SylvieS.policy(), Pass::Forward, Parts::All);
        assert_eq!(one_bit, [[0.0, 60.0], [84.0, 0.0]]);
        let sampled = of(&Preset::BnsGcn.policy(), Pass::Forward, Parts::All);
        assert_eq!(sampled, [[0.0, 0.1 * 1280.0], [0.1 * 1792.0, 0.0]]);
    }

    #[test]
    fn a_reduction_sends_slices_and_then_sums() {
        let (rows, model) = (vec![vec![0; 2]; 2], model());
        let policy = Preset::Vanilla.policy();
        let volumes = Volumes { rows: &rows, model: &model, policy: &policy };
        // 64 * 3 + 3 weights of the last layer, which has no normalisation: slices of 98 and 97.
        let [slices, sums] = volumes.reduction(1);
        assert_eq!(slices, [[0.0, 388.0], [392.0, 0.0]]);
        assert_eq!(sums, [[0.0, 392.0], [388.0, 0.0]]);
        let pipe = Pipe { bytes_per_s: 392.0, latency_s: 0.5, ranks_per_host: 1 };
        assert_eq!(pipe.reduction_s(&[slices, sums]), 3.0);
    }
}
