//! Encoded rows of a message, copied into a message of their own.
//!
//! Specification: `sylvie_lowbit::RowCodec::select_rows`.
//! Shapes: message: n_rows pairs of metadata and n_rows payloads; positions: n_selected; out: the same of
//!   n_selected rows. Both lie at any address; metadata_bytes and payload_bytes are those of one row.
//! Work: up to 32 neighbouring lanes take a row, in the largest units that its addresses allow.
//! Bytes: the selected rows read and written.
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

template <class Unit>
DEVICE void copy_units(const u8* from, u8* to, u64 n_bytes, Group group) {
    for (u64 at = group.lane * sizeof(Unit); at < n_bytes; at += group.lanes * sizeof(Unit))
        *reinterpret_cast<Unit*>(to + at) = *reinterpret_cast<const Unit*>(from + at);
}

/// The pieces of all rows begin at `from` and `to`, one after the other.
DEVICE void copy_piece(const u8* from, u8* to, u64 n_bytes, Group group) {
    const u64 places = (u64)from | (u64)to | n_bytes;
    if (places % 16 == 0) {
        copy_units<uint4>(from, to, n_bytes, group);
    } else if (places % 4 == 0) {
        copy_units<u32>(from, to, n_bytes, group);
    } else {
        copy_units<u8>(from, to, n_bytes, group);
    }
}

KERNEL select_rows(const u8* __restrict__ message, const u32* __restrict__ positions, u8* __restrict__ out,
                   u32 n_rows, u32 n_selected, u32 metadata_bytes, u64 payload_bytes) {
    const Group group = group_of((u32)min(payload_bytes / 16 + 1, (u64)32));
    const u8* payloads = message + (u64)n_rows * metadata_bytes;
    u8* out_payloads = out + (u64)n_selected * metadata_bytes;
    for (u64 row = group.row; row < n_selected; row += group.step) {
        const u64 position = positions[row];
        copy_piece(message + position * metadata_bytes, out + row * metadata_bytes, metadata_bytes, group);
        copy_piece(payloads + position * payload_bytes, out_payloads + row * payload_bytes, payload_bytes,
                   group);
    }
}
