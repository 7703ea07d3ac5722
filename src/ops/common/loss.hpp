// Functors of softmax, losses and accuracy: one of the outer x inner positions per index.
#pragma once

#include <cfloat>
#include <cmath>

#include "banyan/ops/loss.hpp"
#include "ops/common/labels.hpp"

namespace banyan::ops {
namespace detail {

template <class T>
struct SoftmaxForward {
  Channels over;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t position) const {
    const std::int64_t begin = first_class(over, position), end = begin + over.channels * over.inner;
    T most = x[begin];
    for (std::int64_t i = begin; i < end; i += over.inner) most = x[i] > most ? x[i] : most;
    double sum = 0;
    for (std::int64_t i = begin; i < end; i += over.inner) {
      y[i] = std::exp(x[i] - most);
      sum += static_cast<double>(y[i]);
    }
    const T scale = static_cast<T>(1 / sum);
    for (std::int64_t i = begin; i < end; i += over.inner) y[i] *= scale;
  }
};

template <class T>
struct SoftmaxBackward {
  Channels over;
  const T *y, *dy;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t position) const {
    const std::int64_t begin = first_class(over, position), end = begin + over.channels * over.inner;
    double product = 0;
    for (std::int64_t i = begin; i < end; i += over.inner)
      product += static_cast<double>(dy[i]) * static_cast<double>(y[i]);
    const T mean = static_cast<T>(product);
    for (std::int64_t i = begin; i < end; i += over.inner) dx[i] = y[i] * (dy[i] - mean);
  }
};

/// -log of the probability of a position's label.
template <class T>
BANYAN_HOST_DEVICE inline double loss_of_label(const T* probabilities, T label, std::int64_t position,
                                               const Channels& over, double least) {
  const auto p = static_cast<double>(probabilities[place_of_label(over, position, label)]);
  return -std::log(p < least ? least : p);  // NaN stays NaN
}

template <class T>
struct SoftmaxLoss : ClassLossSum {
  Channels over;
  IgnoreLabel ignore;
  double least;  ///< probability
  const T *probabilities, *labels;
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t position, std::int64_t) const {
    const T label = labels[position];
    if (!counts(s, label, position, over, ignore)) return;
    s.loss += loss_of_label(probabilities, label, position, over, least);
    s.valid += 1;
  }
};

/// Over all elements: neighbouring indices touch neighbouring memory, whatever `inner` is.
template <class T>
struct SoftmaxLossBackward {
  Channels over;
  IgnoreLabel ignore;
  const T *probabilities, *labels, *grad_loss;
  const double* divisor;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const ElementLabel<T> at(over, labels, i);
    const T hit = at.label == static_cast<T>(at.channel) ? T(1) : T(0);
    const bool valid = kind_of(at.label, ignore, over.channels) == LabelKind::valid;
    dx[i] = valid ? (probabilities[i] - hit) * loss_scale(grad_loss, divisor) : T(0);
  }
};

template <class T>
struct Euclidean {
  using State = double;
  const T *a, *b;
  T* difference;
  double* partial;
  BANYAN_HOST_DEVICE State identity() const { return 0; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t) const {
    const T d = a[i] - b[i];
    difference[i] = d;
    s += static_cast<double>(d) * static_cast<double>(d);
  }
  BANYAN_HOST_DEVICE void merge(State& s, const State& other) const { s += other; }
  BANYAN_HOST_DEVICE void store(std::int64_t, const State& s) const {
    partial[0] = s / 2;
    partial[1] = 0;
  }
};

template <class T>
struct EuclideanBackward {
  const T *difference, *grad_loss;
  const double* divisor;
  T sign;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    dx[i] = sign * difference[i] * loss_scale(grad_loss, divisor);
  }
};

template <class T>
struct QuotientOf {
  Quotient what;
  const double *numerator, *divisor;
  T* value;
  BANYAN_HOST_DEVICE void operator()(std::int64_t) const {
    const double found = divisor[what.divisor_index];
    const double by = found > what.minimum ? found : what.minimum;
    value[0] = by == 0 ? T(0) : static_cast<T>(numerator[what.index] / by);
  }
};

