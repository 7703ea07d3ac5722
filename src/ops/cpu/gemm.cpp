// Matrix products on CPU devices: f32 by oneDNN (with the device's OpenMP threads), f64 by OpenBLAS in blocks
// of rows, f32 with AVX2 in blocks of columns where rows are to be copied (copied_rows.hpp). The division
// into blocks depends only on the sizes and the device's threads. bf16 matrices go to oneDNN unchanged where
// it multiplies in bf16, otherwise as f32 in scratch memory.
#include <cblas.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <atomic>

#include "banyan/ops/basic.hpp"
#include "ops/common/checks.hpp"
#include "ops/cpu/copied_rows.hpp"
#include "ops/cpu/gemm_bf16.hpp"
#include "ops/cpu/openmp_threads.hpp"
#include "ops/cpu/round_to_bf16.hpp"

namespace banyan::ops {
namespace {

template <class T>
struct Matrices {
  GemmShape shape;
  T alpha, beta;
  const T *a, *b;
  T* c;
  int threads;
  Math math;
  void* scratch;  ///< for factors in bf16, or blocks of copies

  std::int64_t a_stride() const { return shape.transpose_a ? shape.m : shape.k; }
  std::int64_t b_stride() const { return shape.transpose_b ? shape.k : shape.n; }
};

/// C = beta C: the result of a product with k = 0.
template <class T>
void scale_only(const Matrices<T>& of) {
  const std::int64_t count = of.shape.m * of.shape.n;
  for (std::int64_t i = 0; i < count; ++i) of.c[i] = of.beta == 0 ? T(0) : of.beta * of.c[i];
}

void expect_success(dnnl_status_t status, const GemmShape& s) {
  if (status != dnnl_success)
    runtime_failure("gemm: oneDNN failed with status ", static_cast<int>(status), " for ", s.m, " x ", s.n,
                    " x ", s.k);
}

/// Blocks of B (k x n), and of a transposed A (k x m), that each thread copies for its columns of the result.
struct CopiedBlocks {
  static constexpr std::int64_t kRows = 256, kColumns = 256;
  const GemmShape& s;
  int threads;

  static constexpr std::int64_t kMost = 16 << 20;  ///< floats: 64 MB

