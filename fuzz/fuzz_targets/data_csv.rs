//! Arbitrary text in the place of a file of a small data set: `csv`, which CI runs as a property test.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target uses one of the bodies")]
#[path = "../../crates/sylvie-data/tests/it/bodies.rs"]
mod bodies;
#[allow(dead_code, reason = "tests use more of them")]
#[path = "../../crates/sylvie-data/tests/it/samples.rs"]
mod samples;
#[allow(dead_code, reason = "tests use more of them")]
#[path = "../../crates/sylvie-data/tests/it/samples_pickle.rs"]
mod samples_pickle;
#[allow(dead_code, reason = "tests use more of them")]
#[path = "../../crates/sylvie-data/tests/it/samples_text.rs"]
mod samples_text;

fuzz_target!(|data: &[u8]| bodies::csv(data));
