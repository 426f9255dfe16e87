//! Running averages of what arrives.

use std::sync::Arc;

use sylvie_gnn::Input;
use sylvie_tensor::Wire;

use super::Arrived;
use crate::state::HostRows;

/// The averages of every slot, from zero, without bias correction.
///
/// # Paper
/// PipeGCN (Wan et al. 2022), section 3.4: `avg = decay * avg + (1 - decay) * received`.
pub(super) struct Averages<B: Wire> {
    slots: Vec<Option<Vec<B::Matrix>>>,
}

impl<B: Wire> Averages<B> {
    pub(super) fn new(n_slots: usize) -> Self {
        Self { slots: (0..n_slots).map(|_| None).collect() }
    }

    /// Host copies of all averages.
    pub(super) fn download(&self, backend: &B) -> Vec<Option<Vec<HostRows>>> {
        let host = |rows: &Vec<B::Matrix>| {
            rows.iter().map(|rows| HostRows::download(backend, rows)).collect()
        };
        self.slots.iter().map(|slot| slot.as_ref().map(host)).collect()
    }

    /// Goes on from averages that were downloaded.
    pub(super) fn upload(&mut self, backend: &B, averages: &[Option<Vec<HostRows>>]) {
        let matrices =
            |rows: &Vec<HostRows>| rows.iter().map(|rows| rows.upload(backend)).collect();
        self.slots = averages.iter().map(|slot| slot.as_ref().map(matrices)).collect();
    }

    /// Takes what arrived into the slot's averages, and returns a copy of them.
    ///
    /// # Panics
    /// If sparse or packed rows arrive: they are never averaged.
    pub(super) fn update(
        &mut self,
        backend: &B,
        slot: usize,
        decay: f32,
        arrived: &Arrived<B>,
    ) -> Arrived<B> {
        let rows: Vec<&B::Matrix> = match arrived {
            Arrived::Boundary(rows) => vec![rows],
            Arrived::Halo { blocks, .. } => {
                blocks.iter().map(|(_, rows)| Self::dense(rows)).collect()
            }
            Arrived::Nothing => Vec::new(),
        };
        let zeros = |rows: &&B::Matrix| {
            let (n_rows, n_cols) = backend.shape(rows);
            backend.zeros(n_rows, n_cols)
        };
        let averages = self.slots[slot].get_or_insert_with(|| rows.iter().map(zeros).collect());
        for (&rows, average) in rows.iter().zip(&mut *averages) {
            backend.smooth(decay, rows, average);
        }
        let mut copies = averages.iter().map(|average| backend.copy(average));
        match arrived {
            Arrived::Boundary(_) => {
                Arrived::Boundary(Arc::new(copies.next().expect("one matrix of gradients")))
            }
            Arrived::Halo { blocks, sample } => {
                let numbers = blocks.iter().map(|(block, _)| *block);
                let blocks = numbers.zip(copies.map(Input::dense)).collect();
                Arrived::Halo { blocks, sample: sample.clone() }
            }
            Arrived::Nothing => Arrived::Nothing,
        }
    }

    /// Rows that were exchanged, which are never the raw features.
    fn dense(rows: &Input<B>) -> &B::Matrix {
        match rows {
            Input::Dense(rows) => rows,
            Input::Sparse(_) => panic!("sparse rows in an exchange"),
            Input::Packed(_) => panic!("packed rows in an average"),
        }
    }
}
