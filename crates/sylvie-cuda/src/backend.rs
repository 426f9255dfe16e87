//! The backend: every primitive on a device.

use std::marker::PhantomData;

use sylvie_device::{Device, DeviceError, Library};
use sylvie_graph::{Block, SparseMatrix};
use sylvie_kernels::KERNELS;
use sylvie_random::Family;
use sylvie_tensor::{AdamStep, Attention, AttentionGrads, AttentionRows, Backend, Mode};

use crate::messages::{Messages, Staged};
use crate::{
    CudaAdjacency, CudaIndex, CudaMatrix, CudaSparse, aggregate, attention, done, loss, products,
    row_wise,
};

/// Computes on a CUDA device.
///
/// Clones share the device; each thread that computes has a stream of its own, and what threads share is
/// ordered. Matrices take their memory from the device's pool and give it back when they are dropped.
///
/// With [`Staged`] messages, which is the default, rows travel as host bytes on any transport; with
/// [`OnDevice`](crate::OnDevice) they stay on the device.
///
/// # Example
/// ```
/// use sylvie_cuda::{CudaBackend, CudaMatrix, Staged};
/// use sylvie_tensor::Backend;
/// # sylvie_standins::install();
///
/// let backend = CudaBackend::<Staged>::open(0)?;
/// let mut x: CudaMatrix = backend.upload(2, 2, &[1.0, -2.0, 3.0, -4.0]);
/// backend.relu(&mut x);
/// assert_eq!((x.n_rows(), backend.download(&x)), (2, vec![1.0, 0.0, 3.0, 0.0]));
/// # Ok::<(), sylvie_cuda::DeviceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct CudaBackend<M = Staged> {
    device: Device,
    messages: PhantomData<M>,
}

impl<M: Messages> CudaBackend<M> {
    /// A backend on the device with this number, with every kernel loaded.
    ///
    /// # Errors
    /// A missing library, driver or device, named with where it was looked for; kernels that the driver is
    /// too old for.
    pub fn open(ordinal: usize) -> Result<Self, DeviceError> {
        Self::on(Device::open(ordinal)?)
    }

    /// As [`CudaBackend::open`], on a device that is open: ranks that share one share its pool.
    ///
    /// # Errors
    /// A missing library; kernels that the driver is too old for.
    pub fn on(device: Device) -> Result<Self, DeviceError> {
        Library::Blas.require()?;
        for kernel in KERNELS {
            device.load(kernel)?;
        }
        Ok(Self { device, messages: PhantomData })
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }
}

impl<M: Messages> Backend for CudaBackend<M> {
    type Matrix = CudaMatrix;
    type Sparse = CudaSparse;
    type Adjacency = CudaAdjacency;
    type Index = CudaIndex;
    /// Decoded: no kernel sums packed rows.
    type Packed = CudaMatrix;

    fn zeros(&self, n_rows: usize, n_cols: usize) -> CudaMatrix {
        CudaMatrix::zeros(&self.device, n_rows, n_cols)
    }
    fn matrix_to_assign(&self, n_rows: usize, n_cols: usize) -> CudaMatrix {
        CudaMatrix::new(&self.device, n_rows, n_cols)
    }
    fn upload(&self, n_rows: usize, n_cols: usize, values: &[f32]) -> CudaMatrix {
        CudaMatrix::upload(&self.device, n_rows, n_cols, values)
    }
    fn download(&self, x: &CudaMatrix) -> Vec<f32> {
        x.download()
    }
    fn copy(&self, x: &CudaMatrix) -> CudaMatrix {
        let mut copied = CudaMatrix::new(&self.device, x.n_rows(), x.n_cols());
        done(self.device.copy(&x.memory, x.memory.n_bytes(), &mut copied.memory));
        copied
    }
    fn shape(&self, x: &CudaMatrix) -> (usize, usize) {
        (x.n_rows(), x.n_cols())
    }
    fn upload_index(&self, values: &[u32]) -> CudaIndex {
        CudaIndex::new(&self.device, values)
    }
    fn upload_sparse(&self, x: &SparseMatrix) -> CudaSparse {
        CudaSparse::new(&self.device, x)
    }
    fn upload_block(&self, block: &Block) -> CudaAdjacency {
        CudaAdjacency::new(&self.device, block)
    }

