//! The CUDA backend on the emulated device.

mod nccl;

use sylvie_conformance::backend;
use sylvie_cuda::{CudaBackend, OnDevice, Staged};

fn staged() -> CudaBackend<Staged> {
    sylvie_standins::install();
    CudaBackend::open(0).expect("the emulated device")
}

macro_rules! suites {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                backend::$name(&staged());
            }
        )*
    };
}

suites!(
    dense_products,
    sparse_products,
    aggregation,
    rows_moved_and_summed,
    layer_norm,
    dropout,
    attention,
    losses,
    adam,
    bytes_of_the_codec,
    bad_messages,
);

#[test]
fn messages_that_stay_on_the_device_have_the_same_bytes() {
    sylvie_standins::install();
    let backend = CudaBackend::<OnDevice>::open(1).expect("the emulated device");
    backend::bytes_of_the_codec(&backend);
    backend::bad_messages(&backend);
}