  /// Not worth it for small products, nor where a thread has few columns or copies become large.
  bool pay() const {
    return !s.transpose_b && shares_sets(s.n) && s.m >= (s.n % 1024 == 0 ? 16 : 64) &&
           s.k >= (s.transpose_a ? kRows : kRows / 2) && s.n / threads >= kColumns / 2 &&
           threads * floats() <= kMost;
  }
  std::int64_t copied_a() const { return s.transpose_a ? copied_stride(s.m) : 0; }
  std::int64_t floats() const { return kRows * (padded(kColumns) + copied_a()); }  ///< of a thread
  /// As many for every thread.
  std::int64_t blocks() const { return threads * ((s.n + threads * kColumns - 1) / (threads * kColumns)); }
};

/// Floats that a product with f32 factors needs for them.
std::int64_t copies_of(const GemmShape& shape, int threads) {
  const CopiedBlocks blocks{shape, threads};
  return blocks.pay() ? threads * blocks.floats() : 0;
}

/// The product with f32 factors, each thread with columns of the result.
void multiply_copies(const Matrices<float>& of, const CopiedBlocks& copied) {
  const GemmShape& s = of.shape;
  const OpenMpThreads single(1);  // of sgemm
  std::atomic<dnnl_status_t> status = dnnl_success;
  const std::int64_t blocks = copied.blocks(), a_stride = copied.copied_a();
#pragma omp parallel for num_threads(of.threads) schedule(static)
  for (int thread = 0; thread < of.threads; ++thread) {
    float* const b = static_cast<float*>(of.scratch) + thread * copied.floats();
    float* const a = b + CopiedBlocks::kRows * padded(CopiedBlocks::kColumns);
    for (std::int64_t k = 0; k < s.k; k += CopiedBlocks::kRows) {
      const std::int64_t count = std::min(CopiedBlocks::kRows, s.k - k);
      const float* const from = of.a + (s.transpose_a ? k * s.m : k);
      if (a_stride > 0) copy_rows_apart(count, s.m, from, s.m, a, a_stride);
      for (std::int64_t block = blocks * thread / of.threads; block < blocks * (thread + 1) / of.threads;
           ++block) {
        const std::int64_t first = s.n * block / blocks, width = s.n * (block + 1) / blocks - first;
        copy_rows_apart(count, width, of.b + k * s.n + first, s.n, b, padded(width));
        const dnnl_status_t done =
            dnnl_sgemm(s.transpose_a ? 'T' : 'N', 'N', s.m, width, count, of.alpha, a_stride > 0 ? a : from,
                       a_stride > 0 ? a_stride : of.a_stride(), b, padded(width), k == 0 ? of.beta : 1,
                       of.c + first, s.n);
        if (done != dnnl_success) status = done;
      }
    }
  }
  expect_success(status, s);
}

void multiply_matrices(const Matrices<float>& of) {
  const GemmShape& s = of.shape;
  const CopiedBlocks copied{s, of.threads};
  if (of.math == Math::full && copied.pay()) return multiply_copies(of, copied);
  const OpenMpThreads threads(of.threads);
  if (of.math == Math::bf16) return multiply_bf16(s, {}, of.alpha, of.a, of.b, of.beta, of.c, of.scratch);
  const float *a = of.a, *b = of.b;
  if (of.math == Math::bf16_in_f32) {
    auto *const a_rounded = static_cast<float*>(of.scratch), *const b_rounded = a_rounded + s.m * s.k;
    round_to_bf16(of.threads, s.m * s.k, a, a_rounded);
    round_to_bf16(of.threads, s.k * s.n, b, b_rounded);
    a = a_rounded;
    b = b_rounded;
  }
  const dnnl_status_t status = dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k,
                                          of.alpha, a, of.a_stride(), b, of.b_stride(), of.beta, of.c, s.n);
  expect_success(status, s);
}

/// OpenBLAS runs only on the calling thread: inside a parallel region by default, outside because of
/// OpenMpThreads.
void multiply_rows(const Matrices<double>& of, std::int64_t first, std::int64_t last) {
  const GemmShape& s = of.shape;
  const double* a = of.a + (s.transpose_a ? first : first * of.a_stride());
  cblas_dgemm(CblasRowMajor, s.transpose_a ? CblasTrans : CblasNoTrans,
              s.transpose_b ? CblasTrans : CblasNoTrans, static_cast<int>(last - first),
              static_cast<int>(s.n), static_cast<int>(s.k), of.alpha, a, static_cast<int>(of.a_stride()),
              of.b, static_cast<int>(of.b_stride()), of.beta, of.c + first * s.n, static_cast<int>(s.n));
}

void multiply_matrices(const Matrices<double>& of) {
  constexpr double kSerialWork = 1 << 18;  // multiplications; less work is faster on one thread
  const GemmShape& s = of.shape;
  const double work = static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  const std::int64_t blocks = work < kSerialWork ? 1 : std::min<std::int64_t>(of.threads, s.m);
  if (blocks == 1) {
    const OpenMpThreads single(1);
    return multiply_rows(of, 0, s.m);
  }
#pragma omp parallel for schedule(static) num_threads(of.threads)
  for (std::int64_t block = 0; block < blocks; ++block)
    multiply_rows(of, s.m * block / blocks, s.m * (block + 1) / blocks);
}

/// A matrix as f32: itself, or a copy in scratch memory.
struct Widened {
  std::int64_t count;
  const BFloat16* narrow = nullptr;  ///< null: it is f32
  float* wide = nullptr;

