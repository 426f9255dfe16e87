//! Words on the command line, and the sizes that follow from a width.

use sylvie_lowbit::{MetadataType, RowCodec, Width};

use crate::all_codecs;

#[test]
fn words_name_widths_and_back() {
    for width in Width::ALL {
        assert_eq!(width.to_string().parse(), Ok(width));
    }
    for metadata in MetadataType::ALL {
        assert_eq!(metadata.to_string().parse(), Ok(metadata));
    }
    assert_eq!("bf16".parse(), Ok(Width::Bf16));
    assert_eq!(format!("{:>5}|", Width::One), "    1|");
}

#[test]
fn other_words_are_refused_with_the_allowed_ones() {
    for word in ["3", "16", "32", "0", "", " 1", "F16", "one"] {
        let message = word.parse::<Width>().expect_err(word).to_string();
        assert!(message.contains(&format!("`{word}`")), "{message}");
        assert!(message.ends_with("1, 2, 4, 8, f16, bf16 and f32"), "{message}");
    }
    for word in ["", "8", "half", "BF16"] {
        let message = word.parse::<MetadataType>().expect_err(word).to_string();
        assert!(message.ends_with("f32, bf16 and f16"), "{message}");
    }
}

#[test]
fn sizes() {
    let payload = |width, n_cols| RowCodec::new(width).row_payload_bytes(n_cols);
    assert_eq!([0, 1, 7, 8, 9].map(|n| payload(Width::One, n)), [0, 1, 1, 1, 2]);
    assert_eq!([0, 1, 3, 4, 5].map(|n| payload(Width::Two, n)), [0, 1, 1, 1, 2]);
    assert_eq!([0, 1, 2, 3, 4].map(|n| payload(Width::Four, n)), [0, 1, 1, 2, 2]);
    assert_eq!([0, 1, 2].map(|n| payload(Width::Eight, n)), [0, 1, 2]);
    assert_eq!(payload(Width::F16, 3), 6);
    assert_eq!(payload(Width::Bf16, 3), 6);
    assert_eq!(payload(Width::F32, 3), 12);
    // No intermediate overflow.
    assert_eq!(payload(Width::Four, usize::MAX), usize::MAX / 2 + 1);
    // The paper: 512 columns at one bit, metadata is a sixteenth of the payload.
    let codec = RowCodec::new(Width::One);
    assert_eq!((codec.row_payload_bytes(512), codec.row_metadata_bytes()), (64, 4));
    for codec in all_codecs() {
        let metadata = if codec.width.is_quantized() { 2 * codec.metadata.bytes() } else { 0 };
        assert_eq!(codec.row_metadata_bytes(), metadata);
        assert_eq!(codec.metadata_bytes(7), 7 * metadata);
        assert_eq!(codec.payload_bytes(7, 5), 7 * codec.row_payload_bytes(5));
        assert_eq!(codec.message_bytes(7, 5), codec.metadata_bytes(7) + codec.payload_bytes(7, 5));
    }
}

#[test]
#[should_panic(expected = "do not fit into memory")]
fn impossible_sizes_are_the_callers_fault() {
    let _ = RowCodec::new(Width::F32).message_bytes(usize::MAX / 2, 3);
}
