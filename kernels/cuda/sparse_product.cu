//! Products of a sparse matrix, by rows or by columns, with a dense one.
//!
//! Specification: `Backend::sparse_matmul` and `sparse_matmul_tn` of sylvie-tensor, bit for bit.
//! Shapes: indptr: n_rows + 1; columns: row of b of each stored value; places (or null): where it stands in
//!   values; b: any x n_cols; out: n_rows x n_cols, assigned or (add = 1) added to.
//! Work: up to 32 neighbouring lanes take a row, a lane four columns.
//! Bytes: 4 n_cols + 8 a stored value (16 with places), and 4 n_cols a row of out (8 where it is added to).
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

KERNEL sparse_product(const u64* __restrict__ indptr, const u32* __restrict__ columns,
                      const u64* __restrict__ places, const float* __restrict__ values,
                      const float* __restrict__ b, float* __restrict__ out, u32 n_rows, u32 n_cols,
                      u32 add) {
    const Group group = group_of_values(n_cols);
    const bool wide = is_wide(b, n_cols) && is_wide(out, n_cols);
    auto row_of = [=](u64 place) { return (u64)columns[place]; };
    auto factor_of = [=](u64 place, u64) { return values[places != nullptr ? places[place] : place]; };
    for (u64 row = group.row; row < n_rows; row += group.step) {
        const u64 begin = indptr[row], end = indptr[row + 1];
        float* sums = out + row * n_cols;
        for (u32 column = 4 * group.lane; column < n_cols; column += 4 * group.lanes) {
            const u32 n = n_cols - column;
            const float4 sum = add != 0 ? load4(sums + column, n, wide) : make_float4(0, 0, 0, 0);
            store4(sums + column,
                   add_entries<false>(sum, begin, end, row_of, factor_of, b, column, n_cols, wide), n,
                   wide);
        }
    }
}