  explicit Widened(const Tensor& tensor) : count(tensor.count()) {
    if (tensor.dtype() == DType::bf16)
      narrow = tensor.data<BFloat16>();
    else
      wide = const_cast<float*>(tensor.data<float>());
  }
  std::int64_t scratch() const { return narrow != nullptr ? count : 0; }
  /// Takes what it needs from `scratch` and returns the rest.
  float* place(float* scratch) {
    if (narrow != nullptr) wide = scratch;
    return scratch + this->scratch();
  }
  void read(int threads) const {
    if (narrow != nullptr) widen(threads, count, narrow, wide);
  }
  void write(int threads) const {
    if (narrow != nullptr) ops::narrow(threads, count, wide, const_cast<BFloat16*>(narrow));
  }
};

/// One or more of the matrices are bf16, the others f32.
void gemm_with_bf16(Context& context, const GemmShape& shape, double alpha, const Tensor& a, const Tensor& b,
                    double beta, Tensor& c) {
  const Math math = context.device().math();
  const int threads = context.device().threads();
  if (math == Math::bf16 && shape.k > 0) {
    const StoredIn16Bits stored{a.dtype() == DType::bf16, b.dtype() == DType::bf16, c.dtype() == DType::bf16};
    const void *from_a = a.raw(), *from_b = b.raw();
    void *to = c.raw(), *scratch = context.workspace(bf16_scratch(shape));
    const auto factor = static_cast<float>(alpha), keep = static_cast<float>(beta);
    context.run([=] {
      const OpenMpThreads team(threads);
      multiply_bf16(shape, stored, factor, from_a, from_b, keep, to, scratch);
    });
    return;
  }
  Widened wide_a(a), wide_b(b), wide_c(c);
  const std::int64_t factors = math == Math::full ? copies_of(shape, threads) : wide_a.count + wide_b.count;
  float* scratch =
      context.workspace_of<float>(wide_a.scratch() + wide_b.scratch() + wide_c.scratch() + factors);
  scratch = wide_c.place(wide_b.place(wide_a.place(scratch)));
  const Matrices<float> of{shape,
                           static_cast<float>(alpha),
                           static_cast<float>(beta),
                           wide_a.wide,
                           wide_b.wide,
                           wide_c.wide,
                           threads,
                           math,
                           scratch};
  context.run([=] {
    wide_a.read(threads);
    wide_b.read(threads);
    if (beta != 0) wide_c.read(threads);
    if (of.shape.k == 0)
      scale_only(of);
    else
      multiply_matrices(of);
    wide_c.write(threads);
  });
}

void gemm_on_cpu(Context& context, const GemmShape& shape, double alpha, const Tensor& a, const Tensor& b,
                 double beta, Tensor& c) {
  require_count("gemm, A", a, shape.m * shape.k);
  require_count("gemm, B", b, shape.k * shape.n);
  require_count("gemm, C", c, shape.m * shape.n);
  if (c.count() == 0) return;
  if (a.dtype() == DType::bf16 || b.dtype() == DType::bf16 || c.dtype() == DType::bf16)
    return gemm_with_bf16(context, shape, alpha, a, b, beta, c);
  dispatch_float(c.dtype(), "gemm", [&]<class T>() {
    constexpr bool kIsF32 = std::is_same_v<T, float>;
    const Math math = kIsF32 ? context.device().math() : Math::full;
    const std::int64_t factors = math == Math::bf16_in_f32 ? shape.m * shape.k + shape.k * shape.n
                                 : kIsF32                  ? copies_of(shape, context.device().threads())
                                                           : 0;
    void* scratch =
        math == Math::bf16 ? context.workspace(bf16_scratch(shape)) : context.workspace_of<float>(factors);
    const Matrices<T> of{shape,       static_cast<T>(alpha), static_cast<T>(beta),       a.data<T>(),
                         b.data<T>(), c.data<T>(),           context.device().threads(), math,
                         scratch};
    context.run([of] {
      if (of.shape.k == 0)
        scale_only(of);
      else
        multiply_matrices(of);
    });
  });
}

const Define define_gemm(gemm, DeviceKind::cpu, &gemm_on_cpu);

}  // namespace
}  // namespace banyan::ops