/// Per class: reduces over memory as outer x channels x inner; an element counts for its class if the
/// position's label is that class.
template <class T>
struct AccuracyOfClass {
  struct State {
    double correct, counted;
  };
  Channels over;
  IgnoreLabel ignore;
  int top_k;
  bool least_wins;
  const T *scores, *labels;
  double* counts;
  BANYAN_HOST_DEVICE State identity() const { return {0, 0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t index, std::int64_t d) const {
    const std::int64_t outer = index / over.inner / over.channels, inside = index % over.inner;
    const T label = labels[outer * over.inner + inside];
    if (label != static_cast<T>(d) || kind_of(label, ignore, over.channels) != LabelKind::valid) return;
    const std::int64_t begin = outer * over.channels * over.inner + inside;
    std::int64_t as_good = -1;  // excludes the class itself
    for (std::int64_t c = 0; c < over.channels; ++c) {
      const T other = scores[begin + c * over.inner];
      as_good += (least_wins ? other <= scores[index] : other >= scores[index]) ? 1 : 0;
    }
    // A NaN score is not >= anything, not even itself: no other class counts, so it is correct (as in Caffe).
    s.correct += as_good < top_k ? 1 : 0;
    s.counted += 1;
  }
  BANYAN_HOST_DEVICE void merge(State& a, const State& b) const {
    a.correct += b.correct;
    a.counted += b.counted;
  }
  BANYAN_HOST_DEVICE void store(std::int64_t d, const State& s) const {
    counts[2 + 2 * d] = s.correct;
    counts[3 + 2 * d] = s.counted;
  }
};

struct AccuracyTotals {
  std::int64_t channels;
  double* counts;
  BANYAN_HOST_DEVICE void operator()(std::int64_t) const {
    double correct = 0, counted = 0;
    for (std::int64_t d = 0; d < channels; ++d) {
      correct += counts[2 + 2 * d];
      counted += counts[3 + 2 * d];
    }
    counts[0] = correct;
    counts[1] = counted;
  }
};

template <class T>
struct FindWrongLabel : FindFirst {
  std::int64_t channels;
  IgnoreLabel ignore;
  const T* labels;
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t position, std::int64_t) const {
    const T label = labels[position];
    if (kind_of(label, ignore, channels) == LabelKind::wrong) note(s, position, static_cast<double>(label));
  }
};

}  // namespace detail

