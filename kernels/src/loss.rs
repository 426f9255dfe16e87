//! Losses and the optimiser. The specification is `CpuBackend` of `sylvie-tensor`.

use crate::modules::kernels;

kernels! {
    /// Loss and gradient of row `rows[i]`, for each `i`: `Backend::softmax_cross_entropy`, whose sum is
    /// [`SUM_F64`] of `losses`. Gradients of other rows are not written: the caller zeroes them.
    ///
    /// # Shapes
    /// `rows`, `classes`, `losses` `n_listed`; `logits`, `dlogits` any number of rows x `n_classes`. Launch with `n_listed`, `n_classes`.
    SOFTMAX_CROSS_ENTROPY = SOFTMAX_CROSS_ENTROPY "softmax_cross_entropy" Rows (
        logits: F32s, rows: U32s, classes: U32s, dlogits: F32s, losses: F64s,
        n_listed: U32, n_classes: U32,
    );
    /// Loss and gradient of row `rows[i]`, for each `i`: `Backend::binary_cross_entropy`, otherwise as
    /// [`SOFTMAX_CROSS_ENTROPY`]. `targets` `n_listed x n_classes`. Launch with `n_listed`, `n_classes`.
    BINARY_CROSS_ENTROPY = BINARY_CROSS_ENTROPY "binary_cross_entropy" Rows (
        logits: F32s, rows: U32s, targets: F32s, dlogits: F32s, losses: F64s,
        n_listed: U32, n_classes: U32,
    );
    /// One pass of a sum: value `c` of `out` becomes the sum of values `4096 c ..` of `x`. More than
    /// [`crate::SUM_VALUES`] values take several passes. Launch with 1, `n_values`.
    SUM_F64 = SUM_F64 "sum_f64" Sums (x: F64s, out: F64s, n_values: U64);
    /// One step of Adam: `Backend::adam`.
    ///
    /// `step_size` is the learning rate by `1 - beta1^step`, `root2` the root of `1 - beta2^step`, both computed in `f64`
    /// and rounded.
    ///
    /// # Shapes
    /// `gradient`, `first`, `second`, `weights` `n_values`. Launch with 1, `n_values`.
    /// # Cost
    /// 16 bytes read and 12 written a value.
    ADAM = ADAM "adam" Vectors (
        gradient: F32s, first: F32s, second: F32s, weights: F32s, n_values: U64,
        beta1: F32, beta2: F32, step_size: F32, root2: F32, epsilon: F32, weight_decay: F32,
    );
}
