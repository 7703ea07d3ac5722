// The cuBLAS functions that Banyan calls. Statuses that cuBLAS documents are returned as such; what it leaves
// undefined is a violation.
#include <cublas_v2.h>

#include "blas_product.hpp"
#include "blas_registry.hpp"
#include "rounding.hpp"

namespace emulated {

namespace {

struct BlasHandle {
  int device = 0;
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;  ///< null: cuBLAS's own
  std::size_t workspace_bytes = 0;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasAtomicsMode_t atomics = CUBLAS_ATOMICS_NOT_ALLOWED;
};

Registry<BlasHandle>& blas_handles() {
  static auto* const kHandles = new Registry<BlasHandle>("cuBLAS handle");
  return *kHandles;
}

/// Start of every call with a handle. Null: return `status`.
std::shared_ptr<BlasHandle> begin(cublasHandle_t handle, const char* function, cublasStatus_t failure,
                                  cublasStatus_t* status) {
  std::shared_ptr<BlasHandle> blas = blas_handles().find(handle, function);
  int code = 0;
  if (fails(function, blas == nullptr ? current_device : blas->device, &code)) {
    *status = code != 0 ? static_cast<cublasStatus_t>(code) : failure;
    return nullptr;
  }
  *status = CUBLAS_STATUS_NOT_INITIALIZED;
  return blas;
}

/// As BLAS sees it: `columns` columns of `rows` elements, `stride` elements apart.
template <class T>
struct Matrix {
  T* data;
  std::int64_t rows, columns, stride;
  /// From the first element to the last.
  std::size_t bytes() const {
    return rows == 0 || columns == 0 ? 0
                                     : static_cast<std::size_t>((columns - 1) * stride + rows) * sizeof(T);
  }
};

/// The process's address of a matrix after `use` has allowed each of its contiguous pieces (memory between
/// columns is not used).
template <class T, class Use>
T* address_of(const Matrix<T>& matrix, Use&& use) {
  if (matrix.rows == matrix.stride || matrix.columns == 1)
    return reinterpret_cast<T*>(use(matrix.data, matrix.bytes()));
  T* first = nullptr;
  for (std::int64_t column = 0; column < matrix.columns; ++column) {
    T* at = reinterpret_cast<T*>(
        use(matrix.data + column * matrix.stride, static_cast<std::size_t>(matrix.rows) * sizeof(T)));
    if (at == nullptr) return nullptr;
    if (column == 0) first = at;
  }
  return first;
}
template <class T>
const T* read(Running& r, const Matrix<const T>& matrix, const char* what) {
  return address_of(matrix, [&](const T* data, std::size_t bytes) { return r.read(data, bytes, what); });
}
template <class T>
T* write(Running& r, const Matrix<T>& matrix, const char* what) {
  return address_of(matrix, [&](T* data, std::size_t bytes) { return r.write(data, bytes, what); });
}

/// The arguments of one gemm call: factors of type T, a result of type R.
template <class T, class R = T>
struct Gemm {
  const char* function;
  cublasOperation_t of_a, of_b;
  std::int64_t m, n, k;
  const Sum<T>* alpha;
  const Sum<T>* beta;
  Matrix<const T> a, b;
  Matrix<R> c;
  Sum<T> host_alpha = 0, host_beta = 0;  ///< if they are in host memory
  bool tf32 = false;                     ///< for f32: factors are rounded
};

bool is_operation(cublasOperation_t operation) {
  return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T || operation == CUBLAS_OP_C;
}

/// What cuBLAS documents as invalid values.
template <class T, class R>
bool is_valid(const Gemm<T, R>& g) {
  const auto at_least = [](std::int64_t stride, std::int64_t rows) {
    return stride >= std::max<std::int64_t>(1, rows);
  };
  return is_operation(g.of_a) && is_operation(g.of_b) && g.m >= 0 && g.n >= 0 && g.k >= 0 &&
         at_least(g.a.stride, g.a.rows) && at_least(g.b.stride, g.b.rows) && at_least(g.c.stride, g.c.rows) &&
         g.alpha != nullptr && g.beta != nullptr;
}

/// Checks where alpha and beta are, by the pointer mode.
template <class T, class R>
bool scales_are_allowed(const BlasHandle& blas, const Gemm<T, R>& g) {
  const bool on_device = blas.pointer_mode == CUBLAS_POINTER_MODE_DEVICE;
  for (const Sum<T>* scale : {g.alpha, g.beta}) {
    if (is_device_address(scale) == on_device) continue;
    if (on_device && Memory::get().is_pinned(scale, sizeof(*scale))) continue;
    complain(g.function, ": alpha or beta is in the ", on_device ? "host's" : "device's",
             " memory, the handle's pointer mode says otherwise");
    return false;
  }
  return true;
}

template <class T, class R>
bool memory_is_allowed(const BlasHandle& blas, const Gemm<T, R>& g) {
  const auto is_aligned = [&](const auto* matrix) {
    if (reinterpret_cast<std::uintptr_t>(matrix) % sizeof(*matrix) == 0) return true;
    complain(g.function, ": a matrix is not aligned to its elements: ", Memory::get().describe(matrix));
    return false;
  };
  if (!is_aligned(g.a.data) || !is_aligned(g.b.data) || !is_aligned(g.c.data)) return false;
  if (overlap(g.c.data, g.c.bytes(), g.a.data, g.a.bytes()) ||
      overlap(g.c.data, g.c.bytes(), g.b.data, g.b.bytes())) {
    complain(g.function, ": C overlaps A or B");
    return false;
  }
  const auto in_workspace = [&](const void* data, std::size_t bytes) {
    return overlap(data, bytes, blas.workspace, blas.workspace_bytes);
  };
  if (in_workspace(g.a.data, g.a.bytes()) || in_workspace(g.b.data, g.b.bytes()) ||
      in_workspace(g.c.data, g.c.bytes())) {
    complain(g.function, ": a matrix lies in the handle's workspace");
    return false;
  }
  return true;
}

/// The handle's stream if the call may be made now, or null after a complaint.
Stream* stream_for(const BlasHandle& blas, const char* function) {
  if (blas.device != current_device) {
    complain(function, ": a cuBLAS handle of gpu:", blas.device, " while gpu:", current_device,
             " is current");
    return nullptr;
  }
  Stream* stream = stream_of(blas.stream, function);
  if (stream == nullptr || stream->device == blas.device) return stream;
  complain(function, ": a cuBLAS handle of gpu:", blas.device, " with a stream of gpu:", stream->device);
  return nullptr;
}

bool allows_tf32(const BlasHandle& blas) {
  const int mode = blas.math & 15;
  return has_tf32() && (mode == CUBLAS_TENSOR_OP_MATH || mode == CUBLAS_TF32_TENSOR_OP_MATH);
}

/// What is allowed, but changes results between runs or rounds more than the types suggest.
template <class T, class R>
void note_what_is_inexact(const BlasHandle& blas, Stream& stream, const char* function) {
  const std::string name = function;
  if (blas.workspace == nullptr) {
    note(name +
         ": cuBLAS's own workspace is used (cublasSetStream goes back to it): with several streams results "
         "may not be reproducible");
    const Quiet quiet;
    const std::lock_guard<std::mutex> lock(Machine::get().mutex);
    if (stream.capture != nullptr)
      note(name + " is captured with cuBLAS's own workspace, which the graph then keeps");
  }
  if (blas.atomics == CUBLAS_ATOMICS_ALLOWED)
    note(name + ": atomics are allowed: results may not be reproducible");
  if (std::is_same_v<T, float> && allows_tf32(blas)) note(name + ": the math mode allows TF32");
  if (sizeof(R) < sizeof(Sum<T>) && (blas.math & CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) == 0)
    note(name + ": the math mode allows sums that are rounded to C's type before they are complete");
}

/// convert(element) for each of a matrix, to places with the same strides.
template <class From, class To, class Convert>
void convert_all(const Matrix<const From>& matrix, const From* from, To* to, Convert&& convert) {
  for (std::int64_t column = 0; column < matrix.columns; ++column) {
    const From* first = from + column * matrix.stride;
    std::transform(first, first + matrix.rows, to + column * matrix.stride, convert);
  }
}

/// A factor as it is multiplied: a converted copy, or the matrix itself.
template <class T>
const Sum<T>* as_factor(const Matrix<const T>& matrix, const T* real, bool tf32, std::vector<Sum<T>>* copy) {
  const auto copy_with = [&](auto convert) {
    copy->resize(matrix.bytes() / sizeof(T));
    convert_all(matrix, real, copy->data(), convert);
    return copy->data();
  };
  if constexpr (std::is_same_v<T, Bf16>) {
    return copy_with(as_float);
  } else {
    if constexpr (std::is_same_v<T, float>)
      if (tf32) return copy_with(as_tf32);
    return real;
  }
}

template <class T, class R>
void run_gemm(Running& r, const Gemm<T, R>& g, void* workspace, std::size_t workspace_bytes,
              bool scales_on_device) {
  Sum<T> alpha = g.host_alpha, beta = g.host_beta;
  if (scales_on_device) {
    const char *alpha_at = r.read(g.alpha, sizeof(alpha), "gemm, alpha"),
               *beta_at = r.read(g.beta, sizeof(beta), "gemm, beta");
    if (alpha_at == nullptr || beta_at == nullptr) return;
    std::memcpy(&alpha, alpha_at, sizeof(alpha));
    std::memcpy(&beta, beta_at, sizeof(beta));
  }
  if (workspace_bytes > 0) {
    char* real = r.write(workspace, workspace_bytes, "gemm, the handle's workspace");
    if (real == nullptr) return;
    fill_with_garbage(real, workspace_bytes);
  }
  const bool multiplies = alpha != 0 && g.k > 0;
  const Sum<T>* a = nullptr;
  const Sum<T>* b = nullptr;
  std::vector<Sum<T>> copy_of_a, copy_of_b;
  if (multiplies) {
    const T *real_a = read(r, g.a, "gemm, A"), *real_b = read(r, g.b, "gemm, B");
    if (real_a == nullptr || real_b == nullptr) return;
    a = as_factor(g.a, real_a, g.tf32, &copy_of_a);
    b = as_factor(g.b, real_b, g.tf32, &copy_of_b);
  }
  const Matrix<const R> old_c{g.c.data, g.c.rows, g.c.columns, g.c.stride};
  if (beta != 0 && read(r, old_c, "gemm, C") == nullptr) return;
  R* const real_c = write(r, g.c, "gemm, C");
  if (real_c == nullptr) return;
  const Quiet quiet;
  // C while it is computed: not rounded yet.
  std::vector<Sum<T>> wide_c;
  Sum<T>* c = nullptr;
  if constexpr (std::is_same_v<R, Sum<T>>) {
    c = real_c;
  } else {
    wide_c.resize(g.c.bytes() / sizeof(R));
    c = wide_c.data();
    if (beta != 0) convert_all(old_c, real_c, c, as_float);
  }
  const auto transposed = [](cublasOperation_t operation) {
    return operation == CUBLAS_OP_N ? CblasNoTrans : CblasTrans;
  };
  multiply({CblasColMajor, transposed(g.of_a), transposed(g.of_b), g.m, g.n, multiplies ? g.k : 0, g.a.stride,
            g.b.stride, g.c.stride},
           alpha, a, b, beta, c);
  // cuBLAS chooses by sizes and by how many bytes it may read at once.
  const auto aligned = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16; };
  const Way way(g.of_a, g.of_b, g.m, g.n, g.k, aligned(g.a.data), aligned(g.b.data), aligned(g.c.data));
  for (std::int64_t column = 0; column < g.n; ++column)
    round_otherwise(c + column * g.c.stride, static_cast<std::size_t>(g.m), way);
  if constexpr (!std::is_same_v<R, Sum<T>>)
    convert_all(Matrix<const Sum<T>>{c, g.c.rows, g.c.columns, g.c.stride}, c, real_c, as_bf16);
  count("cublas calls");
  count("cublas flops", static_cast<std::uint64_t>(2 * g.m * g.n * (multiplies ? g.k : 0)));
  count("cublas bytes", (multiplies ? g.a.bytes() + g.b.bytes() : 0) + g.c.bytes() * (beta != 0 ? 2 : 1));
}

template <class T, class R>
cublasStatus_t enqueue_gemm(const BlasHandle& blas, Gemm<T, R> g) {
  if (!is_valid(g)) return CUBLAS_STATUS_INVALID_VALUE;
  Stream* stream = stream_for(blas, g.function);
  if (stream == nullptr) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (g.m == 0 || g.n == 0) return CUBLAS_STATUS_SUCCESS;
  if (!scales_are_allowed(blas, g) || !memory_is_allowed(blas, g)) return CUBLAS_STATUS_INVALID_VALUE;
  for (const std::int64_t length : {g.m, g.n, g.k, g.a.stride, g.b.stride, g.c.stride})
    if (!fits_blas(length)) {
      complain(g.function, ": the emulator does not multiply matrices with a side of ", length);
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
  note_what_is_inexact<T, R>(blas, *stream, g.function);
  const bool on_device = blas.pointer_mode == CUBLAS_POINTER_MODE_DEVICE;
  if (!on_device) {
    g.host_alpha = *g.alpha;
    g.host_beta = *g.beta;
  }
  g.tf32 = allows_tf32(blas);
  enqueue(*stream, g.function,
          [g, on_device, workspace = blas.workspace, bytes = blas.workspace_bytes](Running& r) {
            run_gemm(r, g, workspace, bytes, on_device);
          });
  return CUBLAS_STATUS_SUCCESS;
}

template <class T, class R>
Gemm<T, R> gemm_call(const char* function, cublasOperation_t of_a, cublasOperation_t of_b, std::int64_t m,
                     std::int64_t n, std::int64_t k, const Sum<T>* alpha, const T* a, std::int64_t lda,
                     const T* b, std::int64_t ldb, const Sum<T>* beta, R* c, std::int64_t ldc) {
  const bool a_as_is = of_a == CUBLAS_OP_N, b_as_is = of_b == CUBLAS_OP_N;
  return {function,
          of_a,
          of_b,
          m,
          n,
          k,
          alpha,
          beta,
          {a, a_as_is ? m : k, a_as_is ? k : m, lda},
          {b, b_as_is ? k : n, b_as_is ? n : k, ldb},
          {c, m, n, ldc}};
}

template <class T>
cublasStatus_t gemm(cublasHandle_t handle, const Gemm<T>& g) {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const std::shared_ptr<BlasHandle> blas = begin(handle, g.function, CUBLAS_STATUS_EXECUTION_FAILED, &status);
  return blas == nullptr ? status : enqueue_gemm(*blas, g);
}

/// The real types in cublasGemmEx's table: of A and B, and of C.
bool has_gemm(cudaDataType factors, cudaDataType result, cublasComputeType_t compute) {
  switch (compute) {
    case CUBLAS_COMPUTE_16F:
      return factors == CUDA_R_16F && result == CUDA_R_16F;
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
      if (result == CUDA_R_32F && factors == CUDA_R_8I) return true;
      return (factors == CUDA_R_16F || factors == CUDA_R_16BF || factors == CUDA_R_32F) &&
             (result == factors || result == CUDA_R_32F);
    case CUBLAS_COMPUTE_64F:
      return factors == CUDA_R_64F && result == CUDA_R_64F;
    case CUBLAS_COMPUTE_32I:
      return factors == CUDA_R_8I && result == CUDA_R_32I;
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return factors == CUDA_R_32F && result == CUDA_R_32F;
  }
  return false;
}

}  // namespace

}  // namespace emulated

