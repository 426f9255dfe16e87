//! Factors of halo rows: what sampling leaves of a block.

use sylvie_tensor::Backend;

use crate::config::{ModelConfig, ModelKind};
use crate::structure::HaloBlock;

/// One factor a halo row of one block: 1 / p for a row that was sampled with probability p, 0 for one
/// that was not. Every graph layer of a network may use the same factors.
///
/// A row of factor 0 takes no part in the layer and gets a gradient of zeros; its values must be
/// finite all the same.
///
/// # Paper
/// BNS-GCN. GCN and SAGE multiply the edges of a row by its factor. GAT multiplies the exponential of
/// their scores by it, that is, adds its logarithm to the scores after LeakyReLU; the values are not
/// scaled. Either way the expectation of each sum, GAT's two sums included, is that of all rows.
///
/// # Example
/// ```
/// use sylvie_gnn::{ColumnFactors, Context, HaloBlock, Input, Network, Structure, Weights};
/// use sylvie_tensor::{Backend, CpuBackend};
/// # use sylvie_gnn::{ModelConfig, ModelKind, NormKind};
/// # use sylvie_graph::{Assignment, Direction, clean_edges};
/// # use sylvie_partition::build_parts;
/// # let (graph, _) = clean_edges(3, &[(0, 1), (1, 2)], Direction::Symmetric)?;
/// # let part = &build_parts(&graph, &Assignment::new(2, vec![0, 0, 1])?, None)[0];
/// # let config = ModelConfig::new(ModelKind::Sage, vec![1, 1, 1]);
/// # let network = Network::new(ModelConfig { dropout: 0.0, norm: NormKind::None, ..config })?;
/// # let backend = CpuBackend::new(1);
/// # let structure = Structure::new(&backend, part);
/// # let ctx = Context { backend: &backend, structure: &structure, dropout: None, keeps_halo: true };
/// # let tensors = [0.0, 1.0, 0.0, 0.0, 1.0, 0.0].map(|value| vec![value]);
/// # let weights = Weights::from_host(&backend, network.config(), &tensors);
///
/// // Layer 1 of `network` takes the means of neighbours. Of two own rows the second reads the other
/// // and a halo row, which is drawn with a probability of 1/2.
/// let own = Input::dense(backend.upload(2, 1, &[1.0, 2.0]));
/// let halo = Input::dense(backend.upload(1, 1, &[6.0]));
/// let block: &HaloBlock<CpuBackend> = &structure.halo[0];
/// let second_row = |factor| {
///     let factors = ColumnFactors::new(&backend, network.config(), block, &[factor]);
///     let mut partial = network.begin(1, ctx, &weights, &own);
///     network.add_block(ctx, &weights, 0, &halo, Some(&factors), &mut partial);
///     backend.download(&network.finish(ctx, &weights, partial).0)[1]
/// };
/// let (drawn, left_out) = (second_row(2.0), second_row(0.0));
/// assert_eq!((drawn, left_out), ((1.0 + 2.0 * 6.0) / 2.0, 1.0 / 2.0));
/// assert_eq!((drawn + left_out) / 2.0, 3.5); // right on average
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ColumnFactors<B: Backend> {
    kind: Factors<B>,
}

enum Factors<B: Backend> {
    /// Of the edges of each row, GCN's own factor included, `n_rows x 1`.
    Scale(B::Matrix),
    Scores(ScoreFactors<B>),
}

/// Factors of the exponentials of attention scores.
pub(crate) struct ScoreFactors<B: Backend> {
    /// 0 for a row that takes part, else minus infinity, `n_rows x heads`.
    mask: B::Matrix,
    /// `n_rows x 1`.
    ones: B::Matrix,
    /// The logarithm of the factor of all rows that take part, as a bias of `1 x heads`, and its
    /// negative; absent for a factor of 1.
    log: Option<LogFactor<B>>,
}

struct LogFactor<B: Backend> {
    plus: B::Matrix,
    minus: B::Matrix,
}

