//! How boundary rows are exchanged: one engine's parameters.

use std::fmt;
use std::str::FromStr;

use sylvie_gnn::{ModelConfig, ModelKind};
use sylvie_lowbit::{RowCodec, Width};
use sylvie_random::Pass;
use sylvie_tensor::Wire;

use crate::schedule::n_exchanged;

/// When exchanged rows are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// In the epoch that sent them: Sylvie-S.
    #[default]
    Sync,
    /// One epoch later, zeros in the first: Sylvie-A and PipeGCN.
    Async,
}

/// What of an exchange a setting is about.
///
/// # Example
/// ```
/// use sylvie_pipeline::{Directions, UnknownWord};
/// use sylvie_random::Pass;
///
/// let scope: Directions = "features".parse()?;
/// assert!(scope.include(Pass::Forward) && !scope.include(Pass::Backward));
/// # Ok::<(), UnknownWord>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Directions {
    /// Embeddings, sent forward.
    Features,
    /// Gradients, sent backward.
    Gradients,
    /// Both.
    #[default]
    Both,
}

impl Directions {
    /// Whether rows of `pass` are meant.
    #[must_use]
    pub const fn include(self, pass: Pass) -> bool {
        match self {
            Self::Features => matches!(pass, Pass::Forward),
            Self::Gradients => matches!(pass, Pass::Backward),
            Self::Both => true,
        }
    }
}

/// How much of the halo is in memory at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// A layer's whole halo.
    #[default]
    All,
    /// The rows of one remote part: fetched, aggregated and dropped before the next (SAR). Raw features
    /// are fetched at once before the first epoch, and attention keeps them.
    Sequential,
}

/// How halo rows of 1, 2, 4 or 8 bits lie in memory until a layer sums them.
///
/// # Example
/// ```
/// use sylvie_pipeline::{ExchangePolicy, HaloRows, Preset};
///
/// let policy = ExchangePolicy { halo: HaloRows::Packed, ..Preset::SylvieS.policy() };
/// assert_eq!(policy.halo.to_string(), "packed");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HaloRows {
    /// Packed where rows can be and the backend sums them no slower so ([`Wire::packs_well`](sylvie_tensor::Wire::packs_well)),
    /// else f32: attention multiplies rows, boundary sampling leaves some out, an average needs them as numbers, and sums that
    /// gather bf16 round them.
    #[default]
    Auto,
    /// Decoded to f32 as they come.
    F32,
    /// As they came: they are decoded in registers, once an edge. The bits are the same.
    Packed,
}

impl HaloRows {
    /// Whether rows of so many columns stay packed, where they can be.
    pub(crate) fn packs<B: Wire>(self, backend: &B, width: Width, n_cols: usize) -> bool {
        let is_wanted = match self {
            Self::Auto => backend.packs_well(width, n_cols),
            Self::F32 => false,
            Self::Packed => true,
        };
        is_wanted && width.is_quantized()
    }
}

/// Which rows go through the codec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Those that are sent.
    #[default]
    Boundary,
    /// Own rows as well, as the paper's ablation does.
    All,
}

/// Everything that decides what crosses the split, and when.
///
/// # Paper
/// Sylvie-S and Sylvie-A with the Bounded Staleness Adaptor, sections 3.2 and 3.3; PipeGCN, BNS-GCN and
/// SAR, its baselines, are other values of the same fields.
///
/// # Example
/// ```
/// use sylvie_gnn::{ModelConfig, ModelKind};
/// use sylvie_lowbit::{RowCodec, Width};
/// use sylvie_pipeline::{ExchangePolicy, Preset};
/// use sylvie_random::Pass;
///
/// // Layers 1 and 2 are exchanged: four bits and two forward, half precision backward.
/// let model = ModelConfig::new(ModelKind::Sage, vec![64, 32, 32, 10]);
/// let policy = ExchangePolicy {
///     forward: vec![RowCodec::new(Width::Four), RowCodec::new(Width::Two)],
///     backward: vec![RowCodec::new(Width::F16)],
///     overlap: true,
///     ..ExchangePolicy::full_precision()
/// };
/// policy.check(&model)?;
/// assert_eq!(policy.codec(2, Pass::Forward).width, Width::Two);
///
/// let refused = ExchangePolicy { staleness: 5, ..Preset::SylvieS.policy() };
/// let reason = refused.check(&model).unwrap_err().to_string();
/// assert!(reason.starts_with("--staleness cannot be combined with --schedule sync"));
/// # Ok::<(), sylvie_pipeline::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ExchangePolicy {
    /// Codec of embeddings: one for all exchanged layers, or one for each, the first of them first.
    pub forward: Vec<RowCodec>,
    /// Codec of gradients, likewise.
    pub backward: Vec<RowCodec>,
    /// When rows are used.
    pub schedule: Schedule,
    /// Epochs from one synchronous epoch to the next in an asynchronous schedule; 0 for none at all.
    pub staleness: u32,
    /// What such an epoch exchanges synchronously.
    pub staleness_scope: Directions,
    /// Probability that a boundary row is sent to a reader in an epoch, in (0, 1]; `None` sends all
    /// without a draw (BNS-GCN).
    pub boundary_sampling: Option<f64>,
    /// How much of the halo is in memory.
    pub memory: Memory,
    /// What is averaged over the epochs before it is used (PipeGCN).
    pub smooth: Option<Directions>,
    /// Weight of the past in that average, in [0, 1).
    pub smooth_decay: f32,
    /// Which rows go through the codec.
    pub scope: Scope,
    /// How halo rows lie in memory; those of other widths, and rows in evaluations, are f32.
    pub halo: HaloRows,
    /// Whether a synchronous schedule computes what needs own rows alone while the halo travels.
    pub overlap: bool,
}

