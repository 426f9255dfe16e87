//! A part on a backend: structure, halo plan, and what the first layer reads.

use sylvie_comm::Communicator;
use sylvie_gnn::{Context, Input, KeptAggregate, ModelConfig, ModelKind, Structure};
use sylvie_graph::{Direction, PartGraph};
use sylvie_tensor::{Backend, Wire};

use crate::error::TrainError;
use crate::features::exchange_features;
use crate::part_data::PartData;

/// A part on a backend, with its first layer's rows.
pub(crate) struct Stage<B: Backend> {
    pub(crate) structure: Structure<B>,
    pub(crate) plan: ExchangePlan<B>,
    pub(crate) first: FirstRows<B>,
}

/// What the first layer reads.
pub(crate) enum FirstRows<B: Backend> {
    /// GCN and SAGE: raw features aggregated once.
    Kept(KeptAggregate<B>),
    /// GAT: raw features, own and halo.
    Raw { own: Input<B>, halo: Vec<Input<B>> },
}

impl<B: Wire> Stage<B> {
    /// Brings a part to the backend and exchanges its raw halo features.
    ///
    /// # Panics
    /// If the data are not those of this rank, or do not fit the network.
    pub(crate) fn new<C: Communicator<Buffer = B::Bytes>>(
        backend: &B,
        comm: &mut C,
        model: &ModelConfig,
        data: &PartData,
        round: u16,
    ) -> Result<Self, TrainError> {
        let kind = model.kind;
        let part: &PartGraph = &data.graph;
        assert_eq!(part.part as usize, comm.rank(), "part and rank");
        assert_eq!(part.n_parts as usize, comm.size(), "parts and ranks");
        assert_eq!(data.features.n_rows(), part.n_local(), "rows of features and own rows");
        assert_eq!(data.labels.n_nodes(), part.n_local(), "labels and own rows");
        assert_eq!(data.roles.len(), part.n_local(), "roles and own rows");
        let (n_features, n_classes) = (data.features.n_cols(), data.labels.n_classes() as usize);
        assert_eq!(model.widths.first(), Some(&n_features), "network inputs and features");
        assert_eq!(model.widths.last(), Some(&n_classes), "network outputs and classes");
        if kind == ModelKind::Gcn && data.direction == Direction::Directed {
            return Err(TrainError::DirectedGcn);
        }
        let halo = exchange_features(backend, comm, part, &data.features, round)?;
        let structure = Structure::new(backend, part);
        let first = match kind {
            ModelKind::Gat => FirstRows::Raw {
                own: Input::from_features(backend, &data.features),
                halo: halo.iter().map(|rows| Input::from_features(backend, rows)).collect(),
            },
            ModelKind::Gcn | ModelKind::Sage => {
                let ctx =
                    Context { backend, structure: &structure, dropout: None, keeps_halo: true };
                FirstRows::Kept(KeptAggregate::new(kind, ctx, part, &data.features, &halo))
            }
        };
        let plan = ExchangePlan::new(backend, part);
        Ok(Self { structure, plan, first })
    }
}

/// A part's halo plan on a backend.
pub(crate) struct ExchangePlan<B: Backend> {
    pub(crate) rank: usize,
    /// Global ids of the own rows.
    pub(crate) own_ids: Vec<u32>,
    /// Local rows that others read, each once, on the host and on the backend.
    pub(crate) boundary_rows: Vec<u32>,
    pub(crate) boundary: B::Index,
    /// Their global ids, on the host and as keys of draws.
    pub(crate) boundary_ids: Vec<u32>,
    pub(crate) boundary_keys: B::Index,
    pub(crate) sends: Vec<PlannedSend<B>>,
    pub(crate) halo: Vec<PlannedBlock>,
}

/// What one reader gets.
pub(crate) struct PlannedSend<B: Backend> {
    pub(crate) reader: usize,
    /// Places of its rows in the boundary.
    pub(crate) positions: B::Index,
    pub(crate) host_positions: Vec<u32>,
    /// Its rows as local rows.
    pub(crate) rows: B::Index,
}

/// The halo rows of one owner.
pub(crate) struct PlannedBlock {
    pub(crate) owner: usize,
    /// Global ids.
    pub(crate) ids: Vec<u32>,
}

impl<B: Backend> ExchangePlan<B> {
    fn new(backend: &B, part: &PartGraph) -> Self {
        let boundary = &part.plan.boundary;
        let boundary_ids: Vec<u32> =
            boundary.iter().map(|&row| part.own_ids[row as usize]).collect();
        let sends = part.plan.sends.iter().map(|send| PlannedSend {
            reader: send.reader as usize,
            positions: backend.upload_index(&send.positions),
            host_positions: send.positions.clone(),
            rows: backend.upload_index(&send.rows),
        });
        let halo = part.halo_blocks().iter().map(|block| PlannedBlock {
            owner: block.owner as usize,
            ids: block.column_ids.clone(),
        });
        Self {
            rank: part.part as usize,
            own_ids: part.own_ids.clone(),
            boundary_rows: boundary.clone(),
            boundary: backend.upload_index(boundary),
            boundary_keys: backend.upload_index(&boundary_ids),
            boundary_ids,
            sends: sends.collect(),
            halo: halo.collect(),
        }
    }

    /// Rows sent forward and rows sent backward in one exchange.
    pub(crate) fn n_rows_sent(&self) -> (usize, usize) {
        let forward = self.sends.iter().map(|send| send.host_positions.len()).sum();
        (forward, self.halo.iter().map(|block| block.ids.len()).sum())
    }
}
