#include <algorithm>
#include <cmath>

#include "ops/common/loss.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

constexpr int kRowThreads = 128;  ///< a power of two

/// Like detail::SoftmaxForward; a block per position.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    softmax_kernel(std::int64_t positions, detail::SoftmaxForward<T> f) {
  BANYAN_SHARED_ARRAY(double, of_threads, kRowThreads);
  const int thread = static_cast<int>(threadIdx.x);
  const auto merged = [&](double mine, const auto& merge) {
    of_threads[thread] = mine;
    __syncthreads();
    for (int half = kRowThreads / 2; half > 0; half /= 2) {
      if (thread < half) of_threads[thread] = merge(of_threads[thread], of_threads[thread + half]);
      __syncthreads();
    }
    const double all = of_threads[0];
    __syncthreads();
    return all;
  };
  const std::int64_t step = kRowThreads * f.over.inner;
  for (std::int64_t position = blockIdx.x; position < positions; position += gridDim.x) {
    const std::int64_t begin = detail::first_class(f.over, position),
                       end = begin + f.over.channels * f.over.inner;
    const std::int64_t first = begin + thread * f.over.inner;
    T mine = f.x[begin];
    for (std::int64_t i = first; i < end; i += step) mine = f.x[i] > mine ? f.x[i] : mine;
    const T most =
        static_cast<T>(merged(static_cast<double>(mine), [](double a, double b) { return b > a ? b : a; }));
    double sum = 0;
    for (std::int64_t i = first; i < end; i += step) {
      f.y[i] = std::exp(f.x[i] - most);
      sum += static_cast<double>(f.y[i]);
    }
    const T scale = static_cast<T>(1 / merged(sum, [](double a, double b) { return a + b; }));
    for (std::int64_t i = first; i < end; i += step) f.y[i] *= scale;
  }
}

/// A thread per position where there are few classes, or where neighbouring threads read neighbours that way.
void softmax_forward_on_cuda(Context& context, const Tensor& x, const Channels& over, Tensor& y) {
  constexpr std::int64_t kManyClasses = 64;
  if (over.channels < kManyClasses || over.inner > 1) {
    softmax_forward_on<CudaBackend>(context, x, over, y);
    return;
  }
  require_count("softmax_forward", x, over.outer * over.channels * over.inner);
  require_alike("softmax_forward", x, y);
  const std::int64_t positions = over.outer * over.inner;
  if (positions == 0) return;
  dispatch_float(x.dtype(), "softmax_forward", [&]<class T>() {
    const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(positions, 1 << 16));
    CudaBackend::launch_checked(context, "launch of a softmax", softmax_kernel<T>, blocks, kRowThreads,
                                positions, detail::SoftmaxForward<T>{over, x.data<T>(), y.data<T>()});
  });
}

const Define define_softmax_forward(softmax_forward, DeviceKind::cuda, &softmax_forward_on_cuda);
const Define define_softmax_backward(softmax_backward, DeviceKind::cuda, &softmax_backward_on<CudaBackend>);
const Define define_softmax_loss_forward(softmax_loss_forward, DeviceKind::cuda,
                                         &softmax_loss_forward_on<CudaBackend>);
const Define define_softmax_loss_backward(softmax_loss_backward, DeviceKind::cuda,
                                          &softmax_loss_backward_on<CudaBackend>);
const Define define_euclidean_forward(euclidean_forward, DeviceKind::cuda,
                                      &euclidean_forward_on<CudaBackend>);
const Define define_euclidean_backward(euclidean_backward, DeviceKind::cuda,
                                       &euclidean_backward_on<CudaBackend>);
const Define define_quotient(quotient, DeviceKind::cuda, &quotient_on<CudaBackend>);
const Define define_accuracy_counts(accuracy_counts, DeviceKind::cuda, &accuracy_counts_on<CudaBackend>);

}  // namespace
}  // namespace banyan::ops
