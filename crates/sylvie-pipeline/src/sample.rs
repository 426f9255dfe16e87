//! Boundary sampling: which rows cross the split in an epoch.

use sylvie_gnn::{ColumnFactors, ModelConfig};
use sylvie_random::{Coordinates, Pass, Stream, unit_f64};
use sylvie_tensor::Backend;

use crate::stage::{PlannedSend, Stage};

/// The boundary rows of one epoch, drawn for each reader: owner and reader draw alike.
///
/// # Paper
/// BNS-GCN (Wan et al. 2022), algorithm 1: a row is kept with probability `p` and weighs `1 / p`.
pub(crate) struct Sample<B: Backend> {
    pub(crate) epoch: u32,
    /// The boundary rows that anybody gets, as local rows, keys and global ids.
    pub(crate) boundary: B::Index,
    pub(crate) boundary_keys: B::Index,
    pub(crate) boundary_ids: Vec<u32>,
    /// One entry a planned send.
    pub(crate) sends: Vec<SampledSend<B>>,
    /// One entry a halo block.
    pub(crate) halo: Vec<SampledBlock<B>>,
}

/// What one reader gets in the epoch.
pub(crate) struct SampledSend<B: Backend> {
    pub(crate) n_rows: usize,
    /// Places among the sampled boundary rows.
    pub(crate) selected: B::Index,
    /// Places among all boundary rows.
    pub(crate) positions: B::Index,
}

/// What comes from one owner in the epoch.
pub(crate) struct SampledBlock<B: Backend> {
    pub(crate) n_rows: usize,
    /// Places in the block.
    pub(crate) rows: B::Index,
    /// Their global ids.
    pub(crate) keys: B::Index,
    pub(crate) ids: Vec<u32>,
    /// What each row of the block weighs: `1 / p`, or 0 if it does not come.
    pub(crate) factors: ColumnFactors<B>,
}

impl<B: Backend> Sample<B> {
    pub(crate) fn draw(
        backend: &B,
        model: &ModelConfig,
        Stage { structure, plan, .. }: &Stage<B>,
        probability: f64,
        (seed, epoch): (u64, u32),
    ) -> Self {
        let is_kept = |reader: usize| {
            let coordinates = Coordinates::new(seed, Stream::Sampling).at(epoch, 0, Pass::Forward);
            let draws = coordinates.reader(reader as u16).family();
            move |node: u32| {
                let [high, low, ..] = draws.block(node, 0);
                unit_f64(high, low) < probability
            }
        };
        let kept_by = |send: &PlannedSend<B>| -> Vec<u32> {
            let is_kept = is_kept(send.reader);
            let positions = send.host_positions.iter().copied();
            positions.filter(|&place| is_kept(plan.boundary_ids[place as usize])).collect()
        };
        let kept: Vec<Vec<u32>> = plan.sends.iter().map(kept_by).collect();
        // Place of each boundary row among those that anybody gets.
        let mut places = vec![u32::MAX; plan.boundary_ids.len()];
        kept.iter().flatten().for_each(|&place| places[place as usize] = 0);
        let (mut rows, mut ids) = (Vec::new(), Vec::new());
        for (at, place) in places.iter_mut().enumerate().filter(|(_, place)| **place == 0) {
            *place = rows.len() as u32;
            rows.push(plan.boundary_rows[at]);
            ids.push(plan.boundary_ids[at]);
        }
        let sends = kept.iter().map(|positions| {
            let selected: Vec<u32> = positions.iter().map(|&at| places[at as usize]).collect();
            SampledSend {
                n_rows: positions.len(),
                selected: backend.upload_index(&selected),
                positions: backend.upload_index(positions),
            }
        });
        let weight = (1.0 / probability) as f32;
        let is_read = is_kept(plan.rank);
        let halo = plan.halo.iter().zip(&structure.halo).map(|(block, on_backend)| {
            let (mut rows, mut ids) = (Vec::new(), Vec::new());
            let mut factors = vec![0.0; block.ids.len()];
            for (row, (&id, factor)) in block.ids.iter().zip(&mut factors).enumerate() {
                if is_read(id) {
                    rows.push(row as u32);
                    ids.push(id);
                    *factor = weight;
                }
            }
            SampledBlock {
                n_rows: rows.len(),
                rows: backend.upload_index(&rows),
                keys: backend.upload_index(&ids),
                ids,
                factors: ColumnFactors::new(backend, model, on_backend, &factors),
            }
        });
        Self {
            epoch,
            boundary: backend.upload_index(&rows),
            boundary_keys: backend.upload_index(&ids),
            boundary_ids: ids,
            sends: sends.collect(),
            halo: halo.collect(),
        }
    }
}
