// Softmax, losses and accuracy on CPU devices. A softmax over adjacent elements (inner == 1) goes row by row,
// with maximum and sum in SIMD lanes; one over planes (inner > 1) takes blocks of adjacent positions, one
// position per SIMD lane. The rest are the shared functors.
#include "ops/common/loss.hpp"

#include "ops/common/class_loss.hpp"
#include "ops/common/exponential.hpp"
#include "ops/common/optional_data.hpp"
#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

template <class T>
void softmax_row(std::int64_t channels, const T* x, T* y) {
  T most = x[0];
#pragma omp simd reduction(max : most)
  for (std::int64_t c = 0; c < channels; ++c) most = x[c] > most ? x[c] : most;
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c) y[c] = detail::exponential(x[c] - most);
  double sum = 0;  // the compiler chooses the number of SIMD lanes: fixed for one program
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < channels; ++c) sum += static_cast<double>(y[c]);
  const T scale = static_cast<T>(1 / sum);
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c) y[c] *= scale;
}

constexpr std::int64_t kBlock = 256;  // positions

/// Takes `count` <= kBlock positions; class c is at x[c * inner].
template <class T>
void softmax_block(std::int64_t channels, std::int64_t inner, std::int64_t count, const T* x, T* y) {
  T most[kBlock];
  double sum[kBlock] = {};
  std::copy_n(x, count, most);
  for (std::int64_t c = 1; c < channels; ++c) {
    const T* row = x + c * inner;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) most[i] = row[i] > most[i] ? row[i] : most[i];
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    const T* row = x + c * inner;
    T* to = y + c * inner;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      const T value = detail::exponential(row[i] - most[i]);
      to[i] = value;
      sum[i] += static_cast<double>(value);
    }
  }
  for (std::int64_t i = 0; i < count; ++i) most[i] = static_cast<T>(1 / sum[i]);
  for (std::int64_t c = 0; c < channels; ++c) {
    T* to = y + c * inner;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) to[i] *= most[i];
  }
}

template <class T>
void softmax_rows(int threads, const Channels& over, const T* x, T* y) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t row = 0; row < over.outer; ++row)
    softmax_row(over.channels, x + row * over.channels, y + row * over.channels);
}

template <class T>
void softmax_planes(int threads, const Channels& over, const T* x, T* y) {
  const std::int64_t blocks = (over.inner + kBlock - 1) / kBlock;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t task = 0; task < over.outer * blocks; ++task) {
    const std::int64_t first = task % blocks * kBlock;
    const std::int64_t at = task / blocks * over.channels * over.inner + first;
    softmax_block(over.channels, over.inner, std::min(kBlock, over.inner - first), x + at, y + at);
  }
}

void softmax_forward_on_cpu(Context& context, const Tensor& x, const Channels& over, Tensor& y) {
  require_count("softmax_forward", x, over.outer * over.channels * over.inner);
  require_alike("softmax_forward", x, y);
  if (x.count() == 0) return;
  dispatch_float(x.dtype(), "softmax_forward", [&]<class T>() {
    const T* from = x.data<T>();
    T* to = y.data<T>();
    const int threads = CpuBackend::threads_for(context, 8 * x.count());  // an exponential per element
    context.run([=] {
      if (over.inner == 1)
        softmax_rows(threads, over, from, to);
      else
        softmax_planes(threads, over, from, to);
    });
  });
}

/// One row of classes, or one plane of positions of one class: finding an element's place takes no division.
template <class T>
struct LossGradient {
  Channels over;
  IgnoreLabel ignore;
  T own, other;  ///< wanted of the label's class and of the others
  detail::PositionWeights<T> weights;
  const T *probabilities, *labels;
  T scale;
  T* dx;

