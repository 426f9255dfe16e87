//! What ends a run early.

use std::error::Error;

use sylvie_comm::CommError;
use sylvie_gnn::ConfigError;
use sylvie_lowbit::{DecodeError, EncodeError};
use sylvie_random::Pass;
use sylvie_tensor::Gather;

use crate::policy::PolicyError;

/// Why a rank could not go on. `epoch`, `layer` and `rank` count from 0.
///
/// # Example
/// ```
/// use std::error::Error;
/// use sylvie_gnn::{ModelConfig, ModelKind};
/// use sylvie_pipeline::{ExchangePolicy, Preset, TrainError};
///
/// let model = ModelConfig::new(ModelKind::Sage, vec![64, 32, 10]);
/// let policy = ExchangePolicy { staleness: 5, ..Preset::SylvieS.policy() };
/// let error = policy.check(&model).map_err(TrainError::from).unwrap_err(); // as `train` does
/// assert_eq!(error.to_string(), "the exchange cannot be as it was asked for");
/// let reason = error.source().map(ToString::to_string).unwrap_or_default();
/// assert!(reason.starts_with("--staleness cannot be combined with --schedule sync"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The network cannot be built.
    #[error("the network cannot be built")]
    Config(#[from] ConfigError),
    /// The exchange cannot be as it was asked for.
    #[error("the exchange cannot be as it was asked for")]
    Policy(#[from] PolicyError),
    /// The backend has no sums over such rows.
    #[error("sums over neighbours cannot gather {gather} rows on this machine; take f32")]
    Gather {
        /// The rows asked for.
        gather: Gather,
    },
    /// The system refused a thread.
    #[error("rank {rank}: no thread to compute on")]
    Thread {
        /// Rank.
        rank: usize,
        /// What the system said.
        source: std::io::Error,
    },
    /// The communication thread ended while the rank still computed; why it did is another error.
    #[error("the communication thread has ended")]
    CommunicationEnded,
    /// GCN's normalisation is defined for symmetric graphs.
    #[error(
        "gcn is defined for symmetric graphs only; read the graph both ways, or take sage or gat"
    )]
    DirectedGcn,
    /// The transport failed before the first epoch.
    #[error("before the first epoch: the ranks lost touch")]
    SetUp {
        /// What the transport says.
        source: CommError,
    },
    /// The transport failed.
    #[error("epoch {epoch}: the ranks lost touch")]
    Comm {
        /// Epoch.
        epoch: u32,
        /// What the transport says.
        source: CommError,
    },
    /// Weight gradients could not be summed over the ranks.
    #[error("epoch {epoch}, layer {layer}, backward pass: weight gradients could not be summed")]
    Sum {
        /// Epoch.
        epoch: u32,
        /// Layer whose gradients they are.
        layer: usize,
        /// What the transport says.
        source: CommError,
    },
    /// A row cannot be encoded.
    #[error(
        "epoch {epoch}, layer {layer}, {} pass, rank {rank}: the row of node {node} cannot be encoded; \
         a smaller learning rate or a wider codec may help", .pass.name()
    )]
    Encode {
        /// Epoch.
        epoch: u32,
        /// Layer whose input or input gradient it is.
        layer: usize,
        /// Pass.
        pass: Pass,
        /// Rank that encodes.
        rank: usize,
        /// Global id of the node.
        node: u32,
        /// What the codec says.
        source: EncodeError,
    },
    /// A message cannot be decoded.
    #[error("epoch {epoch}, layer {layer}, {} pass, rank {rank}: a message of rank {peer} is damaged", .pass.name())]
    Decode {
        /// Epoch.
        epoch: u32,
        /// Layer.
        layer: usize,
        /// Pass.
        pass: Pass,
        /// Rank that decodes.
        rank: usize,
        /// Rank that sent it.
        peer: usize,
        /// What the codec says.
        source: DecodeError,
    },
    /// A peer's features or counts do not have the form they must have.
    #[error("rank {rank}: what rank {peer} sent of its {what} is damaged")]
    Damaged {
        /// Rank that reads.
        rank: usize,
        /// Rank that sent it.
        peer: usize,
        /// What it was.
        what: &'static str,
    },
    /// The loss is not a finite number.
    #[error("epoch {epoch}: the loss is {loss}; a smaller learning rate may help")]
    NotFinite {
        /// Epoch.
        epoch: u32,
        /// The loss.
        loss: f64,
    },
    /// The network gives something that is not a finite number.
    #[error(
        "epoch {epoch}, rank {rank}: the network's output for node {node} is not a finite number; \
         a smaller learning rate may help"
    )]
    OutputNotFinite {
        /// Epoch.
        epoch: u32,
        /// Rank that computed it.
        rank: usize,
        /// Global id of the node.
        node: u32,
    },
    /// No rank has a labelled training node.
    #[error("no part has a labelled training node")]
    NoTrainingNodes,
    /// Class weights that do not fit the labels.
    #[error("{found} class weights for {expected} classes")]
    ClassWeights {
        /// Weights given.
        found: usize,
        /// Classes of the labels.
        expected: usize,
    },
    /// The state after an epoch could not be kept.
    #[error("epoch {epoch}, rank {rank}: the checkpoint could not be written")]
    Checkpoint {
        /// Epoch.
        epoch: u32,
        /// Rank that keeps it.
        rank: usize,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A state to go on from does not fit network or part.
    #[error(
        "rank {rank}: {what} in the checkpoint are not those of this network on this part; it is of \
         another run"
    )]
    OtherState {
        /// Rank.
        rank: usize,
        /// What does not fit.
        what: &'static str,
    },
    /// Whoever was told of an epoch refused to go on.
    #[error("epoch {epoch} could not be recorded")]
    Observer {
        /// Epoch.
        epoch: u32,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
}
