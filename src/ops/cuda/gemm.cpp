// Matrix product by cuBLAS. A row-major matrix is a column-major one transposed: C = op(A) op(B) is computed
// as C^T = op(B)^T op(A)^T, without copies.
#include "ops/cuda/gemm.hpp"

#include "ops/common/checks.hpp"
#include "ops/cuda/handles.hpp"

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

}  // namespace

template <class T>
void gemm_on_memory(Context& context, const GemmShape& shape, double alpha, MatrixInMemory<const T> a,
                    MatrixInMemory<const T> b, double beta, MatrixInMemory<T> c) {
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

namespace {

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
  dispatch_float(c.dtype(), "gemm", [&]<class T>() {
    gemm_on_memory<T>(context, shape, alpha, {a.data<T>(), shape.transpose_a ? shape.m : shape.k},
                      {b.data<T>(), shape.transpose_b ? shape.k : shape.n}, beta, {c.data<T>(), shape.n});
  });
}

const Define define_gemm(gemm, DeviceKind::cuda, &gemm_on_cuda);

}  // namespace

}  // namespace banyan::ops
