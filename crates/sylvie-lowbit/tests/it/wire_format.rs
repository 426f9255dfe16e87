//! The worked examples of `docs/wire-format.md`, byte for byte.

use std::fs;
use std::path::Path;

use sylvie_lowbit::{MetadataType, RowCodec, WIRE_VERSION, Width};
use sylvie_random::{Coordinates, Family, Pass, Stream};

/// Seed 7, epoch 3, layer 1, forward.
fn example_draws() -> Family {
    Coordinates::new(7, Stream::Rounding).at(3, 1, Pass::Forward).family()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

fn encode(codec: RowCodec, x: &[f32], n_cols: usize, keys: &[u32]) -> String {
    let mut message = vec![0; codec.message_bytes(keys.len(), n_cols)];
    codec.encode_all(x, n_cols, keys, example_draws(), &mut message).expect("finite");
    hex(&message)
}

/// Values that are levels: no draw matters.
#[test]
fn two_rows_at_two_bits() {
    let x = [0.0, 1.0, 3.0, 0.5, -1.0, 0.0];
    let bf16 = encode(RowCodec::new(Width::Two), &x, 3, &[42, 43]);
    assert_eq!(bf16, "00 00 80 3f 80 bf 00 3f 34 23");
    let f16 = RowCodec { width: Width::Two, metadata: MetadataType::F16 };
    assert_eq!(encode(f16, &x, 3, &[42, 43]), "00 00 00 3c 00 bc 00 38 34 23");
    let f32 = RowCodec { width: Width::Two, metadata: MetadataType::F32 };
    assert_eq!(
        encode(f32, &x, 3, &[42, 43]),
        "00 00 00 00 00 00 80 3f 00 00 80 bf 00 00 00 3f 34 23"
    );
}

/// Ten values at one bit: the draws decide.
#[test]
fn one_row_at_one_bit() {
    assert_eq!(block_bytes(0), RANDOM_BYTES);
    let x = [0.0, 0.125, 0.25, 0.375, 0.5, 0.5, 0.625, 0.75, 0.875, 1.0];
    assert_eq!(encode(RowCodec::new(Width::One), &x, 10, &[42]), ONE_BIT_MESSAGE);
}

const RANDOM_BYTES: &str = "68 39 85 09 90 68 f2 ed 1d 22 59 56 85 39 24 d0";
const ONE_BIT_MESSAGE: &str = "00 00 80 3f d0 02";

/// Eight bits that do not decide, and sixteen that do.
#[test]
fn one_row_with_ties() {
    assert_eq!(block_bytes(1 << 31), TIE_BYTES);
    let x = [0.0, 0.775, 0.479, 1.0];
    assert_eq!(encode(RowCodec::new(Width::One), &x, 4, &[42]), TIE_MESSAGE);
}

fn block_bytes(column_block: u32) -> String {
    let words = example_draws().short_block(42, column_block);
    hex(words.map(u32::to_le_bytes).as_flattened())
}

const TIE_BYTES: &str = "5c 26 65 5b b4 c0 4b 52 cf 0e 8a 1f be a9 bd 3e";
const TIE_MESSAGE: &str = "00 00 80 3f 0c";

/// A row that the metadata does not hold.
#[test]
fn one_row_at_eight_bits() {
    let codec = RowCodec::new(Width::Eight);
    assert_eq!(encode(codec, &[0.1, 0.2, 0.3], 3, &[42]), EIGHT_BIT_MESSAGE);
}

const EIGHT_BIT_MESSAGE: &str = "cc 3d 4f 3a 00 7f fe";

#[test]
fn one_row_at_floating_point_widths() {
    let message = |width| encode(RowCodec::new(width), &[1.0, -0.1], 2, &[42]);
    assert_eq!(message(Width::F16), "00 3c 66 ae");
    assert_eq!(message(Width::Bf16), "80 3f cd bd");
    assert_eq!(message(Width::F32), "00 00 80 3f cd cc cc bd");
}

/// The page shows the bytes that the tests above hold the codec to.
#[test]
fn the_page_shows_these_bytes() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    if crate_folder.join("Cargo.toml.orig").exists() {
        return; // A published package has no pages of the repository beside it.
    }
    let path = crate_folder.join("../../docs/wire-format.md");
    let page = fs::read_to_string(&path).expect("docs/wire-format.md beside the crates");
    assert!(page.contains(&format!("version {WIRE_VERSION}")), "version");
    for bytes in [
        "00 00 80 3f 80 bf 00 3f 34 23",
        "00 00 00 3c 00 bc 00 38 34 23",
        "00 00 00 00 00 00 80 3f 00 00 80 bf 00 00 00 3f 34 23",
        RANDOM_BYTES,
        TIE_BYTES,
        TIE_MESSAGE,
        ONE_BIT_MESSAGE,
        EIGHT_BIT_MESSAGE,
        "00 3c 66 ae",
        "80 3f cd bd",
        "00 00 80 3f cd cc cc bd",
    ] {
        assert!(page.contains(bytes), "`{bytes}`");
    }
}
