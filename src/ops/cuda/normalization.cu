// Batch normalization on CUDA. The two sweeps over activations keep a channel's terms in registers: computing
// them per element would cost more than the memory traffic.
#include "ops/common/checks.hpp"
#include "ops/common/normalization.hpp"
#include "ops/common/output_statistics.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

/// Deviations from a channel's first sample, as in detail::MomentsReduction, but from the same one in all
/// threads: merging their states takes no divisions, of which a GPU has few units. Not for empty x.
template <class T>
struct MomentsByFirst {
  using Element = T;
  static constexpr int kReads = 1;
  struct State {
    double sum, squares;
  };
  const T *x, *first;  ///< the same memory
  double* moments;
  std::int64_t channels, inner;
  double count;
  BANYAN_HOST_DEVICE State identity() const { return {0, 0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t index, std::int64_t d) const {
    const double deviation = static_cast<double>(x[index]) - static_cast<double>(first[d * inner]);
    s.sum += deviation;
    s.squares += deviation * deviation;
  }
  template <class Visit>
  BANYAN_HOST_DEVICE void each_read(const Visit& visit) {
    visit(x);
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const {
    into.sum += later.sum;
    into.squares += later.squares;
  }
  BANYAN_HOST_DEVICE void store(std::int64_t d, const State& s) const {
    const double mean = s.sum / count, m2 = s.squares - s.sum * mean;
    if (d == 0) moments[0] = count;
    moments[1 + d] = static_cast<double>(first[d * inner]) + mean;
    moments[1 + channels + d] = m2 > 0 ? m2 : (m2 == m2 ? 0.0 : m2);  // NaN stays NaN
  }
};

void batch_moments_on_cuda(Context& context, const Tensor& x, Tensor& moments) {
  const Broadcast over = channel_broadcast(x);
  if (over.outer * over.inner == 0) return context.stream().zero(moments.raw(), moments.bytes());
  dispatch_storage(x.dtype(), "batch_moments", [&]<class T>() {
    const T* data = x.data<T>();
    CudaBackend::reduce_channels(context, over,
                                 MomentsByFirst<T>{data, data, moments.data<double>(), over.dim, over.inner,
                                                   static_cast<double>(over.outer * over.inner)});
  });
}

/// kAdds: has an addend.
template <class T, class End, bool kAdds>
struct ForwardWithTerms {
  using A = Arithmetic<T>;
  using Element = T;
  static constexpr int kReads = kAdds ? 2 : 1;
  detail::NormalizeForward<T, End> f;
  __device__ detail::ForwardTerms<A> terms(std::int64_t d) const { return f.terms(d); }
  __device__ T value(const detail::ForwardTerms<A>& t, std::int64_t i) const { return f.apply(t, i); }
  __device__ void store(std::int64_t i, T value) const { f.y[i] = value; }
  template <class Visit>
  BANYAN_HOST_DEVICE void each_read(const Visit& visit) {
    visit(f.x);
    if constexpr (kAdds) visit(f.addend);
  }
  template <class Visit>
  BANYAN_HOST_DEVICE void each_write(const Visit& visit) {
    visit(f.y);
  }
};

template <class T, class End>
struct BackwardWithTerms {
  using Element = T;
  static constexpr int kReads = 2;
  detail::NormalizeBackward<T, End> f;
  struct Both {
    detail::ForwardTerms<Arithmetic<T>> forward;
    detail::BackwardTerms<Arithmetic<T>> backward;
  };
  __device__ Both terms(std::int64_t d) const { return {f.forward.terms(d), f.terms(d)}; }
  __device__ T value(const Both& t, std::int64_t i) const { return f.apply(t.forward, t.backward, i); }
  __device__ void store(std::int64_t i, T value) const { f.dx[i] = value; }
  template <class Visit>
  BANYAN_HOST_DEVICE void each_read(const Visit& visit) {
    visit(f.forward.x);
    visit(f.dy);
  }
  template <class Visit>
  BANYAN_HOST_DEVICE void each_write(const Visit& visit) {
    visit(f.dx);
  }
};

/// An undefined `addend` adds nothing.
void normalize_and_add_on_cuda(Context& context, const Tensor& x, const Tensor& mean_inv_std,
                               const Affine& affine, const Tensor& addend, Tensor& y) {
  require_alike("normalize_forward", x, y);
  if (addend.defined()) require_alike("normalize_and_add", x, addend);
  dispatch_storage(x.dtype(), "normalize_forward", [&]<class T>() {
    detail::with_forward_functor<T>(x, mean_inv_std, affine, y.data<T>(), [&](auto f) {
      using End = decltype(f.end);
      const Broadcast over = channel_broadcast(x);
      if (!addend.defined())
        return CudaBackend::for_each_with_terms(context, over, ForwardWithTerms<T, End, false>{f});
      f.addend = addend.data<T>();
      CudaBackend::for_each_with_terms(context, over, ForwardWithTerms<T, End, true>{f});
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
  dispatch_storage(x.dtype(), "normalize_backward", [&]<class T>() {
    detail::with_backward_functor<T>(x, dy, mean_inv_std, affine, sums, moments, dx, [&](const auto& f) {
      using End = std::decay_t<decltype(f.forward.end)>;
      CudaBackend::for_each_with_terms(context, channel_broadcast(x), BackwardWithTerms<T, End>{f});
    });
  });
}

constexpr DeviceKind kCuda = DeviceKind::cuda;
const Define define_batch_moments(batch_moments, kCuda, &batch_moments_on_cuda);
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
