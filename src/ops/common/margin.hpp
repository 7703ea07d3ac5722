// The angular margin of SphereFace for every back end (see backend.hpp).
#pragma once

#include <cmath>

#include "banyan/ops/margin.hpp"
#include "ops/common/loss.hpp"

namespace banyan::ops {
namespace detail {

struct MarginLambda {
  MarginDecay decay;
  const std::uint64_t* draw;
  double* lambda;
  BANYAN_HOST_DEVICE void operator()(std::int64_t) const {
    const double passes = static_cast<double>(decay.first) + static_cast<double>(*draw) + 1;
    const double decayed = decay.base * std::pow(1 + decay.gamma * passes, -decay.power);
    lambda[0] = decayed > decay.least ? decayed : decay.least;
  }
};

/// cos(m t), its derivative by c = cos(t), and both as psi has them.
struct MarginCurve {
  double value, slope;
  BANYAN_HOST_DEVICE static MarginCurve at(double c, int margin) {
    // Chebyshev's T_m and U_(m - 1): T' = m U.
    double before = 1, now = c, u_before = 0, u = 1;
    for (int m = 1; m < margin; ++m) {
      const double next = 2 * c * now - before, u_next = 2 * c * u - u_before;
      before = now;
      now = next;
      u_before = u;
      u = u_next;
    }
    constexpr double kPi = 3.14159265358979323846;
    int k = 0;
    for (int j = 1; j < margin; ++j) k += c < std::cos(j * kPi / margin) ? 1 : 0;
    const double sign = k % 2 == 0 ? 1 : -1;
    return {sign * now - 2 * k, sign * margin * u};
  }
};

template <class T>
struct AddMargin {
  Channels over;  ///< samples x classes
  int margin;
  const double *squares, *lambda;
  const T* labels;
  T* y;
  double *slopes, *lengths;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    slopes[i] = 1;
    lengths[i] = 0;
    const T label = labels[i];
    if (kind_of(label, {}, over.channels) != LabelKind::valid || !(squares[i] > 0)) return;
    T& score = y[i * over.channels + static_cast<std::int64_t>(label)];
    const double length = std::sqrt(squares[i]), weight = 1 / (1 + lambda[0]);
    const double c = static_cast<double>(score) / length;
    const MarginCurve psi = MarginCurve::at(c, margin);
    const double value = weight * psi.value + (1 - weight) * c, slope = weight * psi.slope + (1 - weight);
    score = static_cast<T>(length * value);
    slopes[i] = slope;
    lengths[i] = (value - c * slope) / length;
  }
};

template <class T>
struct ScaleAtLabels {
  std::int64_t classes;
  const T *dy, *labels;
  const double* slopes;
  T* dz;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const bool own = labels[i / classes] == static_cast<T>(i % classes);
    dz[i] = own ? dy[i] * static_cast<T>(slopes[i / classes]) : dy[i];
  }
};

template <class T>
struct AddAlongSamples {
  std::int64_t classes, length;
  const T *dy, *labels;
  const double* lengths;
  const T* x;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t sample = i / length;
    const T label = labels[sample];
    if (kind_of(label, {}, classes) != LabelKind::valid) return;
    const T own = dy[sample * classes + static_cast<std::int64_t>(label)];
    dx[i] += own * static_cast<T>(lengths[sample]) * x[i];
  }
};

}  // namespace detail

template <class Backend>
void margin_lambda_on(Context& context, const MarginDecay& decay, const std::uint64_t* draw, Tensor& lambda) {
  require_count("margin_lambda", lambda, 1);
  Backend::for_each(context, 1, detail::MarginLambda{decay, draw, lambda.data<double>()});
}

template <class Backend>
void add_margin_on(Context& context, const Tensor& squares, const Tensor& labels, int margin,
                   const Tensor& lambda, Tensor& y, Tensor& slopes, Tensor& lengths, Tensor& noted) {
  const std::int64_t samples = labels.count();
  require_count("add_margin, squares", squares, samples);
  require_count("add_margin, slopes", slopes, samples);
  require_count("add_margin, lengths", lengths, samples);
  require_count("add_margin, noted", noted, 3);
  if (samples == 0) return;
  const Channels over{samples, y.count() / samples, 1};
  dispatch_float(y.dtype(), "add_margin", [&]<class T>() {
    Backend::for_each(
        context, samples,
        detail::AddMargin<T>{over, margin, squares.data<double>(), lambda.data<double>(), labels.data<T>(),
                             y.data<T>(), slopes.data<double>(), lengths.data<double>()});
    Backend::reduce_all(
        context, samples,
        detail::FindWrongLabel<T>{{noted.data<double>(), over.inner}, over.channels, {}, labels.data<T>()});
  });
}

template <class Backend>
void scale_at_labels_on(Context& context, const Tensor& dy, const Tensor& labels, const Tensor& slopes,
                        Tensor& dz) {
  require_alike("scale_at_labels", dy, dz);
  require_count("scale_at_labels", slopes, labels.count());
  if (dy.count() == 0) return;
  dispatch_float(dy.dtype(), "scale_at_labels", [&]<class T>() {
    Backend::for_each(context, dy.count(),
                      detail::ScaleAtLabels<T>{dy.count() / labels.count(), dy.data<T>(), labels.data<T>(),
                                               slopes.data<double>(), dz.data<T>()});
  });
}

template <class Backend>
void add_along_samples_on(Context& context, const Tensor& dy, const Tensor& labels, const Tensor& lengths,
                          const Tensor& x, Tensor& dx) {
  require_alike("add_along_samples", x, dx);
  require_count("add_along_samples", lengths, labels.count());
  if (dx.count() == 0) return;
  dispatch_float(dy.dtype(), "add_along_samples", [&]<class T>() {
    const std::int64_t samples = labels.count();
    Backend::for_each(
        context, dx.count(),
        detail::AddAlongSamples<T>{dy.count() / samples, dx.count() / samples, dy.data<T>(), labels.data<T>(),
                                   lengths.data<double>(), x.data<T>(), dx.data<T>()});
  });
}

template <class Backend>
struct DefineMargin {
  DefineMargin() {
    margin_lambda.define(Backend::kind, &margin_lambda_on<Backend>);
    add_margin.define(Backend::kind, &add_margin_on<Backend>);
    scale_at_labels.define(Backend::kind, &scale_at_labels_on<Backend>);
    add_along_samples.define(Backend::kind, &add_along_samples_on<Backend>);
  }
};

}  // namespace banyan::ops