    fn matmul(&self, a: &CudaMatrix, b: &CudaMatrix, mode: Mode, out: &mut CudaMatrix) {
        products::matmul(a, b, mode, out);
    }
    fn matmul_tn(&self, a: &CudaMatrix, b: &CudaMatrix, mode: Mode, out: &mut CudaMatrix) {
        products::matmul_tn(a, b, mode, out);
    }
    fn matmul_nt(&self, a: &CudaMatrix, b: &CudaMatrix, mode: Mode, out: &mut CudaMatrix) {
        products::matmul_nt(a, b, mode, out);
    }
    fn sparse_matmul(&self, a: &CudaSparse, b: &CudaMatrix, mode: Mode, out: &mut CudaMatrix) {
        products::sparse_matmul(a, b, mode, out);
    }
    fn sparse_matmul_tn(&self, a: &CudaSparse, b: &CudaMatrix, mode: Mode, out: &mut CudaMatrix) {
        products::sparse_matmul_tn(a, b, mode, out);
    }

    fn scale_rows(&self, factors: &CudaMatrix, x: &mut CudaMatrix) {
        row_wise::scale_rows(factors, x);
    }
    fn add_scaled_rows(&self, x: &CudaMatrix, factors: &CudaMatrix, out: &mut CudaMatrix) {
        row_wise::add_scaled_rows(x, factors, out);
    }
    fn add_bias(&self, bias: &CudaMatrix, x: &mut CudaMatrix) {
        row_wise::add_bias(bias, x);
    }
    fn column_sums(&self, x: &CudaMatrix, mode: Mode, out: &mut CudaMatrix) {
        row_wise::column_sums(x, mode, out);
    }
    fn scatter_add(&self, x: &CudaMatrix, rows: &CudaIndex, out: &mut CudaMatrix) {
        row_wise::scatter_add(x, rows, out);
    }
    fn smooth(&self, decay: f32, x: &CudaMatrix, average: &mut CudaMatrix) {
        row_wise::smooth(decay, x, average);
    }

    fn aggregate(
        &self,
        block: &CudaAdjacency,
        column_scale: Option<&CudaMatrix>,
        x: &CudaMatrix,
        out: &mut CudaMatrix,
    ) {
        aggregate::aggregate(block, column_scale, x, out);
    }
    fn aggregate_packed(
        &self,
        block: &CudaAdjacency,
        column_scale: Option<&CudaMatrix>,
        x: &CudaMatrix,
        out: &mut CudaMatrix,
    ) {
        self.aggregate(block, column_scale, x, out);
    }
    fn packed_dropped(
        &self,
        rate: f32,
        draws: Family,
        keys: &CudaIndex,
        x: &CudaMatrix,
    ) -> CudaMatrix {
        self.dropped(rate, draws, keys, x)
    }
    fn packed_shape(&self, x: &CudaMatrix) -> (usize, usize) {
        self.shape(x)
    }
    fn unpacked(&self, x: &CudaMatrix) -> CudaMatrix {
        self.copy(x)
    }
    fn aggregate_transposed(
        &self,
        block: &CudaAdjacency,
        column_scale: Option<&CudaMatrix>,
        dy: &CudaMatrix,
        out: &mut CudaMatrix,
    ) {
        aggregate::aggregate_transposed(block, column_scale, dy, out);
    }

