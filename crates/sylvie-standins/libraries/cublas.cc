// cuBLAS, the one product that is called, in double precision, column by column as it is documented.
#include <cstdint>

#include "standin.h"

extern "C" {
typedef int Status;
enum { OK = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13 };
struct Handle { void *stream; };

Status cublasCreate_v2(Handle **handle) {
    if (standin_current_device() < 0) return NOT_INITIALIZED;
    *handle = new Handle{nullptr}; return OK;
}
Status cublasDestroy_v2(Handle *handle) { delete handle; return OK; }
Status cublasSetStream_v2(Handle *handle, void *stream) { handle->stream = stream; return OK; }
Status cublasSgemm_v2(Handle *handle, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda, const float *b,
                      int ldb, const float *beta, float *c, int ldc) {
    auto least = [](int rows) { return rows > 1 ? rows : 1; };
    if (m < 0 || n < 0 || k < 0 || lda < least(ta ? k : m) || ldb < least(tb ? n : k) || ldc < least(m)) return INVALID_VALUE;
    if (m == 0 || n == 0) return OK;
    if (standin_drain(handle->stream)) return EXECUTION_FAILED;
    auto extent = [](int rows, int columns, int ld) { return rows && columns ? 4 * (size_t(columns - 1) * ld + rows) : size_t(0); };
    const size_t a_bytes = extent(ta ? k : m, ta ? m : k, lda), b_bytes = extent(tb ? n : k, tb ? k : n, ldb);
    if (a_bytes && standin_touch(handle->stream, a, a_bytes, 0, "cublasSgemm")) return EXECUTION_FAILED;
    if (b_bytes && standin_touch(handle->stream, b, b_bytes, 0, "cublasSgemm")) return EXECUTION_FAILED;
    if (standin_touch(handle->stream, c, extent(m, n, ldc), 1, "cublasSgemm")) return EXECUTION_FAILED;
    for (int j = 0; j < n; ++j)
        for (int i = 0; i < m; ++i) {
            double sum = 0;
            for (int p = 0; p < k; ++p)
                sum += double(ta ? a[p + int64_t(i) * lda] : a[i + int64_t(p) * lda]) * (tb ? b[j + int64_t(p) * ldb] : b[p + int64_t(j) * ldb]);
            float *value = c + i + int64_t(j) * ldc;
            *value = float(*alpha * sum + (*beta != 0 ? double(*beta) * *value : 0.0));
        }
    return OK;
}
}