using namespace emulated;

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  int code = 0;
  if (fails("cublasCreate", current_device, &code))
    return code != 0 ? static_cast<cublasStatus_t>(code) : CUBLAS_STATUS_ALLOC_FAILED;
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (settings().gpus == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (capture_forbids("cublasCreate")) return CUBLAS_STATUS_ALLOC_FAILED;
  auto blas = std::make_shared<BlasHandle>();
  blas->device = current_device;
  *handle = blas_handles().add<cublasHandle_t>(std::move(blas));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  const std::shared_ptr<BlasHandle> blas = blas_handles().remove(handle, "cublasDestroy");
  if (blas == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  int code = 0;
  if (fails("cublasDestroy", blas->device, &code))
    return code != 0 ? static_cast<cublasStatus_t>(code) : CUBLAS_STATUS_INTERNAL_ERROR;
  wait_before_destroying("cublasDestroy", blas->device);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const auto blas = begin(handle, "cublasSetStream", CUBLAS_STATUS_INTERNAL_ERROR, &status);
  if (blas == nullptr) return status;
  if (stream != nullptr) {
    const Stream* of = stream_of(stream, "cublasSetStream");
    if (of == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    if (of->device != blas->device) {
      complain("cublasSetStream: a cuBLAS handle of gpu:", blas->device, " and a stream of gpu:", of->device);
      return CUBLAS_STATUS_INVALID_VALUE;
    }
  }
  blas->stream = stream;
  blas->workspace = nullptr;
  blas->workspace_bytes = 0;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, std::size_t bytes) {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const auto blas = begin(handle, "cublasSetWorkspace", CUBLAS_STATUS_INTERNAL_ERROR, &status);
  if (blas == nullptr) return status;
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (workspace != nullptr) {
    const std::string why = is_device_address(workspace)
                                ? Memory::get().why_not(workspace, bytes, blas->device)
                                : "no device memory";
    if (!why.empty()) {
      complain("cublasSetWorkspace: ", bytes, " bytes at ", Memory::get().describe(workspace), ": ", why);
      return CUBLAS_STATUS_INVALID_VALUE;
    }
  }
  blas->workspace = workspace;
  blas->workspace_bytes = workspace == nullptr ? 0 : bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const auto blas = begin(handle, "cublasSetPointerMode", CUBLAS_STATUS_INTERNAL_ERROR, &status);
  if (blas == nullptr) return status;
  if (mode != CUBLAS_POINTER_MODE_HOST && mode != CUBLAS_POINTER_MODE_DEVICE)
    return CUBLAS_STATUS_INVALID_VALUE;
  blas->pointer_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const auto blas = begin(handle, "cublasSetAtomicsMode", CUBLAS_STATUS_INTERNAL_ERROR, &status);
  if (blas == nullptr) return status;
  if (mode != CUBLAS_ATOMICS_NOT_ALLOWED && mode != CUBLAS_ATOMICS_ALLOWED)
    return CUBLAS_STATUS_INVALID_VALUE;
  blas->atomics = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const auto blas = begin(handle, "cublasSetMathMode", CUBLAS_STATUS_INTERNAL_ERROR, &status);
  if (blas == nullptr) return status;
  const int without_flag = mode & ~CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
  if (without_flag < CUBLAS_DEFAULT_MATH || without_flag > CUBLAS_TF32_TENSOR_OP_MATH)
    return CUBLAS_STATUS_INVALID_VALUE;
  blas->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  constexpr int kVersion[] = {CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH};
  if (int code = 0; fails("cublasGetProperty", current_device, &code))
    return code != 0 ? static_cast<cublasStatus_t>(code) : CUBLAS_STATUS_INTERNAL_ERROR;
  if (value == nullptr || type < MAJOR_VERSION || type > PATCH_LEVEL) return CUBLAS_STATUS_INVALID_VALUE;
  *value = kVersion[type];
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized (CUBLAS_STATUS_NOT_INITIALIZED)";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "an allocation failed (CUBLAS_STATUS_ALLOC_FAILED)";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an argument has no valid value (CUBLAS_STATUS_INVALID_VALUE)";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "the GPU lacks a feature (CUBLAS_STATUS_ARCH_MISMATCH)";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "GPU memory could not be accessed (CUBLAS_STATUS_MAPPING_ERROR)";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "the GPU could not run it (CUBLAS_STATUS_EXECUTION_FAILED)";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "an internal operation failed (CUBLAS_STATUS_INTERNAL_ERROR)";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "not supported (CUBLAS_STATUS_NOT_SUPPORTED)";
    case CUBLAS_STATUS_LICENSE_ERROR:
      return "the license check failed (CUBLAS_STATUS_LICENSE_ERROR)";
  }
  return "unrecognized status";
}

cublasStatus_t cublasSgemm_v2_64(cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b,
                                 std::int64_t m, std::int64_t n, std::int64_t k, const float* alpha,
                                 const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
                                 const float* beta, float* c, std::int64_t ldc) {
  return gemm(handle, gemm_call("cublasSgemm_64", of_a, of_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc));
}

cublasStatus_t cublasDgemm_v2_64(cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b,
                                 std::int64_t m, std::int64_t n, std::int64_t k, const double* alpha,
                                 const double* a, std::int64_t lda, const double* b, std::int64_t ldb,
                                 const double* beta, double* c, std::int64_t ldc) {
  return gemm(handle, gemm_call("cublasDgemm_64", of_a, of_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc));
}

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b,
                               std::int64_t m, std::int64_t n, std::int64_t k, const void* alpha,
                               const void* a, cudaDataType a_type, std::int64_t lda, const void* b,
                               cudaDataType b_type, std::int64_t ldb, const void* beta, void* c,
                               cudaDataType c_type, std::int64_t ldc, cublasComputeType_t compute,
                               cublasGemmAlgo_t algorithm) {
  constexpr const char* kName = "cublasGemmEx_64";
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const auto blas = begin(handle, kName, CUBLAS_STATUS_EXECUTION_FAILED, &status);
  if (blas == nullptr) return status;
  if (a_type != b_type || !has_gemm(a_type, c_type, compute)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool known = a_type == CUDA_R_32F || a_type == CUDA_R_16BF;
  if (!known || compute != CUBLAS_COMPUTE_32F || algorithm != CUBLAS_GEMM_DEFAULT) {
    complain(kName, ": the emulator does not multiply data type ", a_type, " in compute type ", compute,
             " by algorithm ", algorithm);
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const auto with_types = [&]<class T, class R>(const T* first, const T* second, R* result) {
    return enqueue_gemm(*blas, gemm_call(kName, of_a, of_b, m, n, k, static_cast<const float*>(alpha), first,
                                         lda, second, ldb, static_cast<const float*>(beta), result, ldc));
  };
  if (a_type == CUDA_R_32F)
    return with_types(static_cast<const float*>(a), static_cast<const float*>(b), static_cast<float*>(c));
  // Status as reported from such GPUs; some of them do multiply, slowly.
  if (!has_bf16()) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto *first = static_cast<const Bf16*>(a), *second = static_cast<const Bf16*>(b);
  if (c_type == CUDA_R_32F) return with_types(first, second, static_cast<float*>(c));
  return with_types(first, second, static_cast<Bf16*>(c));
}

}  // extern "C"
