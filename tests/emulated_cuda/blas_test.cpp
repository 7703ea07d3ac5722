// The emulated cuBLAS: results against plain loops, and each of its rules.
#include <cublas_v2.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "machine.hpp"
#include "rounding.hpp"

namespace emulated {
namespace {

// Two GPUs, unless the environment says otherwise; set before the machine is first used.
[[maybe_unused]] const int two_gpus = setenv("EMULATED_CUDA", "gpus=2,on_violation=report", 0);

/// Elements in the current GPU's memory.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(std::size_t count) : count_(count) {
    EXPECT_EQ(cudaMalloc(&memory_, std::max<std::size_t>(count, 1) * sizeof(T)), cudaSuccess);
  }
  explicit OnDevice(const std::vector<T>& values) : OnDevice(values.size()) {
    EXPECT_EQ(cudaMemcpy(memory_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  ~OnDevice() { EXPECT_EQ(cudaFree(memory_), cudaSuccess); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  T* get() const { return static_cast<T*>(memory_); }
  std::vector<T> values() const {
    std::vector<T> values(count_);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(values.data(), memory_, count_ * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }

 private:
  std::size_t count_;
  void* memory_ = nullptr;
};

std::vector<double> some_values(std::size_t count, int seed) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<double>((i * 37 + static_cast<std::size_t>(seed) * 11) % 23) / 8 - 1;
  return values;
}
template <class T>
std::vector<T> as(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}
std::vector<Bf16> as_bf16(const std::vector<float>& values) {
  std::vector<Bf16> narrow;
  for (const float value : values) narrow.push_back(emulated::as_bf16(value));
  return narrow;
}
std::vector<float> as_floats(const std::vector<Bf16>& values) {
  std::vector<float> wide;
  for (const Bf16 value : values) wide.push_back(as_float(value));
  return wide;
}

class Blas : public testing::Test {
 protected:
  static constexpr std::size_t kWorkspace = std::size_t{1} << 20;

  Blas() {
    configure("on_violation=report,notes=0");
    EXPECT_GE(settings().gpus, 2);
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&workspace_, kWorkspace), cudaSuccess);
    EXPECT_EQ(cublasCreate(&handle_), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasSetStream(handle_, stream_), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasSetWorkspace(handle_, workspace_, kWorkspace), CUBLAS_STATUS_SUCCESS);
    before_ = violations();
  }
  ~Blas() override {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cublasDestroy(handle_), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(cudaFree(workspace_), cudaSuccess);
    EXPECT_EQ(new_violations(), 0u);
  }
  /// Violations since the last call, once the stream has run everything.
  std::uint64_t new_violations() {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const std::uint64_t now = violations(), found = now - before_;
    before_ = now;
    return found;
  }
  cublasStatus_t gemm(cublasOperation_t of_a, cublasOperation_t of_b, std::int64_t m, std::int64_t n,
                      std::int64_t k, float alpha, const float* a, std::int64_t lda, const float* b,
                      std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
    return cublasSgemm_64(handle_, of_a, of_b, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc);
  }
  cublasStatus_t gemm(cublasOperation_t of_a, cublasOperation_t of_b, std::int64_t m, std::int64_t n,
                      std::int64_t k, double alpha, const double* a, std::int64_t lda, const double* b,
                      std::int64_t ldb, double beta, double* c, std::int64_t ldc) {
    return cublasDgemm_64(handle_, of_a, of_b, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc);
  }
  cublasStatus_t gemm(cublasOperation_t of_a, cublasOperation_t of_b, std::int64_t m, std::int64_t n,
                      std::int64_t k, float alpha, const Bf16* a, std::int64_t lda, const Bf16* b,
                      std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
    return cublasGemmEx_64(handle_, of_a, of_b, m, n, k, &alpha, a, CUDA_R_16BF, lda, b, CUDA_R_16BF, ldb,
                           &beta, c, CUDA_R_32F, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  }
  cublasStatus_t gemm(cublasOperation_t of_a, cublasOperation_t of_b, std::int64_t m, std::int64_t n,
                      std::int64_t k, float alpha, const Bf16* a, std::int64_t lda, const Bf16* b,
                      std::int64_t ldb, float beta, Bf16* c, std::int64_t ldc) {
    return cublasGemmEx_64(handle_, of_a, of_b, m, n, k, &alpha, a, CUDA_R_16BF, lda, b, CUDA_R_16BF, ldb,
                           &beta, c, CUDA_R_16BF, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  }
  /// 2 x 2 matrices; only what a test changes matters.
  template <class T, class R>
  cublasStatus_t small_gemm(const T* a, const T* b, R* c) {
    return gemm(CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, 1.0f, a, 2, b, 2, 0.0f, c, 2);
  }
  /// Likewise, for statuses that depend on types.
  cublasStatus_t small_gemm_of(cudaDataType a_type, cudaDataType b_type, cudaDataType c_type,
                               cublasComputeType_t compute,
                               cublasGemmAlgo_t algorithm = CUBLAS_GEMM_DEFAULT) {
    const OnDevice<double> a(std::vector<double>(4)), b(std::vector<double>(4)), c(std::vector<double>(4));
    const double scale = 0;
    const cublasStatus_t status =
        cublasGemmEx_64(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &scale, a.get(), a_type, 2, b.get(),
                        b_type, 2, &scale, c.get(), c_type, 2, compute, algorithm);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return status;
  }
  template <class T>
  void expect_product(cublasOperation_t of_a, cublasOperation_t of_b, double alpha, double beta,
                      std::int64_t gap);
  template <class R>
  void expect_bf16_product(cublasOperation_t of_a, cublasOperation_t of_b, float alpha, float beta,
                           std::int64_t gap);

  cublasHandle_t handle_ = nullptr;
  cudaStream_t stream_ = nullptr;
  void* workspace_ = nullptr;
  std::uint64_t before_ = 0;
};

/// 5 x 4 = (5 x 3) (3 x 4), with `gap` elements between columns that must stay as they are.
template <class T>
void Blas::expect_product(cublasOperation_t of_a, cublasOperation_t of_b, double alpha, double beta,
                          std::int64_t gap) {
  constexpr std::int64_t m = 5, n = 4, k = 3;
  const bool a_as_is = of_a == CUBLAS_OP_N, b_as_is = of_b == CUBLAS_OP_N;
  const std::int64_t lda = (a_as_is ? m : k) + gap, ldb = (b_as_is ? k : n) + gap, ldc = m + gap;
  const auto a = some_values(static_cast<std::size_t>(lda * (a_as_is ? k : m)), 1),
             b = some_values(static_cast<std::size_t>(ldb * (b_as_is ? n : k)), 2);
  const auto c = some_values(static_cast<std::size_t>(ldc * n), 3);
  const OnDevice<T> a_there(as<T>(a)), b_there(as<T>(b)), c_there(as<T>(c));
  ASSERT_EQ(gemm(of_a, of_b, m, n, k, static_cast<T>(alpha), a_there.get(), lda, b_there.get(), ldb,
                 static_cast<T>(beta), c_there.get(), ldc),
            CUBLAS_STATUS_SUCCESS);
  const std::vector<T> result = c_there.values();
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = 0; i < ldc; ++i) {
      const auto at = static_cast<std::size_t>(i + j * ldc);
      double expected = c[at];
      if (i < m) {
        double sum = 0;
        for (std::int64_t l = 0; l < k; ++l)
          sum += a[a_as_is ? i + l * lda : l + i * lda] * b[b_as_is ? l + j * ldb : j + l * ldb];
        expected = alpha * sum + beta * c[at];
      }
      EXPECT_NEAR(result[at], expected, 1e-5) << i << ", " << j;
    }
}

TEST_F(Blas, MultipliesAsPlainLoopsDo) {
  for (const auto of_a : {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C})
    for (const auto of_b : {CUBLAS_OP_N, CUBLAS_OP_T})
      for (const std::int64_t gap : {0, 3})
        for (const double beta : {0.0, 1.0, -0.5}) {
          expect_product<float>(of_a, of_b, 2, beta, gap);
          expect_product<double>(of_a, of_b, -1.5, beta, gap);
        }
}

/// Factors with all the bits of a bf16, in longer sums: 5 x 4 = (5 x 37) (37 x 4).
template <class R>
void Blas::expect_bf16_product(cublasOperation_t of_a, cublasOperation_t of_b, float alpha, float beta,
                               std::int64_t gap) {
  constexpr std::int64_t m = 5, n = 4, k = 37;
  constexpr bool kRounded = std::is_same_v<R, Bf16>;
  const bool a_as_is = of_a == CUBLAS_OP_N, b_as_is = of_b == CUBLAS_OP_N;
  const std::int64_t lda = (a_as_is ? m : k) + gap, ldb = (b_as_is ? k : n) + gap, ldc = m + gap;
  const auto values = [](std::int64_t count, int seed) {
    std::vector<float> wide;
    for (std::int64_t i = 0; i < count; ++i)
      wide.push_back(static_cast<float>(std::sin(static_cast<double>(i) * 1.7 + seed)));
    return as_bf16(wide);
  };
  const std::vector<Bf16> a = values(lda * (a_as_is ? k : m), 1), b = values(ldb * (b_as_is ? n : k), 2),
                          c = values(ldc * n, 3);
  const OnDevice<Bf16> a_there(a), b_there(b);
  const auto result_of = [&](const auto& c_there) {
    EXPECT_EQ(
        gemm(of_a, of_b, m, n, k, alpha, a_there.get(), lda, b_there.get(), ldb, beta, c_there.get(), ldc),
        CUBLAS_STATUS_SUCCESS);
    return c_there.values();
  };
  std::vector<float> result;
  if constexpr (kRounded)
    result = as_floats(result_of(OnDevice<Bf16>(c)));
  else
    result = result_of(OnDevice<float>(as_floats(c)));
  const auto at = [](const std::vector<Bf16>& matrix, std::int64_t place) {
    return static_cast<double>(as_float(matrix[static_cast<std::size_t>(place)]));
  };
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = 0; i < ldc; ++i) {
      const float found = result[static_cast<std::size_t>(i + j * ldc)];
      double expected = at(c, i + j * ldc), magnitude = 0;
      if (i < m) {
        expected *= beta;
        magnitude = std::abs(expected);
        for (std::int64_t l = 0; l < k; ++l) {
          const double term =
              alpha * at(a, a_as_is ? i + l * lda : l + i * lda) * at(b, b_as_is ? l + j * ldb : j + l * ldb);
          expected += term;
          magnitude += std::abs(term);
        }
      }
      // Each of k + 2 operations in f32 is off by at most 2^-24 of the terms' magnitude; rounding the sum
      // to bf16 by half a unit in the last place, 2^-8 of it.
      const double tolerance = (k + 2) * 0x1p-24 * magnitude;
      EXPECT_NEAR(found, expected,
                  kRounded && i < m ? tolerance + 0x1p-8 * (std::abs(expected) + tolerance) : tolerance)
          << i << ", " << j;
    }
}

TEST_F(Blas, MultipliesBf16AsPlainLoopsDo) {
  for (const auto of_a : {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C})
    for (const auto of_b : {CUBLAS_OP_N, CUBLAS_OP_T})
      for (const std::int64_t gap : {0, 3})
        for (const float beta : {0.0f, 1.0f, -0.5f}) {
          expect_bf16_product<Bf16>(of_a, of_b, 2, beta, gap);
          expect_bf16_product<float>(of_a, of_b, -1.5f, beta, gap);
        }
}

TEST_F(Blas, Bf16IsTheNearestToTheWholeSum) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinite = std::numeric_limits<float>::infinity(), greatest = 0x1.FEp127f, least = 0x1p-133f;
  const OnDevice<Bf16> one(as_bf16({1, 1, 1})), c(1);
  const auto sum = [&](const std::vector<float>& terms) {
    const OnDevice<Bf16> there(as_bf16(terms));
    EXPECT_EQ(gemm(CUBLAS_OP_T, CUBLAS_OP_N, 1, 1, 3, 1.0f, one.get(), 3, there.get(), 3, 0.0f, c.get(), 1),
              CUBLAS_STATUS_SUCCESS);
    return as_float(c.values()[0]);
  };
  constexpr float kHalf = 0x1p-8f;  // of the last place of a number from 1 to 2
  EXPECT_EQ(sum({1, kHalf, 0}), 1) << "a tie";
  EXPECT_EQ(sum({1, 3 * kHalf, 0}), 1 + 4 * kHalf) << "a tie";
  EXPECT_EQ(sum({1, kHalf, 0x1p-20f}), 1 + 2 * kHalf);
  EXPECT_EQ(sum({1, kHalf, -0x1p-20f}), 1);
  EXPECT_EQ(sum({-1, -kHalf, -0x1p-20f}), -1 - 2 * kHalf);
  EXPECT_EQ(sum({1, kHalf, kHalf}), 1 + 2 * kHalf) << "parts of the sum are not rounded";
  EXPECT_EQ(sum({2, -kHalf, -kHalf}), 2 - 2 * kHalf) << "the last place of numbers below 2 is half as large";
  EXPECT_EQ(sum({greatest, 0x1p118f, 0}), greatest);
  EXPECT_EQ(sum({greatest, 0x1p119f, 0}), infinite);
  EXPECT_EQ(sum({-greatest, -greatest, 0}), -infinite);
  EXPECT_EQ(sum({least, 0, 0}), least);
  EXPECT_TRUE(std::isnan(sum({nan, 1, 0})));
  EXPECT_TRUE(std::isnan(as_float(emulated::as_bf16(std::bit_cast<float>(0x7F800001)))))
      << "of a NaN whose bits are all in the lower half";
}

TEST_F(Blas, Bf16ResultsAreReadOnlyWhereBetaIsNotZero) {
  const std::vector<Bf16> nan = as_bf16(std::vector<float>(4, std::numeric_limits<float>::quiet_NaN())),
                          one = as_bf16(std::vector<float>(4, 1));
  const OnDevice<Bf16> unknown(nan), ones(one), c(nan), kept(one), never(4);
  ASSERT_EQ(small_gemm(ones.get(), ones.get(), c.get()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(as_floats(c.values()), std::vector<float>(4, 2));
  ASSERT_EQ(
      gemm(CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, 0.0f, unknown.get(), 2, unknown.get(), 2, 3.0f, kept.get(), 2),
      CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(as_floats(kept.values()), std::vector<float>(4, 3));
  ASSERT_EQ(small_gemm(ones.get(), ones.get(), never.get()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(as_floats(never.values()), std::vector<float>(4, 2));
}

TEST_F(Blas, GemmExMultipliesF32AsSgemmDoes) {
  const OnDevice<float> third(std::vector<float>(4, 1.0f / 3)), expected(4), found(4);
  const float one = 1, zero = 0;
  for (const cublasMath_t math : {CUBLAS_DEFAULT_MATH, CUBLAS_TF32_TENSOR_OP_MATH}) {
    ASSERT_EQ(cublasSetMathMode(handle_, math), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(small_gemm(third.get(), third.get(), expected.get()), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasGemmEx_64(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, third.get(), CUDA_R_32F, 2,
                              third.get(), CUDA_R_32F, 2, &zero, found.get(), CUDA_R_32F, 2,
                              CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(found.values(), expected.values());
  }
}

TEST_F(Blas, GemmExRefusesTypesAsDocumented) {
  const auto f32 = CUDA_R_32F, f64 = CUDA_R_64F, f16 = CUDA_R_16F, bf16 = CUDA_R_16BF, i8 = CUDA_R_8I,
             i32 = CUDA_R_32I;
  const auto refused = [&](auto... types) { return small_gemm_of(types...) == CUBLAS_STATUS_NOT_SUPPORTED; };
  EXPECT_EQ(small_gemm_of(bf16, bf16, bf16, CUBLAS_COMPUTE_32F), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(small_gemm_of(bf16, bf16, f32, CUBLAS_COMPUTE_32F), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(small_gemm_of(f32, f32, f32, CUBLAS_COMPUTE_32F), CUBLAS_STATUS_SUCCESS);
  EXPECT_TRUE(refused(bf16, f32, f32, CUBLAS_COMPUTE_32F));
  EXPECT_TRUE(refused(f32, bf16, bf16, CUBLAS_COMPUTE_32F));
  EXPECT_TRUE(refused(bf16, f16, f32, CUBLAS_COMPUTE_32F));
  EXPECT_TRUE(refused(f32, f32, bf16, CUBLAS_COMPUTE_32F));
  EXPECT_TRUE(refused(bf16, bf16, f16, CUBLAS_COMPUTE_32F));
  EXPECT_TRUE(refused(bf16, bf16, f64, CUBLAS_COMPUTE_32F));
  EXPECT_TRUE(refused(bf16, bf16, bf16, CUBLAS_COMPUTE_16F));
  EXPECT_TRUE(refused(bf16, bf16, bf16, CUBLAS_COMPUTE_32F_FAST_16BF)) << "it is for f32 factors";
  EXPECT_TRUE(refused(bf16, bf16, bf16, CUBLAS_COMPUTE_64F));
  EXPECT_TRUE(refused(f64, f64, f64, CUBLAS_COMPUTE_32F));
  EXPECT_TRUE(refused(i8, i8, bf16, CUBLAS_COMPUTE_32I));
  EXPECT_EQ(new_violations(), 0u);
  // What cuBLAS multiplies and the emulator does not.
  const auto is_not_emulated = [&](auto... types) { return refused(types...) && new_violations() == 1; };
  EXPECT_TRUE(is_not_emulated(f64, f64, f64, CUBLAS_COMPUTE_64F));
  EXPECT_TRUE(is_not_emulated(f16, f16, f16, CUBLAS_COMPUTE_16F));
  EXPECT_TRUE(is_not_emulated(f16, f16, f32, CUBLAS_COMPUTE_32F));
  EXPECT_TRUE(is_not_emulated(i8, i8, i32, CUBLAS_COMPUTE_32I));
  EXPECT_TRUE(is_not_emulated(i8, i8, f32, CUBLAS_COMPUTE_32F));
  EXPECT_TRUE(is_not_emulated(f32, f32, f32, CUBLAS_COMPUTE_32F_FAST_TF32));
  EXPECT_TRUE(is_not_emulated(bf16, bf16, bf16, CUBLAS_COMPUTE_32F_PEDANTIC));
  EXPECT_TRUE(is_not_emulated(bf16, bf16, bf16, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT_TENSOR_OP));
}

TEST_F(Blas, GpusBefore80HaveNeitherBf16NorTf32) {
  const float third = 1.0f / 3;
  const OnDevice<float> thirds(std::vector<float>(4, third)), c(4);
  const auto product = [&] {
    EXPECT_EQ(
        gemm(CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, 1.0f, thirds.get(), 1, thirds.get(), 1, 0.0f, c.get(), 1),
        CUBLAS_STATUS_SUCCESS);
    return c.values()[0];
  };
  ASSERT_EQ(cublasSetMathMode(handle_, CUBLAS_TF32_TENSOR_OP_MATH), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(product(), as_tf32(third) * as_tf32(third));
  for (const char* const capability : {"80", "75"}) {
    configure(std::string("on_violation=report,notes=0,capability=") + capability);
    const bool has = std::string(capability) == "80";
    const cublasStatus_t status = has ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
    EXPECT_EQ(small_gemm_of(CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F), status);
    EXPECT_EQ(small_gemm_of(CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F), status);
    EXPECT_EQ(small_gemm_of(CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(product(), has ? as_tf32(third) * as_tf32(third) : third * third);
  }
}

TEST_F(Blas, ReadsNeitherCWhereBetaIsZeroNorFactorsWhereAlphaIsZero) {
  const std::vector<float> nan(4, std::numeric_limits<float>::quiet_NaN()), one(4, 1);
  const OnDevice<float> unknown(nan), ones(one), c(nan), kept(one);
  ASSERT_EQ(small_gemm(ones.get(), ones.get(), c.get()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(c.values(), std::vector<float>(4, 2));
  ASSERT_EQ(
      gemm(CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, 0.0f, unknown.get(), 2, unknown.get(), 2, 3.0f, kept.get(), 2),
      CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(kept.values(), std::vector<float>(4, 3));
  // A sum over nothing.
  ASSERT_EQ(
      gemm(CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 0, 1.0f, unknown.get(), 2, unknown.get(), 2, 2.0f, kept.get(), 2),
      CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(kept.values(), std::vector<float>(4, 6));
}

/// As a GPU's products are not the host's, nor another shape's; whole numbers are exact everywhere.
TEST_F(Blas, ProductsAreOffByUlps) {
  const std::vector<float> third(4, 1.0f / 3);
  const OnDevice<float> thirds(third), ones(std::vector<float>(4, 1)), c(4);
  const auto product = [&](const OnDevice<float>& a, std::int64_t columns) {
    EXPECT_EQ(
        gemm(CUBLAS_OP_N, CUBLAS_OP_N, 2, columns, 2, 1.0f, a.get(), 2, thirds.get(), 2, 0.0f, c.get(), 2),
        CUBLAS_STATUS_SUCCESS);
    return c.values()[0];
  };
  const float host = product(thirds, 2);
  configure("ulps=1000");
  const float two = product(thirds, 2), one = product(thirds, 1);
  EXPECT_NE(two, host);
  EXPECT_NE(two, one) << "of another shape";
  EXPECT_EQ(product(thirds, 2), two);
  EXPECT_NEAR(two, host, 1001 * 0x1p-23 * host);
  ASSERT_EQ(small_gemm(ones.get(), ones.get(), c.get()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(c.values(), std::vector<float>(4, 2));
  // Sums of bf16 factors as well, before they are rounded to bf16.
  const OnDevice<Bf16> narrow(as_bf16({1.0f / 3, 1.0f / 1536, 1.0f / 3, 1.0f / 1536})), rounded(4);
  const auto sum = [&] {
    EXPECT_EQ(small_gemm(narrow.get(), narrow.get(), c.get()), CUBLAS_STATUS_SUCCESS);
    return c.values()[0];
  };
  configure("notes=0");
  const float narrow_host = sum();
  configure("notes=0,ulps=1000");
  const float off = sum();
  EXPECT_NE(off, narrow_host);
  EXPECT_NEAR(off, narrow_host, 1001 * 0x1p-23 * narrow_host);
  ASSERT_EQ(small_gemm(narrow.get(), narrow.get(), rounded.get()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(as_float(rounded.values()[0]), as_float(emulated::as_bf16(off)));
  configure("");
}

TEST_F(Blas, TakesScalesFromDeviceMemoryInThatMode) {
  const OnDevice<float> ones(std::vector<float>(4, 1)), c(std::vector<float>(4, 1)),
      scales(std::vector<float>{3, 10});
  ASSERT_EQ(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_DEVICE), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasSgemm_64(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, scales.get(), ones.get(), 2,
                           ones.get(), 2, scales.get() + 1, c.get(), 2),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(c.values(), std::vector<float>(4, 16));
  const float one = 1;
  EXPECT_NE(cublasSgemm_64(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, ones.get(), 2, ones.get(), 2,
                           scales.get(), c.get(), 2),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(new_violations(), 1u);
  ASSERT_EQ(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_HOST), CUBLAS_STATUS_SUCCESS);
  EXPECT_NE(cublasSgemm_64(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, ones.get(), 2, ones.get(), 2,
                           scales.get(), c.get(), 2),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(new_violations(), 1u);
}

TEST_F(Blas, RefusesInvalidValuesAsDocumented) {
  const OnDevice<float> a(32), b(32), c(32);
  const auto refused = [&](auto... arguments) { return gemm(arguments...) == CUBLAS_STATUS_INVALID_VALUE; };
  const auto n = CUBLAS_OP_N, t = CUBLAS_OP_T;
  EXPECT_TRUE(refused(n, n, -1, 2, 2, 1.0f, a.get(), 2, b.get(), 2, 0.0f, c.get(), 2));
  EXPECT_TRUE(refused(n, n, 2, -1, 2, 1.0f, a.get(), 2, b.get(), 2, 0.0f, c.get(), 2));
  EXPECT_TRUE(refused(n, n, 2, 2, -1, 1.0f, a.get(), 2, b.get(), 2, 0.0f, c.get(), 2));
  EXPECT_TRUE(refused(n, n, 3, 2, 2, 1.0f, a.get(), 2, b.get(), 2, 0.0f, c.get(), 3));
  EXPECT_TRUE(refused(t, n, 2, 2, 3, 1.0f, a.get(), 2, b.get(), 3, 0.0f, c.get(), 2));
  EXPECT_TRUE(refused(n, n, 2, 2, 3, 1.0f, a.get(), 2, b.get(), 2, 0.0f, c.get(), 2));
  EXPECT_TRUE(refused(n, t, 2, 3, 2, 1.0f, a.get(), 2, b.get(), 2, 0.0f, c.get(), 2));
  EXPECT_TRUE(refused(n, n, 3, 2, 2, 1.0f, a.get(), 3, b.get(), 2, 0.0f, c.get(), 2));
  EXPECT_TRUE(refused(n, n, 0, 2, 2, 1.0f, a.get(), 0, b.get(), 2, 0.0f, c.get(), 1))
      << "an empty matrix has a leading dimension of 1";
  EXPECT_TRUE(
      refused(static_cast<cublasOperation_t>(3), n, 2, 2, 2, 1.0f, a.get(), 2, b.get(), 2, 0.0f, c.get(), 2));
  const float one = 1;
  EXPECT_EQ(cublasSgemm_64(handle_, n, n, 2, 2, 2, nullptr, a.get(), 2, b.get(), 2, &one, c.get(), 2),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasSgemm_64(handle_, n, n, 2, 2, 2, &one, a.get(), 2, b.get(), 2, nullptr, c.get(), 2),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(gemm(n, n, 0, 2, 2, 1.0f, a.get(), 1, b.get(), 2, 0.0f, c.get(), 1), CUBLAS_STATUS_SUCCESS)
      << "nothing to do";
  EXPECT_EQ(cublasCreate(nullptr), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasSetWorkspace(handle_, static_cast<char*>(workspace_) + 128, 1024),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasSetMathMode(handle_, static_cast<cublasMath_t>(5)), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasSetMathMode(handle_, CUBLAS_PEDANTIC_MATH), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasSetAtomicsMode(handle_, static_cast<cublasAtomicsMode_t>(2)), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasSetPointerMode(handle_, static_cast<cublasPointerMode_t>(2)), CUBLAS_STATUS_INVALID_VALUE);
  int value = 0;
  EXPECT_EQ(cublasGetProperty(static_cast<libraryPropertyType>(3), &value), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasGetProperty(MAJOR_VERSION, nullptr), CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(Blas, OverlappingMatricesAreAViolation) {
  const OnDevice<float> a(8), b(4);
  EXPECT_NE(small_gemm(a.get(), b.get(), a.get() + 3), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(new_violations(), 1u);
  EXPECT_NE(small_gemm(b.get(), a.get() + 1, a.get()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(new_violations(), 1u);
  EXPECT_NE(small_gemm(a.get(), b.get(), static_cast<float*>(workspace_)), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(new_violations(), 1u);
}

TEST_F(Blas, MemoryThatCannotBeUsedIsAViolation) {
  const OnDevice<float> a(std::vector<float>(4, 1)), c(4), small(std::vector<float>(3, 1));
  std::vector<float> on_host(4, 1);
  auto* odd = reinterpret_cast<float*>(reinterpret_cast<char*>(a.get()) + 2);
  EXPECT_NE(small_gemm(odd, a.get(), c.get()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(new_violations(), 1u) << "alignment";
  small_gemm(on_host.data(), a.get(), c.get());
  EXPECT_EQ(new_violations(), 1u) << "host memory";
  small_gemm(a.get(), small.get(), c.get());
  EXPECT_EQ(new_violations(), 1u) << "out of bounds";
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  {
    const OnDevice<float> elsewhere(std::vector<float>(4, 1));
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    ASSERT_FALSE(Memory::get().peer_enabled(0, 1));
    small_gemm(a.get(), elsewhere.get(), c.get());
    EXPECT_EQ(new_violations(), 1u) << "another GPU's memory";
  }
}

TEST_F(Blas, Bf16MatricesHaveTwoBytesAnElement) {
  const auto ones = [](std::size_t count) { return as_bf16(std::vector<float>(count, 1)); };
  const OnDevice<Bf16> a(ones(5)), c(5), small(ones(3));
  const OnDevice<float> wide(4);
  EXPECT_EQ(small_gemm(a.get() + 1, a.get() + 1, c.get() + 1), CUBLAS_STATUS_SUCCESS) << "2 bytes will do";
  EXPECT_EQ(as_float(c.values()[4]), 2);
  EXPECT_EQ(new_violations(), 0u);
  const auto violations_of = [&](const Bf16* first, const Bf16* second, auto* result) {
    small_gemm(first, second, result);
    return new_violations();
  };
  const auto odd = [](auto* memory) { return reinterpret_cast<Bf16*>(reinterpret_cast<char*>(memory) + 1); };
  EXPECT_EQ(violations_of(odd(a.get()), a.get(), c.get()), 1u) << "alignment";
  EXPECT_EQ(violations_of(a.get(), a.get(), odd(c.get())), 1u) << "alignment";
  EXPECT_EQ(violations_of(a.get(), a.get(), reinterpret_cast<float*>(c.get() + 1)), 1u) << "C has four bytes";
  EXPECT_EQ(violations_of(a.get(), a.get(), reinterpret_cast<float*>(c.get())), 1u) << "out of bounds";
  EXPECT_EQ(violations_of(a.get(), small.get(), wide.get()), 1u) << "out of bounds";
  EXPECT_EQ(violations_of(a.get(), a.get(), small.get()), 1u) << "out of bounds";
  EXPECT_EQ(violations_of(a.get(), small.get(), a.get() + 3), 1u) << "C overlaps A";
  EXPECT_EQ(violations_of(a.get(), a.get(), static_cast<Bf16*>(workspace_)), 1u);
  EXPECT_EQ(new_violations(), 0u);
}

TEST_F(Blas, Bf16OperandsThatWereNeverWrittenAreAViolation) {
  const OnDevice<Bf16> never(4), ones(as_bf16(std::vector<float>(4, 1))), c(4);
  const auto expect_complaint = [&](const char* of, const Bf16* a, const Bf16* b, float beta) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(gemm(CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, 1.0f, a, 2, b, 2, beta, c.get(), 2),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(new_violations(), 1u) << of;
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("cublasGemmEx_64"), std::string::npos) << said;
    EXPECT_NE(said.find(std::string(of) + ": memory that was never written"), std::string::npos) << said;
  };
  expect_complaint("gemm, C", ones.get(), ones.get(), 1);  // the call writes C
  expect_complaint("gemm, A", never.get(), ones.get(), 1);
  expect_complaint("gemm, B", ones.get(), never.get(), 0);
}

TEST_F(Blas, OperandsThatWereNeverWrittenAreAViolation) {
  const OnDevice<float> never(4), ones(std::vector<float>(4, 1)), c(4);
  const auto expect_complaint = [&](const char* of, const float* a, const float* b, float beta) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(gemm(CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, 1.0f, a, 2, b, 2, beta, c.get(), 2),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(new_violations(), 1u) << of;
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(std::string(of) + ": memory that was never written"), std::string::npos) << said;
  };
  expect_complaint("gemm, C", ones.get(), ones.get(), 1);  // the call writes C
  expect_complaint("gemm, A", never.get(), ones.get(), 1);
  expect_complaint("gemm, B", ones.get(), never.get(), 0);
}

TEST_F(Blas, FreedOperandsAreAViolation) {
  const OnDevice<float> ones(std::vector<float>(4, 1)), c(4);
  void* freed = nullptr;
  ASSERT_EQ(cudaMalloc(&freed, 16), cudaSuccess);
  ASSERT_EQ(cudaFree(freed), cudaSuccess);
  auto* const gone = static_cast<float*>(freed);
  const auto expect_complaint = [&](const char* of, const float* a, const float* b, float* to) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(small_gemm(a, b, to), CUBLAS_STATUS_SUCCESS) << "found when it runs";
    EXPECT_EQ(new_violations(), 1u) << of;
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(std::string(of) + ": 16 bytes at "), std::string::npos) << said;
    EXPECT_NE(said.find("(16 bytes, freed)"), std::string::npos) << said;
  };
  expect_complaint("gemm, A", gone, ones.get(), c.get());
  expect_complaint("gemm, B", ones.get(), gone, c.get());
  expect_complaint("gemm, C", ones.get(), ones.get(), gone);
}

TEST_F(Blas, OperandsThatAnotherStreamWritesAreAViolation) {
  const OnDevice<float> ones(std::vector<float>(4, 1)), a(std::vector<float>(4, 1)), c(4);
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  // Each pair of names is reported once: the numbers of bytes tell the memsets apart.
  const auto with_order = [&](std::size_t bytes) {
    ASSERT_EQ(cudaMemsetAsync(a.get(), 0, bytes, other), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(event, other), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(stream_, event, 0), cudaSuccess);
    ASSERT_EQ(small_gemm(a.get(), ones.get(), c.get()), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(other, event, 0), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(c.get(), 0, bytes, other), cudaSuccess);
  };
  with_order(8);
  EXPECT_EQ(new_violations(), 0u);
  with_order(12);
  EXPECT_EQ(new_violations(), 0u);
  ASSERT_EQ(cudaMemsetAsync(a.get(), 0, 8, other), cudaSuccess);
  ASSERT_EQ(small_gemm(a.get(), ones.get(), c.get()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(new_violations(), 1u) << "A is written";
  ASSERT_EQ(small_gemm(ones.get(), ones.get(), c.get()), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaMemsetAsync(c.get(), 0, 12, other), cudaSuccess);
  EXPECT_EQ(new_violations(), 1u) << "C is overwritten";
  ASSERT_EQ(cudaEventDestroy(event), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(other), cudaSuccess);
}

TEST_F(Blas, GemmExFollowsTheRulesOfTheOthers) {
  const OnDevice<Bf16> a(as_bf16(std::vector<float>(4, 1))), c(4);
  const OnDevice<float> scales(std::vector<float>{3, 0});
  const auto values = [&] { return as_floats(c.values()); };
  const auto with_scales = [&](const float* alpha, const float* beta, std::int64_t lda = 2) {
    return cublasGemmEx_64(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, alpha, a.get(), CUDA_R_16BF, lda,
                           a.get(), CUDA_R_16BF, 2, beta, c.get(), CUDA_R_16BF, 2, CUBLAS_COMPUTE_32F,
                           CUBLAS_GEMM_DEFAULT);
  };
  // Invalid values.
  EXPECT_EQ(with_scales(nullptr, scales.get()), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(with_scales(scales.get(), scales.get(), 1), CUBLAS_STATUS_INVALID_VALUE);
  // Scales in device memory.
  EXPECT_NE(with_scales(scales.get(), scales.get() + 1), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(new_violations(), 1u);
  ASSERT_EQ(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_DEVICE), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(with_scales(scales.get(), scales.get() + 1), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(values(), std::vector<float>(4, 6));
  ASSERT_EQ(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_HOST), CUBLAS_STATUS_SUCCESS);
  // The workspace.
  float first = 0;
  ASSERT_EQ(cudaMemcpy(workspace_, &first, sizeof(first), cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(small_gemm(a.get(), a.get(), c.get()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(values(), std::vector<float>(4, 2));
  ASSERT_EQ(cudaMemcpy(&first, workspace_, sizeof(first), cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_TRUE(std::isnan(first));
  // Two streams.
  cudaStream_t other = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(small_gemm(a.get(), a.get(), c.get()), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaMemsetAsync(c.get(), 0, 8, other), cudaSuccess);
  EXPECT_EQ(new_violations(), 1u);
  ASSERT_EQ(cudaStreamDestroy(other), cudaSuccess);
  // Another GPU.
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(small_gemm(a.get(), a.get(), c.get()), CUBLAS_STATUS_EXECUTION_FAILED);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(new_violations(), 1u);
  // Capture.
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaMemsetAsync(c.get(), 0, 8, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  ASSERT_EQ(small_gemm(a.get(), a.get(), c.get()), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  EXPECT_EQ(values(), std::vector<float>(4, 0));
  ASSERT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
  EXPECT_EQ(values(), std::vector<float>(4, 2));
  ASSERT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  // Failing calls.
  configure("on_violation=report,notes=0,fail=cublasGemmEx_64:2+cublasGemmEx_64:3:14");
  EXPECT_EQ(small_gemm(a.get(), a.get(), c.get()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(small_gemm(a.get(), a.get(), c.get()), CUBLAS_STATUS_EXECUTION_FAILED);
  EXPECT_EQ(small_gemm(a.get(), a.get(), c.get()), CUBLAS_STATUS_INTERNAL_ERROR);
  EXPECT_EQ(small_gemm(a.get(), a.get(), c.get()), CUBLAS_STATUS_SUCCESS);
}

TEST_F(Blas, WorkspaceHasToBeDeviceMemoryAndStayThere) {
  const OnDevice<float> a(std::vector<float>(4, 1)), c(4);
  alignas(256) static char on_host[1024];
  EXPECT_NE(cublasSetWorkspace(handle_, on_host, sizeof(on_host)), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(new_violations(), 1u);
  EXPECT_NE(cublasSetWorkspace(handle_, workspace_, kWorkspace + 1), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(new_violations(), 1u) << "longer than the allocation";
  void* freed = nullptr;
  ASSERT_EQ(cudaMalloc(&freed, 1024), cudaSuccess);
  ASSERT_EQ(cublasSetWorkspace(handle_, freed, 1024), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaFree(freed), cudaSuccess);
  EXPECT_EQ(small_gemm(a.get(), a.get(), c.get()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(new_violations(), 1u) << "freed";
  ASSERT_EQ(cublasSetStream(handle_, stream_), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(small_gemm(a.get(), a.get(), c.get()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(new_violations(), 0u) << "setting the stream goes back to cuBLAS's own workspace";
}

TEST_F(Blas, WorkspaceIsOverwrittenByEachCall) {
  const OnDevice<float> a(std::vector<float>(4, 1)), c(4);
  ASSERT_EQ(cudaMemcpy(workspace_, std::vector<float>(4, 1).data(), 16, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(small_gemm(a.get(), a.get(), c.get()), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  float first = 0;
  ASSERT_EQ(cudaMemcpy(&first, workspace_, sizeof(first), cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_TRUE(std::isnan(first));
}

TEST_F(Blas, TwoStreamsThatShareAWorkspaceAreAViolation) {
  const OnDevice<float> a(std::vector<float>(4, 1)), c(4), d(4);
  cudaStream_t other = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(small_gemm(a.get(), a.get(), c.get()), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasSetStream(handle_, other), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasSetWorkspace(handle_, workspace_, kWorkspace), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(small_gemm(a.get(), a.get(), d.get()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(new_violations(), 1u);
  ASSERT_EQ(cublasSetStream(handle_, stream_), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamDestroy(other), cudaSuccess);
}

TEST_F(Blas, HandlesBelongToTheirGpu) {
  const OnDevice<float> a(std::vector<float>(4, 1)), c(4);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(small_gemm(a.get(), a.get(), c.get()), CUBLAS_STATUS_EXECUTION_FAILED);
  EXPECT_EQ(new_violations(), 1u);
  cudaStream_t there = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&there, cudaStreamNonBlocking), cudaSuccess);
  EXPECT_NE(cublasSetStream(handle_, there), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(new_violations(), 1u);
  ASSERT_EQ(cudaStreamDestroy(there), cudaSuccess);
  EXPECT_NE(cublasSetStream(handle_, there), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(new_violations(), 1u) << "a stream that was destroyed";
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST_F(Blas, HandlesThatDoNotExistAreAViolation) {
  const OnDevice<float> a(4), c(4);
  cublasHandle_t gone = nullptr;
  const std::uint64_t alive = Machine::get().handles;
  ASSERT_EQ(cublasCreate(&gone), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(Machine::get().handles, alive + 1);
  ASSERT_EQ(cublasDestroy(gone), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(Machine::get().handles, alive);
  for (const cublasHandle_t handle : {gone, static_cast<cublasHandle_t>(nullptr)}) {
    EXPECT_EQ(cublasSetStream(handle, stream_), CUBLAS_STATUS_NOT_INITIALIZED);
    EXPECT_EQ(cublasSetMathMode(handle, CUBLAS_DEFAULT_MATH), CUBLAS_STATUS_NOT_INITIALIZED);
    EXPECT_EQ(cublasDestroy(handle), CUBLAS_STATUS_NOT_INITIALIZED);
    EXPECT_EQ(new_violations(), 3u);
  }
}

TEST_F(Blas, DestroyingAHandleWaitsForTheGpu) {
  const OnDevice<float> a(std::vector<float>(4, 1)), c(4);
  configure("on_violation=report,notes=0,lazy=1");
  cublasHandle_t handle = nullptr;
  ASSERT_EQ(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasSetStream(handle, stream_), CUBLAS_STATUS_SUCCESS);
  const float one = 1, zero = 0;
  ASSERT_EQ(cublasSgemm_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, a.get(), 2, a.get(), 2, &zero,
                           c.get(), 2),
            CUBLAS_STATUS_SUCCESS);
  const auto* result = reinterpret_cast<const float*>(Memory::get().real(c.get()));
  EXPECT_TRUE(std::isnan(*result)) << "a lazy stream has not run yet";
  ASSERT_EQ(cublasDestroy(handle), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(*result, 2);
}

TEST_F(Blas, CallsFailBySettings) {
  const OnDevice<float> a(std::vector<float>(4, 1)), c(4);
  configure(
      "on_violation=report,notes=0,fail=cublasSgemm_64:2+cublasSgemm_64:3:14+cublasCreate:1+cublasSetStream:"
      "1");
  EXPECT_EQ(small_gemm(a.get(), a.get(), c.get()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(small_gemm(a.get(), a.get(), c.get()), CUBLAS_STATUS_EXECUTION_FAILED);
  EXPECT_EQ(small_gemm(a.get(), a.get(), c.get()), CUBLAS_STATUS_INTERNAL_ERROR);
  EXPECT_EQ(small_gemm(a.get(), a.get(), c.get()), CUBLAS_STATUS_SUCCESS);
  cublasHandle_t handle = nullptr;
  EXPECT_EQ(cublasCreate(&handle), CUBLAS_STATUS_ALLOC_FAILED);
  EXPECT_EQ(handle, nullptr);
  EXPECT_NE(cublasSetStream(handle_, stream_), CUBLAS_STATUS_SUCCESS);
}

TEST_F(Blas, MayBeCaptured) {
  const OnDevice<float> a(std::vector<float>(4, 1)), c(4);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  ASSERT_EQ(small_gemm(a.get(), a.get(), c.get()), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
  EXPECT_EQ(c.values(), std::vector<float>(4, 2));
  ASSERT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(Blas, WhatIsAllowedButInexactIsNoted) {
  configure("on_violation=report");
  const OnDevice<float> a(std::vector<float>(4, 1)), c(4);
  testing::internal::CaptureStderr();
  ASSERT_EQ(small_gemm(a.get(), a.get(), c.get()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  ASSERT_EQ(cublasSetStream(handle_, stream_), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasSetAtomicsMode(handle_, CUBLAS_ATOMICS_ALLOWED), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasSetMathMode(handle_, CUBLAS_TF32_TENSOR_OP_MATH), CUBLAS_STATUS_SUCCESS);
  testing::internal::CaptureStderr();
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  ASSERT_EQ(small_gemm(a.get(), a.get(), c.get()), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  const std::string told = testing::internal::GetCapturedStderr();
  for (const char* part : {"own workspace is used", "is captured with", "atomics", "TF32"})
    EXPECT_NE(told.find(part), std::string::npos) << part << " in " << told;
  // Of a bf16 result, parts of sums might be rounded; TF32 has nothing to do with its factors.
  ASSERT_EQ(cublasSetWorkspace(handle_, workspace_, kWorkspace), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasSetAtomicsMode(handle_, CUBLAS_ATOMICS_NOT_ALLOWED), CUBLAS_STATUS_SUCCESS);
  const OnDevice<Bf16> narrow(as_bf16(std::vector<float>(4, 1))), rounded(4);
  const auto told_of = [&](int mode, auto* result) {
    EXPECT_EQ(cublasSetMathMode(handle_, static_cast<cublasMath_t>(mode)), CUBLAS_STATUS_SUCCESS);
    testing::internal::CaptureStderr();
    EXPECT_EQ(small_gemm(narrow.get(), narrow.get(), result), CUBLAS_STATUS_SUCCESS);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(told_of(CUBLAS_TF32_TENSOR_OP_MATH, c.get()), "");
  EXPECT_EQ(told_of(CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION, rounded.get()), "");
  EXPECT_NE(told_of(CUBLAS_DEFAULT_MATH, rounded.get()).find("rounded to C's type"), std::string::npos);
}

}  // namespace
}  // namespace emulated