impl ExchangePolicy {
    /// Synchronous, with the same codec both ways and everywhere.
    #[must_use]
    pub fn uniform(codec: RowCodec) -> Self {
        Self {
            forward: vec![codec],
            backward: vec![codec],
            schedule: Schedule::Sync,
            staleness: 0,
            staleness_scope: Directions::Both,
            boundary_sampling: None,
            memory: Memory::All,
            smooth: None,
            smooth_decay: 0.95,
            scope: Scope::Boundary,
            halo: HaloRows::Auto,
            overlap: false,
        }
    }

    /// Synchronous and in full precision.
    #[must_use]
    pub fn full_precision() -> Self {
        Self::uniform(RowCodec::new(Width::F32))
    }

    /// The codec of a pass of a layer that is exchanged.
    ///
    /// # Panics
    /// If there is no codec at all.
    #[must_use]
    pub fn codec(&self, layer: usize, pass: Pass) -> RowCodec {
        let codecs = match pass {
            Pass::Forward => &self.forward,
            Pass::Backward => &self.backward,
        };
        // Layer 0 reads raw features: the first exchanged layer is layer 1.
        let codec = codecs.get(layer.saturating_sub(1)).or(codecs.last());
        *codec.expect("a policy has a codec for each pass")
    }

    /// Whether an epoch uses the rows of a pass in the epoch itself.
    ///
    /// # Paper
    /// Section 3.3: synchronous when (t + 1) mod E is 0.
    ///
    /// # Example
    /// ```
    /// use sylvie_pipeline::{ExchangePolicy, Preset};
    /// use sylvie_random::Pass;
    ///
    /// let policy = ExchangePolicy { staleness: 3, ..Preset::SylvieA.policy() };
    /// let synchronous = (0..7).filter(|&epoch| policy.is_synchronous(epoch, Pass::Forward));
    /// assert_eq!(synchronous.collect::<Vec<u32>>(), [2, 5]);
    /// ```
    #[must_use]
    pub const fn is_synchronous(&self, epoch: u32, pass: Pass) -> bool {
        match self.schedule {
            Schedule::Sync => true,
            Schedule::Async => {
                self.staleness > 0
                    && self.staleness_scope.include(pass)
                    && (epoch as u64 + 1).is_multiple_of(self.staleness as u64)
            }
        }
    }

    /// Checks that the fields can be combined, with each other and with the network.
    ///
    /// # Errors
    /// What cannot be, and why.
    pub fn check(&self, model: &ModelConfig) -> Result<(), PolicyError> {
        let expected = n_exchanged(model);
        for (flag, codecs) in [("bits-forward", &self.forward), ("bits-backward", &self.backward)] {
            if codecs.len() != 1 && codecs.len() != expected {
                return Err(PolicyError::Codecs { flag, found: codecs.len(), expected });
            }
        }
        if let Some(p) = self.boundary_sampling
            && !(p > 0.0 && p <= 1.0)
        {
            return Err(PolicyError::Sampling { found: p });
        }
        if !(0.0..1.0).contains(&self.smooth_decay) {
            return Err(PolicyError::Decay { found: self.smooth_decay });
        }
        let mut conflicts =
            self.conflicts().into_iter().chain(self.conflicts_of_packed(model.kind));
        match conflicts.find(|conflict| conflict.is_met) {
            None => Ok(()),
            Some(Conflict { what, with, reason, .. }) => {
                Err(PolicyError::Conflict { what, with, reason })
            }
        }
    }

    fn conflicts(&self) -> [Conflict; 8] {
        let is_async = self.schedule == Schedule::Async;
        let is_sequential = self.memory == Memory::Sequential;
        [
            conflict(
                self.staleness > 0 && !is_async,
                "--staleness",
                "--schedule sync",
                "every epoch of it is synchronous already",
            ),
            conflict(
                self.staleness_scope != Directions::Both && !is_async,
                "--staleness-scope",
                "--schedule sync",
                "every epoch of it is synchronous, both ways",
            ),
            conflict(
                self.staleness == 0 && self.staleness_scope != Directions::Both,
                "--staleness-scope",
                "--staleness 0",
                "there is no synchronous epoch whose scope it could be",
            ),
            conflict(
                is_sequential && is_async,
                "--memory sequential",
                "--schedule async",
                "stale rows of every remote part have to be kept from one epoch to the next",
            ),
            conflict(
                is_sequential && self.overlap,
                "--memory sequential",
                "--overlap",
                "rows that travel meanwhile would be in memory beside those that are read",
            ),
            conflict(
                self.smooth.is_some() && !is_async,
                "--smooth",
                "--schedule sync",
                "it averages stale rows, and there are none",
            ),
            conflict(
                self.smooth.is_some() && self.boundary_sampling.is_some(),
                "--smooth",
                "--boundary-sampling",
                "an average needs the same rows in every epoch",
            ),
            conflict(
                self.overlap && is_async,
                "--overlap",
                "--schedule async",
                "an asynchronous exchange is hidden already",
            ),
        ]
    }

