#include "ops/cuda/transpose.cuh"
#include "ops/cuda/transpose.hpp"

namespace banyan::ops {

namespace {

template <class T>
void transpose_typed(Context& context, const void* from, void* to, std::int64_t batch, std::int64_t rows,
                     std::int64_t columns, bool add) {
  const T* source = static_cast<const T*>(from);
  T* target = static_cast<T*>(to);
  if (add)
    launch_transpose<T, T, true>(context, source, target, batch, rows, columns);
  else
    launch_transpose<T, T, false>(context, source, target, batch, rows, columns);
}

template <class T>
struct AddTo {
  const T* from;
  T* to;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const { to[i] += from[i]; }
};

}  // namespace

void transpose_on_cuda(Context& context, DType dtype, const void* from, void* to, std::int64_t batch,
                       std::int64_t rows, std::int64_t columns, bool add) {
  if (dtype == DType::f32)
    transpose_typed<float>(context, from, to, batch, rows, columns, add);
  else if (dtype == DType::f64)
    transpose_typed<double>(context, from, to, batch, rows, columns, add);
  else
    runtime_failure("transposition does not support ", name_of(dtype), " tensors (f32 and f64 only)");
}

void add_on_cuda(Context& context, DType dtype, const void* from, void* to, std::int64_t count) {
  if (dtype == DType::f32)
    CudaBackend::for_each(context, count,
                          AddTo<float>{static_cast<const float*>(from), static_cast<float*>(to)});
  else if (dtype == DType::f64)
    CudaBackend::for_each(context, count,
                          AddTo<double>{static_cast<const double*>(from), static_cast<double*>(to)});
  else
    runtime_failure("addition does not support ", name_of(dtype), " tensors (f32 and f64 only)");
}

}  // namespace banyan::ops
