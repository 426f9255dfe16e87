//! Arbitrary bytes for the low-bit codec: `encode_anything`, which CI runs as a property test.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target uses one of the bodies")]
#[path = "../../crates/sylvie-lowbit/tests/it/bodies.rs"]
mod bodies;

fuzz_target!(|data: &[u8]| bodies::encode_anything(data));
