//! Rows to bytes and back: docs/wire-format.md says which bytes.
//!
//! A message may begin at any address. `metadata` is 0 for `f32`, 1 for `bf16`, 2 for `f16`. `key0`, `key1`, `epoch` and
//! `tag` are those of a `sylvie_random::Family`. `status` is one word that the caller has set to [`crate::ACCEPTED`];
//! [`crate::refusal`] reads it. At most [`crate::MAX_COLUMNS`] columns. Rows without columns have zeros for
//! metadata, which the caller writes, for there is no kernel to launch.

use crate::modules::kernels;

kernels! {
    /// Row `i` of the message is row `rows[i]` of `x` at 1 bit, rounded at key `keys[i]`.
    ///
    /// # Shapes
    /// `x` any number of rows x `n_cols`; `rows` (optional: row `i`) and `keys` `n_rows`; `message`
    /// `n_rows * (metadata + ceil(n_cols / 8))` bytes. Launch with `n_rows`, `n_cols`.
    /// # Layout
    /// `sylvie_lowbit::RowCodec::encode_rows`, byte for byte.
    /// # Cost
    /// `4 n_cols` bytes read a row (again, from cache, for rows of more than 512 columns), the message written.
    ENCODE_1 = QUANTIZE "encode_1" Codes (
        x: F32s, rows: U32s, keys: U32s, message: U8s, status: U64s, n_rows: U32, n_cols: U32,
        key0: U32, key1: U32, epoch: U32, tag: U32, metadata: U32,
    );
    /// [`ENCODE_1`] at 2 bits.
    ENCODE_2 = QUANTIZE "encode_2" Codes (
        x: F32s, rows: U32s, keys: U32s, message: U8s, status: U64s, n_rows: U32, n_cols: U32,
        key0: U32, key1: U32, epoch: U32, tag: U32, metadata: U32,
    );
    /// [`ENCODE_1`] at 4 bits.
    ENCODE_4 = QUANTIZE "encode_4" Codes (
        x: F32s, rows: U32s, keys: U32s, message: U8s, status: U64s, n_rows: U32, n_cols: U32,
        key0: U32, key1: U32, epoch: U32, tag: U32, metadata: U32,
    );
    /// [`ENCODE_1`] at 8 bits.
    ENCODE_8 = QUANTIZE "encode_8" Codes (
        x: F32s, rows: U32s, keys: U32s, message: U8s, status: U64s, n_rows: U32, n_cols: U32,
        key0: U32, key1: U32, epoch: U32, tag: U32, metadata: U32,
    );
    /// Row `i` of the message is row `rows[i]` of `x` (optional: row `i`) as `f16`.
    ///
    /// # Shapes
    /// As [`ENCODE_1`]; `message` `2 n_rows n_cols` bytes. Launch with `n_rows`, `n_cols`.
    ENCODE_F16 = FLOAT_ROWS "encode_f16" Rows (
        x: F32s, rows: U32s, message: U8s, status: U64s, n_rows: U32, n_cols: U32,
    );
    /// [`ENCODE_F16`] as `bf16`.
    ENCODE_BF16 = FLOAT_ROWS "encode_bf16" Rows (
        x: F32s, rows: U32s, message: U8s, status: U64s, n_rows: U32, n_cols: U32,
    );
    /// [`ENCODE_F16`] as `f32`: `message` has `4 n_rows n_cols` bytes.
    ENCODE_F32 = FLOAT_ROWS "encode_f32" Rows (
        x: F32s, rows: U32s, message: U8s, status: U64s, n_rows: U32, n_cols: U32,
    );

    /// Row `rows[i]` of `out` becomes row `i` of a message at 1 bit.
    ///
    /// # Shapes
    /// `message` as [`ENCODE_1`] writes it for `n_rows`, `n_cols`; `rows` (optional: row `i`) `n_rows`; `out` any number
    /// of rows x `n_cols`. Launch with `n_rows`, `n_cols`. Rows that are refused are left as they are.
    /// # Layout
    /// `sylvie_lowbit::RowCodec::decode_rows`, bit for bit.
    DECODE_1 = DEQUANTIZE "decode_1" Rows (
        message: U8s, rows: U32s, out: F32s, status: U64s, n_rows: U32, n_cols: U32, metadata: U32,
    );
    /// [`DECODE_1`] at 2 bits.
    DECODE_2 = DEQUANTIZE "decode_2" Rows (
        message: U8s, rows: U32s, out: F32s, status: U64s, n_rows: U32, n_cols: U32, metadata: U32,
    );
    /// [`DECODE_1`] at 4 bits.
    DECODE_4 = DEQUANTIZE "decode_4" Rows (
        message: U8s, rows: U32s, out: F32s, status: U64s, n_rows: U32, n_cols: U32, metadata: U32,
    );
    /// [`DECODE_1`] at 8 bits.
    DECODE_8 = DEQUANTIZE "decode_8" Rows (
        message: U8s, rows: U32s, out: F32s, status: U64s, n_rows: U32, n_cols: U32, metadata: U32,
    );
    /// [`DECODE_1`], added to row `rows[i]`: `sylvie_lowbit::RowCodec::decode_add_rows`. `rows` are distinct.
    DECODE_ADD_1 = DEQUANTIZE "decode_add_1" Rows (
        message: U8s, rows: U32s, out: F32s, status: U64s, n_rows: U32, n_cols: U32, metadata: U32,
    );
    /// [`DECODE_ADD_1`] at 2 bits.
    DECODE_ADD_2 = DEQUANTIZE "decode_add_2" Rows (
        message: U8s, rows: U32s, out: F32s, status: U64s, n_rows: U32, n_cols: U32, metadata: U32,
    );
    /// [`DECODE_ADD_1`] at 4 bits.
    DECODE_ADD_4 = DEQUANTIZE "decode_add_4" Rows (
        message: U8s, rows: U32s, out: F32s, status: U64s, n_rows: U32, n_cols: U32, metadata: U32,
    );
    /// [`DECODE_ADD_1`] at 8 bits.
    DECODE_ADD_8 = DEQUANTIZE "decode_add_8" Rows (
        message: U8s, rows: U32s, out: F32s, status: U64s, n_rows: U32, n_cols: U32, metadata: U32,
    );
    /// [`DECODE_1`] of `f16`. Values that are refused are left as they are.
    DECODE_F16 = FLOAT_ROWS "decode_f16" Rows (
        message: U8s, rows: U32s, out: F32s, status: U64s, n_rows: U32, n_cols: U32,
    );
    /// [`DECODE_F16`] of `bf16`.
    DECODE_BF16 = FLOAT_ROWS "decode_bf16" Rows (
        message: U8s, rows: U32s, out: F32s, status: U64s, n_rows: U32, n_cols: U32,
    );
    /// [`DECODE_F16`] of `f32`.
    DECODE_F32 = FLOAT_ROWS "decode_f32" Rows (
        message: U8s, rows: U32s, out: F32s, status: U64s, n_rows: U32, n_cols: U32,
    );
    /// [`DECODE_F16`], added to row `rows[i]`. `rows` are distinct.
    DECODE_ADD_F16 = FLOAT_ROWS "decode_add_f16" Rows (
        message: U8s, rows: U32s, out: F32s, status: U64s, n_rows: U32, n_cols: U32,
    );
    /// [`DECODE_ADD_F16`] of `bf16`.
    DECODE_ADD_BF16 = FLOAT_ROWS "decode_add_bf16" Rows (
        message: U8s, rows: U32s, out: F32s, status: U64s, n_rows: U32, n_cols: U32,
    );
    /// [`DECODE_ADD_F16`] of `f32`.
    DECODE_ADD_F32 = FLOAT_ROWS "decode_add_f32" Rows (
        message: U8s, rows: U32s, out: F32s, status: U64s, n_rows: U32, n_cols: U32,
    );

    /// Copies the encoded rows `positions` of a message of `n_rows` rows into a message of `n_selected`:
    /// `sylvie_lowbit::RowCodec::select_rows`.
    ///
    /// # Shapes
    /// `positions` `n_selected`; `metadata_bytes` and `payload_bytes` are those of one row. Launch with `n_selected`,
    /// `payload_bytes.div_ceil(4).max(1)`.
    SELECT_ROWS = SELECT_ROWS "select_rows" Rows (
        message: U8s, positions: U32s, out: U8s, n_rows: U32, n_selected: U32,
        metadata_bytes: U32, payload_bytes: U64,
    );
}