impl<B: Backend> ColumnFactors<B> {
    /// Brings the factors of a block's halo rows to the backend.
    ///
    /// # Shapes
    /// `factors`: one a halo row of `block`.
    /// # Cost
    /// One upload of `n_rows` values; for GAT of `n_rows * (heads + 1)`.
    /// # Panics
    /// If there is another number of factors, one of them is negative or not finite, or, for GAT, two
    /// that are not 0 differ.
    #[must_use]
    pub fn new(backend: &B, config: &ModelConfig, block: &HaloBlock<B>, factors: &[f32]) -> Self {
        assert_eq!(factors.len(), block.n_rows, "factors and halo rows of a block");
        for (row, factor) in factors.iter().enumerate() {
            assert!((0.0..f32::INFINITY).contains(factor), "a factor of {factor} for row {row}");
        }
        let kind = match config.kind {
            ModelKind::Gat => Factors::Scores(ScoreFactors::new(backend, config.n_heads, factors)),
            ModelKind::Sage => Factors::Scale(backend.upload(factors.len(), 1, factors)),
            ModelKind::Gcn => {
                let mut scale = backend.upload(factors.len(), 1, factors);
                backend.scale_rows(&block.gcn_factors, &mut scale);
                Factors::Scale(scale)
            }
        };
        Self { kind }
    }

    /// # Panics
    /// If these are factors for attention.
    pub(crate) fn scale(&self) -> &B::Matrix {
        match &self.kind {
            Factors::Scale(scale) => scale,
            Factors::Scores(_) => panic!("factors made for attention in a layer of sums"),
        }
    }

    /// # Panics
    /// If these are factors for sums.
    pub(crate) fn scores(&self) -> &ScoreFactors<B> {
        match &self.kind {
            Factors::Scores(scores) => scores,
            Factors::Scale(_) => panic!("factors made for sums in a layer of attention"),
        }
    }
}

impl<B: Backend> ScoreFactors<B> {
    fn new(backend: &B, n_heads: usize, factors: &[f32]) -> Self {
        let n_rows = factors.len();
        let offset = |&factor: &f32| if factor == 0.0 { f32::NEG_INFINITY } else { 0.0 };
        let mask: Vec<f32> = factors
            .iter()
            .flat_map(|factor| std::iter::repeat_n(offset(factor), n_heads))
            .collect();
        let mut kept = factors.iter().copied().filter(|&factor| factor != 0.0);
        let factor = kept.next().unwrap_or(1.0);
        if let Some(other) = kept.find(|&other| other != factor) {
            panic!("factors of {factor} and {other} in one block of attention");
        }
        let log = (factor != 1.0).then(|| {
            let log = f64::from(factor).ln() as f32;
            let bias = |value| backend.upload(1, n_heads, &vec![value; n_heads]);
            LogFactor { plus: bias(log), minus: bias(-log) }
        });
        Self {
            mask: backend.upload(n_rows, n_heads, &mask),
            ones: backend.upload(n_rows, 1, &vec![1.0; n_rows]),
            log,
        }
    }

    /// Makes the source scores of rows that take no part minus infinity.
    pub(crate) fn mask(&self, backend: &B, source: &mut B::Matrix) {
        backend.add_scaled_rows(&self.mask, &self.ones, source);
    }

    /// Lowers what scores are compared with, their largest or the log of their sum, by the log of the
    /// factor: scores themselves then count as if it had been added to them.
    pub(crate) fn lower(&self, backend: &B, level: &mut B::Matrix) {
        if let Some(log) = &self.log {
            backend.add_bias(&log.minus, level);
        }
    }

    /// Undoes [`ScoreFactors::lower`].
    pub(crate) fn raise(&self, backend: &B, level: &mut B::Matrix) {
        if let Some(log) = &self.log {
            backend.add_bias(&log.plus, level);
        }
    }

    /// The lowered copy of `level`; nothing where it would be the same.
    pub(crate) fn lowered(&self, backend: &B, level: &B::Matrix) -> Option<B::Matrix> {
        self.log.as_ref().map(|_| {
            let mut lowered = backend.copy(level);
            self.lower(backend, &mut lowered);
            lowered
        })
    }
}