  template <bool kByClass>
  T factor(T label, T given) const {
    const bool valid = detail::kind_of(label, ignore, over.channels) == detail::LabelKind::valid;
    const T weight = kByClass ? weights.by_class[valid ? static_cast<std::int64_t>(label) : 0] : T(1);
    return valid ? weight * given * scale : T(0);
  }
  template <bool kByClass, bool kGiven>
  void row(std::int64_t position) const {
    const T label = labels[position];
    const T by = factor<kByClass>(label, kGiven ? weights.given[position] : T(1));
    const T* p = probabilities + position * over.channels;
    T* to = dx + position * over.channels;
    if (by == T(0)) return void(std::fill_n(to, over.channels, T(0)));
    const auto hit = static_cast<std::int64_t>(label);
    const T at_label = (p[hit] - own) * by, rest = other;
#pragma omp simd
    for (std::int64_t c = 0; c < over.channels; ++c) to[c] = (p[c] - rest) * by;
    to[hit] = at_label;
  }
  template <bool kByClass, bool kGiven>
  void plane(std::int64_t index) const {
    const LossGradient f = *this;  // so that it is not reloaded after each store
    const auto channel = static_cast<T>(index % f.over.channels);
    const std::int64_t outer = index / f.over.channels;
    const T* label = f.labels + outer * f.over.inner;
    const T* p = f.probabilities + index * f.over.inner;
    const std::int64_t step = f.weights.each == 1 ? 1 : 0;
    const T* given = kGiven ? f.weights.given + (step == 1 ? outer * f.over.inner : outer) : nullptr;
    T* to = f.dx + index * f.over.inner;
#pragma omp simd
    for (std::int64_t i = 0; i < f.over.inner; ++i) {
      const T by = f.template factor<kByClass>(label[i], kGiven ? given[i * step] : T(1));
      const T gradient = (p[i] - (label[i] == channel ? f.own : f.other)) * by;
      to[i] = by == T(0) ? T(0) : gradient;
    }
  }
  template <bool kByClass, bool kGiven>
  void run(int threads) const {
    const bool rows = over.inner == 1;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (std::int64_t i = 0; i < over.outer * (rows ? 1 : over.channels); ++i)
      rows ? row<kByClass, kGiven>(i) : plane<kByClass, kGiven>(i);
  }
};

void smoothed_loss_backward_on_cpu(Context& context, const Tensor& probabilities, const Tensor& labels,
                                   const LossWeights& weights, const Channels& over,
                                   const IgnoreLabel& ignore, double smoothing, const Tensor& grad_loss,
                                   const Tensor& divisor, Tensor& dx) {
  detail::require_positions("smoothed_loss_backward", probabilities, labels, over);
  require_alike("smoothed_loss_backward", probabilities, dx);
  const int threads = CpuBackend::threads_for(context, dx.count());
  const detail::SmoothedTarget target(smoothing, over.channels);
  dispatch_float(probabilities.dtype(), "smoothed_loss_backward", [&]<class T>() {
    LossGradient<T> f{over,
                      ignore,
                      target.of_class<T>(true),
                      target.of_class<T>(false),
                      detail::position_weights<T>(weights, over),
                      probabilities.data<T>(),
                      labels.data<T>(),
                      T(0),
                      dx.data<T>()};
    const T* grad = grad_loss.data<T>();
    const double* by = divisor.data<double>();
    context.run([=]() mutable {
      f.scale = detail::loss_scale(grad, by);
      const bool by_class = f.weights.by_class != nullptr;
      if (f.weights.given == nullptr)
        by_class ? f.template run<true, false>(threads) : f.template run<false, false>(threads);
      else
        by_class ? f.template run<true, true>(threads) : f.template run<false, true>(threads);
    });
  });
}

void softmax_loss_backward_on_cpu(Context& context, const Tensor& probabilities, const Tensor& labels,
                                  const Channels& over, const IgnoreLabel& ignore, const Tensor& grad_loss,
                                  const Tensor& divisor, Tensor& dx) {
  const Tensor none;
  smoothed_loss_backward_on_cpu(context, probabilities, labels, {none, none}, over, ignore, 0, grad_loss,
                                divisor, dx);
}

const Define define_softmax_forward(softmax_forward, DeviceKind::cpu, &softmax_forward_on_cpu);
const Define define_softmax_backward(softmax_backward, DeviceKind::cpu, &softmax_backward_on<CpuBackend>);
const Define define_softmax_loss_forward(softmax_loss_forward, DeviceKind::cpu,
                                         &softmax_loss_forward_on<CpuBackend>);
const Define define_softmax_loss_backward(softmax_loss_backward, DeviceKind::cpu,
                                          &softmax_loss_backward_on_cpu);
const Define define_smoothed_loss_backward(smoothed_loss_backward, DeviceKind::cpu,
                                           &smoothed_loss_backward_on_cpu);
const Define define_euclidean_forward(euclidean_forward, DeviceKind::cpu, &euclidean_forward_on<CpuBackend>);
const Define define_euclidean_backward(euclidean_backward, DeviceKind::cpu,
                                       &euclidean_backward_on<CpuBackend>);
const Define define_quotient(quotient, DeviceKind::cpu, &quotient_on<CpuBackend>);
const Define define_accuracy_counts(accuracy_counts, DeviceKind::cpu, &accuracy_counts_on<CpuBackend>);

}  // namespace
}  // namespace banyan::ops
