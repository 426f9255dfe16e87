//! What follows a layer that is not the last: LayerNorm, then ReLU.

use std::sync::Arc;

use sylvie_tensor::Backend;

/// What the backward pass needs.
pub(crate) struct PostSaved<B: Backend> {
    /// Normalised rows and inverse deviations.
    norm: Option<(B::Matrix, B::Matrix)>,
    output: Arc<B::Matrix>,
}

/// `norm`: gain and offset of LayerNorm, or nothing.
pub(crate) fn forward<B: Backend>(
    backend: &B,
    norm: &[B::Matrix],
    mut x: B::Matrix,
) -> (Arc<B::Matrix>, PostSaved<B>) {
    let norm = match norm {
        [gain, offset] => Some(backend.layer_norm_relu(gain, offset, &mut x)),
        _ => {
            backend.relu(&mut x);
            None
        }
    };
    let output = Arc::new(x);
    (Arc::clone(&output), PostSaved { norm, output })
}

/// Turns the output's gradient into the input's, in place; assigns those of gain and offset.
pub(crate) fn backward<B: Backend>(
    backend: &B,
    norm: &[B::Matrix],
    saved: &PostSaved<B>,
    dy: &mut B::Matrix,
    grads: &mut [B::Matrix],
) {
    match (&saved.norm, norm, grads) {
        (Some((normalised, inverse)), [gain, _], [dgain, doffset]) => {
            let (saved_norm, y) = ((normalised, inverse), &*saved.output);
            backend.layer_norm_relu_backward(gain, saved_norm, y, dy, (dgain, doffset));
        }
        _ => backend.relu_backward(&saved.output, dy),
    }
}
