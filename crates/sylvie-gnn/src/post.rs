//! What follows a layer that is not the last: LayerNorm, then ReLU.

use std::sync::Arc;

use sylvie_tensor::Backend;

use crate::input::Normalised;

/// What the backward pass needs.
pub(crate) enum PostSaved<B: Backend> {
    /// Of LayerNorm and ReLU; the output is made of it again.
    Normalised(Arc<Normalised<B>>),
    /// Of ReLU alone: its output.
    Output(Arc<B::Matrix>),
}

/// `norm`: gain and offset of LayerNorm, or nothing.
pub(crate) fn forward<B: Backend>(
    backend: &B,
    norm: &[B::Matrix],
    mut x: B::Matrix,
) -> (Arc<B::Matrix>, PostSaved<B>) {
    if let [gain, offset] = norm {
        let (rows, inverse) = backend.layer_norm_relu(gain, offset, &mut x);
        let (gain, offset) = (backend.copy(gain), backend.copy(offset));
        let saved = Normalised { rows, inverse, gain, offset };
        return (Arc::new(x), PostSaved::Normalised(Arc::new(saved)));
    }
    backend.relu(&mut x);
    let output = Arc::new(x);
    (Arc::clone(&output), PostSaved::Output(output))
}

/// Turns the output's gradient into the input's, in place; assigns those of gain and offset.
///
/// # Panics
/// If there is a LayerNorm without gradients to assign.
pub(crate) fn backward<B: Backend>(
    backend: &B,
    saved: &PostSaved<B>,
    dy: &mut B::Matrix,
    grads: &mut [B::Matrix],
) {
    match saved {
        PostSaved::Output(output) => backend.relu_backward(output, dy),
        PostSaved::Normalised(saved) => {
            let [dgain, doffset] = grads else { panic!("{} gradients of LayerNorm", grads.len()) };
            let (affine, rows) = ((&saved.gain, &saved.offset), (&saved.rows, &saved.inverse));
            backend.layer_norm_relu_backward(affine, rows, dy, (dgain, doffset));
        }
    }
}