    /// How halo rows lie in memory where a network of this kind reads them.
    pub(crate) fn halo_rows(&self, kind: ModelKind) -> HaloRows {
        let packed = Self { halo: HaloRows::Packed, ..self.clone() };
        let can_be_packed =
            packed.conflicts_of_packed(kind).iter().all(|conflict| !conflict.is_met);
        if can_be_packed { self.halo } else { HaloRows::F32 }
    }

    fn conflicts_of_packed(&self, kind: ModelKind) -> [Conflict; 3] {
        let is_packed = self.halo == HaloRows::Packed;
        let smooths_rows = self.smooth.is_some_and(|smooth| smooth.include(Pass::Forward));
        let what = "--halo packed";
        [
            conflict(
                is_packed && kind == ModelKind::Gat,
                what,
                "--model gat",
                "attention multiplies halo rows by weights before it gathers them",
            ),
            conflict(
                is_packed && self.boundary_sampling.is_some(),
                what,
                "--boundary-sampling",
                "rows that were not drawn have no bits",
            ),
            conflict(
                is_packed && smooths_rows,
                what,
                "--smooth",
                "an average of rows takes more than their bits",
            ),
        ]
    }
}

const fn conflict(
    is_met: bool,
    what: &'static str,
    with: &'static str,
    reason: &'static str,
) -> Conflict {
    Conflict { is_met, what, with, reason }
}

struct Conflict {
    is_met: bool,
    what: &'static str,
    with: &'static str,
    reason: &'static str,
}

/// Why a policy is refused.
///
/// # Example
/// ```
/// use sylvie_gnn::{ModelConfig, ModelKind};
/// use sylvie_pipeline::{ExchangePolicy, PolicyError, Preset};
///
/// let model = ModelConfig::new(ModelKind::Sage, vec![64, 32, 10]);
/// let policy = ExchangePolicy { boundary_sampling: Some(1.5), ..Preset::BnsGcn.policy() };
/// assert_eq!(policy.check(&model), Err(PolicyError::Sampling { found: 1.5 }));
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// Two settings exclude each other.
    #[error("{what} cannot be combined with {with}: {reason}")]
    Conflict {
        /// A setting, as its flag.
        what: &'static str,
        /// The other.
        with: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// Neither one codec nor one for each exchanged layer.
    #[error(
        "--{flag} has {found} values, but {expected} layers are exchanged (graph layers after the \
         first); give one value for all, or one for each"
    )]
    Codecs {
        /// The setting.
        flag: &'static str,
        /// Values given.
        found: usize,
        /// Layers exchanged.
        expected: usize,
    },
    /// No probability.
    #[error("a sampling probability of {found} is not in (0, 1]")]
    Sampling {
        /// What was given.
        found: f64,
    },
    /// No decay.
    #[error("a decay of {found} is not in [0, 1)")]
    Decay {
        /// What was given.
        found: f32,
    },
}

/// A word that names no value of a setting.
///
/// # Example
/// ```
/// use sylvie_pipeline::Schedule;
///
/// let error = "late".parse::<Schedule>().unwrap_err();
/// assert_eq!((error.what, error.word.as_str()), ("schedule", "late"));
/// assert_eq!(error.to_string(), "unknown schedule 'late', expected one of sync, async");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} '{word}', expected one of {expected}")]
pub struct UnknownWord {
    /// The setting.
    pub what: &'static str,
    /// The word found.
    pub word: String,
    /// The words allowed.
    pub expected: String,
}

/// Gives an enum its words: `FromStr` and `Display`.
macro_rules! words {
    ($type:ty, $what:literal, $($word:literal => $value:path),+) => {
        impl FromStr for $type {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                match word {
                    $($word => Ok($value),)+
                    _ => {
                        let expected = [$($word),+].join(", ");
                        Err(UnknownWord { what: $what, word: word.to_owned(), expected })
                    }
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self {
                    $($value => $word,)+
                })
            }
        }
    };
}
pub(crate) use words;

words!(Schedule, "schedule", "sync" => Self::Sync, "async" => Self::Async);
words!(
    Directions, "scope",
    "features" => Self::Features, "gradients" => Self::Gradients, "both" => Self::Both
);
words!(Memory, "memory", "all" => Self::All, "sequential" => Self::Sequential);
words!(HaloRows, "halo rows", "auto" => Self::Auto, "f32" => Self::F32, "packed" => Self::Packed);
words!(Scope, "scope", "boundary" => Self::Boundary, "all" => Self::All);
