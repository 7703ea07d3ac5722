// Matrix product by cuBLAS. A row-major matrix is a column-major one transposed: C = op(A) op(B) is computed
// as C^T = op(B)^T op(A)^T, without copies.
//
// Factors are multiplied in bf16 where the device is to (Math::bf16), otherwise in their own type, bf16 in
// f32. Those of another type are converted in scratch memory.
#include "ops/cuda/gemm.hpp"

#include "ops/common/checks.hpp"
#include "ops/cuda/handles.hpp"
#include "ops/cuda/transpose.hpp"

namespace banyan::ops {

namespace {

struct Operands {
  cublasOperation_t first, second;
  std::int64_t rows, columns, depth, stride_first, stride_second, stride_result;
};

cublasStatus_t call(cublasHandle_t handle, const Operands& o, double alpha, const float* first,
                    const float* second, double beta, float* result) {
  const float scale = static_cast<float>(alpha), keep = static_cast<float>(beta);
  return cublasSgemm_64(handle, o.first, o.second, o.rows, o.columns, o.depth, &scale, first, o.stride_first,
                        second, o.stride_second, &keep, result, o.stride_result);
}

cublasStatus_t call(cublasHandle_t handle, const Operands& o, double alpha, const double* first,
                    const double* second, double beta, double* result) {
  return cublasDgemm_64(handle, o.first, o.second, o.rows, o.columns, o.depth, &alpha, first, o.stride_first,
                        second, o.stride_second, &beta, result, o.stride_result);
}

template <class Result>
cublasStatus_t call(cublasHandle_t handle, const Operands& o, double alpha, const BFloat16* first,
                    const BFloat16* second, double beta, Result* result) {
  constexpr cudaDataType_t kResult = std::is_same_v<Result, float> ? CUDA_R_32F : CUDA_R_16BF;
  const float scale = static_cast<float>(alpha), keep = static_cast<float>(beta);
  return cublasGemmEx_64(handle, o.first, o.second, o.rows, o.columns, o.depth, &scale, first, CUDA_R_16BF,
                         o.stride_first, second, CUDA_R_16BF, o.stride_second, &keep, result, kResult,
                         o.stride_result, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

}  // namespace

template <class Factor, class Result>
void gemm_on_memory(Context& context, const GemmShape& shape, double alpha, MatrixInMemory<const Factor> a,
                    MatrixInMemory<const Factor> b, double beta, MatrixInMemory<Result> c) {
  const Operands operands{shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                          shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                          shape.n,
                          shape.m,
                          shape.k,
                          b.stride,
                          a.stride,
                          c.stride};
  cublas_check(call(cuda_handles(context).cublas(), operands, alpha, b.data, a.data, beta, c.data),
               "the matrix product (cublas gemm)", context.device());
}
template void gemm_on_memory(Context&, const GemmShape&, double, MatrixInMemory<const float>,
                             MatrixInMemory<const float>, double, MatrixInMemory<float>);
template void gemm_on_memory(Context&, const GemmShape&, double, MatrixInMemory<const double>,
                             MatrixInMemory<const double>, double, MatrixInMemory<double>);
template void gemm_on_memory(Context&, const GemmShape&, double, MatrixInMemory<const BFloat16>,
                             MatrixInMemory<const BFloat16>, double, MatrixInMemory<BFloat16>);
template void gemm_on_memory(Context&, const GemmShape&, double, MatrixInMemory<const BFloat16>,
                             MatrixInMemory<const BFloat16>, double, MatrixInMemory<float>);

namespace {

/// A matrix in the type that it is multiplied or computed in: its own memory, or a copy in scratch memory.
struct Staged {
  const Tensor& tensor;
  DType type;
  void* memory = nullptr;

  std::size_t scratch_bytes() const {
    constexpr std::size_t kAlignment = 256;
    if (tensor.dtype() == type) return 0;
    const auto bytes = static_cast<std::size_t>(tensor.count()) * size_of(type);
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  /// Takes what it needs from `scratch` and returns the rest.
  char* place(char* scratch) {
    memory = tensor.dtype() == type ? const_cast<void*>(tensor.raw()) : scratch;
    return scratch + scratch_bytes();
  }
  void read(Context& context) const {
    if (scratch_bytes() > 0)
      move_on_cuda(context, tensor.dtype(), tensor.raw(), type, memory, tensor.count(), false);
  }
};

void gemm_on_cuda(Context& context, const GemmShape& shape, double alpha, const Tensor& a, const Tensor& b,
                  double beta, Tensor& c) {
  require_count("gemm, A", a, shape.m * shape.k);
  require_count("gemm, B", b, shape.k * shape.n);
  require_count("gemm, C", c, shape.m * shape.n);
  if (c.count() == 0) return;
  if (shape.k == 0) {  // an empty sum; cuBLAS requires strides that an empty matrix does not have
    if (beta == 0)
      context.stream().zero(c.raw(), c.bytes());
    else if (beta != 1)
      axpby(context, beta, c, 0, c);
    return;
  }
  const std::int64_t stride_a = shape.transpose_a ? shape.m : shape.k;
  const std::int64_t stride_b = shape.transpose_b ? shape.k : shape.n;
  if (c.dtype() == DType::f64) {
    gemm_on_memory<double, double>(context, shape, alpha, {a.data<double>(), stride_a},
                                   {b.data<double>(), stride_b}, beta, {c.data<double>(), shape.n});
    return;
  }
  for (const Tensor* tensor : {&a, &b, static_cast<const Tensor*>(&c)})
    if (tensor->dtype() != DType::f32 && tensor->dtype() != DType::bf16)
      runtime_failure("gemm: A is ", name_of(a.dtype()), ", B ", name_of(b.dtype()), ", C ",
                      name_of(c.dtype()), "; each must be f32 or bf16, or all f64");
  const bool narrow = context.device().math() == Math::bf16;
  const DType factors = narrow ? DType::bf16 : DType::f32;
  Staged first{a, factors}, second{b, factors}, result{c, narrow ? c.dtype() : DType::f32};
  const std::size_t bytes = first.scratch_bytes() + second.scratch_bytes() + result.scratch_bytes();
  result.place(second.place(first.place(bytes > 0 ? static_cast<char*>(context.workspace(bytes)) : nullptr)));
  first.read(context);
  second.read(context);
  if (beta != 0) result.read(context);
  const auto multiply = [&]<class Factor, class Result>() {
    gemm_on_memory<Factor, Result>(context, shape, alpha,
                                   {static_cast<const Factor*>(first.memory), stride_a},
                                   {static_cast<const Factor*>(second.memory), stride_b}, beta,
                                   {static_cast<Result*>(result.memory), shape.n});
  };
  if (!narrow)
    multiply.operator()<float, float>();
  else if (result.type == DType::bf16)
    multiply.operator()<BFloat16, BFloat16>();
  else
    multiply.operator()<BFloat16, float>();
  if (result.scratch_bytes() > 0)
    move_on_cuda(context, result.type, result.memory, c.dtype(), c.raw(), c.count(), false);
}

const Define define_gemm(gemm, DeviceKind::cuda, &gemm_on_cuda);

}  // namespace

}  // namespace banyan::ops
