// Batch normalization on CUDA. The two sweeps over activations keep a channel's terms in registers: computing
// them per element would cost more than the memory traffic.
#include "ops/common/checks.hpp"
#include "ops/common/normalization.hpp"
#include "ops/common/output_statistics.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

template <class T, class End>
struct ForwardWithTerms {
  detail::NormalizeForward<T, End> f;
  __device__ detail::ForwardTerms<T> terms(std::int64_t d) const { return f.terms(d); }
  __device__ T value(const detail::ForwardTerms<T>& t, std::int64_t i) const { return f.apply(t, i); }
  __device__ void store(std::int64_t i, T value) const { f.y[i] = value; }
};

template <class T, class End>
struct BackwardWithTerms {
  detail::NormalizeBackward<T, End> f;
  struct Both {
    detail::ForwardTerms<T> forward;
    detail::BackwardTerms<T> backward;
  };
  __device__ Both terms(std::int64_t d) const { return {f.forward.terms(d), f.terms(d)}; }
  __device__ T value(const Both& t, std::int64_t i) const { return f.apply(t.forward, t.backward, i); }
  __device__ void store(std::int64_t i, T value) const { f.dx[i] = value; }
};

/// An undefined `addend` adds nothing.
void normalize_and_add_on_cuda(Context& context, const Tensor& x, const Tensor& mean_inv_std,
                               const Affine& affine, const Tensor& addend, Tensor& y) {
  require_alike("normalize_forward", x, y);
  if (addend.defined()) require_alike("normalize_and_add", x, addend);
  dispatch_float(x.dtype(), "normalize_forward", [&]<class T>() {
    detail::with_forward_functor<T>(x, mean_inv_std, affine, y.data<T>(), [&](auto f) {
      if (addend.defined()) f.addend = addend.data<T>();
      CudaBackend::for_each_with_terms(context, channel_broadcast(x),
                                       ForwardWithTerms<T, decltype(f.end)>{f});
    });
  });
}

void normalize_forward_on_cuda(Context& context, const Tensor& x, const Tensor& mean_inv_std,
                               const Affine& affine, Tensor& y) {
  normalize_and_add_on_cuda(context, x, mean_inv_std, affine, {}, y);
}

void normalize_backward_on_cuda(Context& context, const Tensor& x, const Tensor& dy,
                                const Tensor& mean_inv_std, const Affine& affine, const Tensor& sums,
                                const Tensor& moments, Tensor& dx) {
  require_alike("normalize_backward", x, dy);
  require_alike("normalize_backward", x, dx);
  dispatch_float(x.dtype(), "normalize_backward", [&]<class T>() {
    detail::with_backward_functor<T>(x, dy, mean_inv_std, affine, sums, moments, dx, [&](const auto& f) {
      using End = std::decay_t<decltype(f.forward.end)>;
      CudaBackend::for_each_with_terms(context, channel_broadcast(x), BackwardWithTerms<T, End>{f});
    });
  });
}

constexpr DeviceKind kCuda = DeviceKind::cuda;
const Define define_batch_moments(batch_moments, kCuda, &batch_moments_on<CudaBackend>);
const Define define_merge_moments(merge_moments, kCuda, &merge_moments_on<CudaBackend>);
const Define define_finish_moments(finish_moments, kCuda, &finish_moments_on<CudaBackend>);
const Define define_update_running(update_running, kCuda, &update_running_on<CudaBackend>);
const Define define_stored_statistics(stored_statistics, kCuda, &stored_statistics_on<CudaBackend>);
const Define define_normalize_forward(normalize_forward, kCuda, &normalize_forward_on_cuda);
const Define define_normalize_and_add(normalize_and_add, kCuda, &normalize_and_add_on_cuda);
const Define define_normalize_backward_sums(normalize_backward_sums, kCuda,
                                            &normalize_backward_sums_on<CudaBackend>);
const Define define_normalize_backward(normalize_backward, kCuda, &normalize_backward_on_cuda);
const Define define_add_affine_gradients(add_affine_gradients, kCuda, &add_affine_gradients_on<CudaBackend>);
const Define define_output_statistics(output_statistics, kCuda, &output_statistics_on<CudaBackend>);

}  // namespace
}  // namespace banyan::ops