template <class Backend>
void softmax_forward_on(Context& context, const Tensor& x, const Channels& over, Tensor& y) {
  require_count("softmax_forward", x, over.outer * over.channels * over.inner);
  require_alike("softmax_forward", x, y);
  if (x.count() == 0) return;
  dispatch_float(x.dtype(), "softmax_forward", [&]<class T>() {
    Backend::for_each(context, over.outer * over.inner,
                      detail::SoftmaxForward<T>{over, x.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void softmax_backward_on(Context& context, const Tensor& y, const Tensor& dy, const Channels& over,
                         Tensor& dx) {
  require_count("softmax_backward", y, over.outer * over.channels * over.inner);
  require_alike("softmax_backward", y, dy);
  require_alike("softmax_backward", y, dx);
  if (y.count() == 0) return;
  dispatch_float(y.dtype(), "softmax_backward", [&]<class T>() {
    Backend::for_each(context, over.outer * over.inner,
                      detail::SoftmaxBackward<T>{over, y.data<T>(), dy.data<T>(), dx.data<T>()});
  });
}

template <class Backend>
void softmax_loss_forward_on(Context& context, const Tensor& probabilities, const Tensor& labels,
                             const Channels& over, const IgnoreLabel& ignore, Tensor& partial,
                             Tensor& noted) {
  detail::require_positions("softmax_loss_forward", probabilities, labels, over);
  dispatch_float(probabilities.dtype(), "softmax_loss_forward", [&]<class T>() {
    Backend::reduce_all(context, over.outer * over.inner,
                        detail::SoftmaxLoss<T>{detail::class_loss_sum(over, partial, noted), over, ignore,
                                               FLT_MIN, probabilities.data<T>(), labels.data<T>()});
  });
}

template <class Backend>
void softmax_loss_backward_on(Context& context, const Tensor& probabilities, const Tensor& labels,
                              const Channels& over, const IgnoreLabel& ignore, const Tensor& grad_loss,
                              const Tensor& divisor, Tensor& dx) {
  detail::require_positions("softmax_loss_backward", probabilities, labels, over);
  require_alike("softmax_loss_backward", probabilities, dx);
  dispatch_float(probabilities.dtype(), "softmax_loss_backward", [&]<class T>() {
    Backend::for_each(
        context, dx.count(),
        detail::SoftmaxLossBackward<T>{over, ignore, probabilities.data<T>(), labels.data<T>(),
                                       grad_loss.data<T>(), divisor.data<double>(), dx.data<T>()});
  });
}

template <class Backend>
void euclidean_forward_on(Context& context, const Tensor& a, const Tensor& b, Tensor& difference,
                          Tensor& partial) {
  require_alike("euclidean_forward", a, b);
  require_alike("euclidean_forward", a, difference);
  dispatch_float(a.dtype(), "euclidean_forward", [&]<class T>() {
    Backend::reduce_all(
        context, a.count(),
        detail::Euclidean<T>{a.data<T>(), b.data<T>(), difference.data<T>(), partial.data<double>()});
  });
}

template <class Backend>
void euclidean_backward_on(Context& context, const Tensor& difference, double sign, const Tensor& grad_loss,
                           const Tensor& divisor, Tensor& dx) {
  require_alike("euclidean_backward", difference, dx);
  dispatch_float(difference.dtype(), "euclidean_backward", [&]<class T>() {
    Backend::for_each(
        context, dx.count(),
        detail::EuclideanBackward<T>{difference.data<T>(), grad_loss.data<T>(), divisor.data<double>(),
                                     static_cast<T>(sign), dx.data<T>()});
  });
}

template <class Backend>
void quotient_on(Context& context, const Tensor& numerator, const Tensor& divisor, const Quotient& what,
                 Tensor& value) {
  if (what.index < 0 || what.index >= numerator.count() || what.divisor_index < 0 ||
      what.divisor_index >= divisor.count())
    runtime_failure("quotient: elements ", what.index, " and ", what.divisor_index, " are not in tensors of ",
                    numerator.count(), " and ", divisor.count());
  dispatch_float(value.dtype(), "quotient", [&]<class T>() {
    Backend::for_each(
        context, 1,
        detail::QuotientOf<T>{what, numerator.data<double>(), divisor.data<double>(), value.data<T>()});
  });
}

template <class Backend>
void accuracy_counts_on(Context& context, const Tensor& scores, const Tensor& labels, const Channels& over,
                        const IgnoreLabel& ignore, int top_k, bool least_wins, Tensor& counts,
                        Tensor& noted) {
  detail::require_positions("accuracy_counts", scores, labels, over);
  require_count("accuracy_counts, counts", counts, 2 + 2 * over.channels);
  require_count("accuracy_counts, noted", noted, 3);
  dispatch_float(scores.dtype(), "accuracy_counts", [&]<class T>() {
    double* to = counts.data<double>();
    Backend::reduce_channels(
        context, Broadcast{over.outer, over.channels, over.inner},
        detail::AccuracyOfClass<T>{over, ignore, top_k, least_wins, scores.data<T>(), labels.data<T>(), to});
    Backend::for_each(context, 1, detail::AccuracyTotals{over.channels, to});
    Backend::reduce_all(context, over.outer * over.inner,
                        detail::FindWrongLabel<T>{
                            {noted.data<double>(), over.inner}, over.channels, ignore, labels.data<T>()});
  });
}

}  // namespace banyan::ops
