//! The bodies of the fuzz targets, run on random bytes.

use proptest::prelude::*;

use crate::bodies;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    // Zeros and a small set of bytes give valid metadata more often than uniform ones.
    let byte = prop_oneof![2 => any::<u8>(), 1 => Just(0_u8), 1 => Just(0x3f_u8)];
    prop::collection::vec(byte, 0..600)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn any_bytes_are_decoded_or_refused(data in bytes()) {
        bodies::decode_anything(&data);
    }

    #[test]
    fn any_values_are_encoded_or_refused(data in bytes()) {
        bodies::encode_anything(&data);
    }
}
