// Matrix products by OpenBLAS on the calling thread only, and what the emulated libraries leave in the
// workspaces they are given.
#pragma once

#include <cblas.h>
#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

namespace emulated {

/// OpenBLAS asks OpenMP for the number of threads: a per-thread setting, which streams' threads use for
/// nothing else.
inline void use_one_blas_thread() {
  if (omp_get_max_threads() != 1) omp_set_num_threads(1);
}

/// Can OpenBLAS, whose lengths are ints, compute this product?
inline bool fits_blas(std::int64_t length) { return length <= std::numeric_limits<blasint>::max(); }

struct ProductShape {
  CBLAS_ORDER order;
  CBLAS_TRANSPOSE of_a, of_b;
  std::int64_t m, n, k, lda, ldb, ldc;
};

/// C = alpha op(A) op(B) + beta C. C is not read where beta is 0.
inline void multiply(const ProductShape& s, float alpha, const float* a, const float* b, float beta,
                     float* c) {
  use_one_blas_thread();
  const auto i = [](std::int64_t v) { return static_cast<blasint>(v); };
  cblas_sgemm(s.order, s.of_a, s.of_b, i(s.m), i(s.n), i(s.k), alpha, a, i(s.lda), b, i(s.ldb), beta, c,
              i(s.ldc));
}
inline void multiply(const ProductShape& s, double alpha, const double* a, const double* b, double beta,
                     double* c) {
  use_one_blas_thread();
  const auto i = [](std::int64_t v) { return static_cast<blasint>(v); };
  cblas_dgemm(s.order, s.of_a, s.of_b, i(s.m), i(s.n), i(s.k), alpha, a, i(s.lda), b, i(s.ldb), beta, c,
              i(s.ldc));
}

/// NaNs at both ends (large workspaces would take longer than the work itself).
inline void fill_with_garbage(char* memory, std::size_t bytes) {
  constexpr std::size_t kMost = std::size_t{1} << 16;
  std::memset(memory, 0xFF, std::min(bytes, kMost));
  if (bytes > kMost) std::memset(memory + bytes - kMost, 0xFF, kMost);
}

}  // namespace emulated