    fn attention_scores(&self, x: &CudaMatrix, weights: &CudaMatrix) -> CudaMatrix {
        attention::scores(x, weights)
    }
    fn attention_scores_backward(
        &self,
        x: &CudaMatrix,
        weights: &CudaMatrix,
        dscores: &CudaMatrix,
        dx: &mut CudaMatrix,
        dweights: &mut CudaMatrix,
    ) {
        attention::scores_backward((x, weights), dscores, dx, dweights);
    }
    fn attention_begin(
        &self,
        values: &CudaMatrix,
        source: &CudaMatrix,
        target: &CudaMatrix,
    ) -> Attention<CudaMatrix> {
        attention::begin(values, source, target)
    }
    fn attention_add_block(
        &self,
        block: &CudaAdjacency,
        values: &CudaMatrix,
        source: &CudaMatrix,
        target: &CudaMatrix,
        state: &mut Attention<CudaMatrix>,
    ) {
        attention::add_block(block, values, source, target, state);
    }
    fn attention_finish(&self, state: &mut Attention<CudaMatrix>) {
        attention::finish(state);
    }
    fn attention_self_backward(
        &self,
        values: &CudaMatrix,
        source: &CudaMatrix,
        target: &CudaMatrix,
        rows: AttentionRows<'_, CudaMatrix>,
        grads: AttentionGrads<'_, CudaMatrix>,
    ) {
        attention::self_backward(values, (source, target), rows, grads);
    }
    fn attention_block_backward(
        &self,
        block: &CudaAdjacency,
        values: &CudaMatrix,
        source: &CudaMatrix,
        target: &CudaMatrix,
        rows: AttentionRows<'_, CudaMatrix>,
        grads: AttentionGrads<'_, CudaMatrix>,
    ) {
        attention::block_backward(block, values, (source, target), rows, grads);
    }
    fn head_dots(&self, x: &CudaMatrix, y: &CudaMatrix, n_heads: usize) -> CudaMatrix {
        attention::head_dots(x, y, n_heads)
    }
    fn head_mean(&self, x: &CudaMatrix, n_heads: usize) -> CudaMatrix {
        attention::head_mean(x, n_heads)
    }
    fn head_mean_backward(&self, dy: &CudaMatrix, n_heads: usize) -> CudaMatrix {
        attention::head_mean_backward(dy, n_heads)
    }

    fn layer_norm(
        &self,
        gain: &CudaMatrix,
        offset: &CudaMatrix,
        x: &mut CudaMatrix,
    ) -> (CudaMatrix, CudaMatrix) {
        row_wise::layer_norm(gain, offset, x)
    }
    fn layer_norm_backward(
        &self,
        gain: &CudaMatrix,
        saved: (&CudaMatrix, &CudaMatrix),
        dy: &mut CudaMatrix,
        dgain: &mut CudaMatrix,
        doffset: &mut CudaMatrix,
    ) {
        row_wise::layer_norm_backward(gain, saved, dy, dgain, doffset);
    }
    fn affine_relu(&self, gain: &CudaMatrix, offset: &CudaMatrix, x: &CudaMatrix) -> CudaMatrix {
        row_wise::affine_relu(gain, offset, x)
    }
    fn relu(&self, x: &mut CudaMatrix) {
        row_wise::relu(x);
    }
    fn relu_backward(&self, y: &CudaMatrix, dy: &mut CudaMatrix) {
        row_wise::relu_backward(y, dy);
    }
    fn dropout(&self, rate: f32, draws: Family, keys: &CudaIndex, x: &mut CudaMatrix) {
        row_wise::dropout(rate, draws, keys, x);
    }
    fn sparse_dropout(
        &self,
        rate: f32,
        draws: Family,
        keys: &CudaIndex,
        x: &CudaSparse,
    ) -> CudaSparse {
        row_wise::sparse_dropout(rate, draws, keys, x)
    }

    fn softmax_cross_entropy(
        &self,
        logits: &CudaMatrix,
        rows: &CudaIndex,
        classes: &CudaIndex,
        dlogits: &mut CudaMatrix,
    ) -> f64 {
        loss::softmax_cross_entropy(logits, rows, classes, dlogits)
    }
    fn binary_cross_entropy(
        &self,
        logits: &CudaMatrix,
        rows: &CudaIndex,
        targets: &CudaMatrix,
        dlogits: &mut CudaMatrix,
    ) -> f64 {
        loss::binary_cross_entropy(logits, rows, targets, dlogits)
    }
    fn adam(
        &self,
        step: &AdamStep,
        gradient: &CudaMatrix,
        moments: (&mut CudaMatrix, &mut CudaMatrix),
        weights: &mut CudaMatrix,
    ) {
        loss::adam(step, gradient, moments, weights);
    }
}
