//! What operations of a backend take and give beside matrices.

/// Whether a result replaces what the output holds or is added to it.
///
/// # Example
/// ```
/// use sylvie_tensor::{Backend, CpuBackend, Mode};
///
/// let backend = CpuBackend::new(1);
/// let x = backend.upload(2, 1, &[1.0, 2.0]);
/// let mut sums = backend.upload(1, 1, &[100.0]);
/// backend.column_sums(&x, Mode::Add, &mut sums);
/// assert_eq!(backend.download(&sums), [103.0]);
/// backend.column_sums(&x, Mode::Assign, &mut sums);
/// assert_eq!(backend.download(&sums), [3.0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Replace.
    Assign,
    /// Add.
    Add,
}

/// One Adam step's settings.
///
/// # Example
/// ```
/// use sylvie_tensor::{AdamStep, Backend, CpuBackend};
///
/// let (beta1, beta2, epsilon) = (0.9, 0.999, 1e-8);
/// let settings =
///     AdamStep { learning_rate: 0.1, beta1, beta2, epsilon, weight_decay: 0.0, step: 1 };
/// let backend = CpuBackend::new(1);
/// let (mut first, mut second) = (backend.zeros(1, 2), backend.zeros(1, 2));
/// let mut weights = backend.upload(1, 2, &[1.0, -1.0]);
/// let gradient = backend.upload(1, 2, &[3.0, -0.5]);
/// backend.adam(&settings, &gradient, (&mut first, &mut second), &mut weights);
/// // The first step is as long as the rate, whatever the gradient's size.
/// let stepped = backend.download(&weights);
/// assert!((stepped[0] - 0.9).abs() < 1e-5 && (stepped[1] + 0.9).abs() < 1e-5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamStep {
    /// Learning rate.
    pub learning_rate: f32,
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// Added to the root of the second moment.
    pub epsilon: f32,
    /// Times the weight, added to the gradient.
    pub weight_decay: f32,
    /// Number of this step, from 1.
    pub step: u32,
}

/// The running softmax-weighted sum of attention, block by block.
///
/// # Shapes
/// `max` and `sum`: `n_local x heads`; `values`: `n_local x (heads * width)`.
///
/// # Example
/// ```
/// use sylvie_graph::{Block, Csr};
/// use sylvie_tensor::{Attention, AttentionGrads, AttentionRows, Backend, CpuBackend};
///
/// let backend = CpuBackend::new(1);
/// // Two rows with one head of one column. Row 0 reads a halo row besides itself.
/// let block = backend.upload_block(&Block {
///     owner: 1,
///     column_ids: vec![7],
///     column_degrees: vec![1],
///     rows: vec![0],
///     edges: Csr::from_pairs(1, 1, &[(0, 0)])?,
/// });
/// let (own, halo) = (backend.upload(2, 1, &[2.0, 4.0]), backend.upload(1, 1, &[8.0]));
/// let scores = |n_rows| backend.zeros(n_rows, 1); // all alike
/// let mut state: Attention<_> = backend.attention_begin(&own, &scores(2), &scores(2));
/// backend.attention_add_block(&block, &halo, &scores(1), &scores(2), &mut state);
/// backend.attention_finish(&mut state);
/// assert_eq!(backend.download(&state.values), [5.0, 4.0]);
///
/// // Back: half of row 0's gradient is the halo row's.
/// let dy = backend.upload(2, 1, &[1.0, 0.0]);
/// let dot = backend.head_dots(&dy, &state.values, 1);
/// let rows = AttentionRows { log_sum: &state.max, dot: &dot, dy: &dy };
/// let (mut values, mut source, mut target) = (scores(1), scores(1), scores(2));
/// let grads = AttentionGrads { values: &mut values, source: &mut source, target: &mut target };
/// backend.attention_block_backward(&block, &halo, &scores(1), &scores(2), rows, grads);
/// assert!((backend.download(&values)[0] - 0.5).abs() < 1e-6);
/// # Ok::<(), sylvie_graph::GraphError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Attention<M> {
    /// Largest score so far; after [`Backend::attention_finish`](crate::Backend::attention_finish) the log of the sum of exponentials.
    pub max: M,
    /// Sum of `exp(score - max)`.
    pub sum: M,
    /// Sum of `exp(score - max) * value`; after [`Backend::attention_finish`](crate::Backend::attention_finish) the weighted mean.
    pub values: M,
}

/// What attention's backward pass adds to, for the columns of one block.
#[derive(Debug)]
pub struct AttentionGrads<'a, M> {
    /// Gradient of the columns' values, `n_cols x (heads * width)`.
    pub values: &'a mut M,
    /// Gradient of the columns' source scores, `n_cols x heads`.
    pub source: &'a mut M,
    /// Gradient of the rows' target scores, `n_local x heads`.
    pub target: &'a mut M,
}

/// Factors of a sum over neighbours, `n x 1` each; an absent one is 1, but an absent `own` is 0.
///
/// # Example
/// ```
/// use sylvie_graph::{Block, Csr};
/// use sylvie_tensor::{Backend, CpuAdjacency, CpuBackend, SumFactors};
///
/// let backend = CpuBackend::new(1);
/// // Row 1 of two reads two columns, whose mean it becomes.
/// let edges: CpuAdjacency = backend.upload_block(&Block {
///     owner: 1,
///     column_ids: vec![6, 8],
///     column_degrees: vec![1, 1],
///     rows: vec![1],
///     edges: Csr::from_pairs(1, 2, &[(0, 0), (0, 1)])?,
/// });
/// let (x, halves) = (backend.upload(2, 1, &[10.0, 20.0]), backend.upload(2, 1, &[0.5, 0.5]));
/// let factors = SumFactors { column: None, own: None, row: Some(&halves) };
/// let means = backend.aggregated(&edges, factors, &x, 2);
/// assert_eq!(backend.download(&means), [0.0, 15.0]);
/// # Ok::<(), sylvie_graph::GraphError>(())
/// ```
#[derive(Debug)]
pub struct SumFactors<'a, M> {
    /// Of the block's columns.
    pub column: Option<&'a M>,
    /// Of the row with the number of the sum, which is added besides its neighbours.
    pub own: Option<&'a M>,
    /// Of the sum as a whole.
    pub row: Option<&'a M>,
}

impl<M> Clone for SumFactors<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for SumFactors<'_, M> {}

/// What the rows bring to attention's backward pass.
#[derive(Debug)]
pub struct AttentionRows<'a, M> {
    /// Log of the sum of exponentials, `n_local x heads`.
    pub log_sum: &'a M,
    /// `dy . output`, `n_local x heads`.
    pub dot: &'a M,
    /// Gradient of the output, `n_local x (heads * width)`, or what [`Backend::head_mean_backward`](crate::Backend::head_mean_backward) gives.
    pub dy: &'a M,
}

impl<M> Clone for AttentionRows<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for AttentionRows<'_, M> {}
