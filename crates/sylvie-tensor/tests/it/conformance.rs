//! The suite that every backend passes.

use sylvie_conformance::backend::follows_the_specification;
use sylvie_tensor::CpuBackend;

#[test]
fn the_cpu_follows_its_own_specification() {
    follows_the_specification(&CpuBackend::new(1));
    follows_the_specification(&CpuBackend::new(3));
}
