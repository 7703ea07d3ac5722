// The angular margin of SphereFace for every back end (see backend.hpp).
#pragma once

#include <cmath>

#include "banyan/ops/margin.hpp"
#include "ops/common/loss.hpp"
#include "ops/common/optional_data.hpp"

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
struct InvertLengths {
  const double* squares;
  double least;
  T *inverse, *steps;
  BANYAN_HOST_DEVICE void operator()(std::int64_t d) const {
    const double length = std::sqrt(squares[d]);
    inverse[d] = static_cast<T>(1 / length);
    steps[d] = static_cast<T>(1 / (length < least ? least : length));
  }
};

template <class T>
struct AddMargin {
  Channels over;  ///< samples x classes
  int margin;
  const double *squares, *lambda;
  const T *labels, *inverse;  ///< inverse: nullptr if the classes' vectors have the length 1
  T* y;
  double *slopes, *lengths, *plain;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    slopes[i] = 1;
    lengths[i] = plain[i] = 0;
    const T label = labels[i];
    if (kind_of(label, {}, over.channels) != LabelKind::valid) return;
    const auto own = static_cast<std::int64_t>(label);
    T& score = y[i * over.channels + own];
    const double of_class = inverse == nullptr ? 1 : 1 / static_cast<double>(inverse[own]);
    if (inverse == nullptr) plain[i] = static_cast<double>(score);
    if (!(squares[i] > 0)) return;
    const double length = std::sqrt(squares[i]), weight = 1 / (1 + lambda[0]);
    const double c = static_cast<double>(score) / (length * of_class);
    const MarginCurve psi = MarginCurve::at(c, margin);
    const double value = weight * psi.value + (1 - weight) * c, slope = weight * psi.slope + (1 - weight);
    score = static_cast<T>(of_class * length * value);
    slopes[i] = slope;
    lengths[i] = of_class * (value - c * slope) / length;
    if (inverse != nullptr) plain[i] = -of_class * length * (value - c * slope);
  }
};

// Over memory seen as 1 x rows x length: element i is in row `row`.

template <class T>
struct ScaleAtLabels {
  std::int64_t classes;
  const T *dy, *labels;
  const double* slopes;
  T* dz;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t row) const {
    const bool own = labels[row] == static_cast<T>(i - row * classes);
    dz[i] = own ? dy[i] * static_cast<T>(slopes[row]) : dy[i];
  }
};

template <class T>
struct SubtractAlongRows {
  const T *w, *along, *inverse, *steps;
  T* dw;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t row) const {
    dw[i] -= w[i] * (along[row] * inverse[row] * steps[row]);
  }
};

template <class T>
struct AddAlongSamples {
  std::int64_t classes;
  const T *dy, *labels;
  const double* lengths;
  const T* x;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t sample) const {
    const T label = labels[sample];
    if (kind_of(label, {}, classes) != LabelKind::valid) return;
    const T own = dy[sample * classes + static_cast<std::int64_t>(label)];
    dx[i] += own * static_cast<T>(lengths[sample]) * x[i];
  }
};

/// Reduces over samples x classes. At the labels y has the margin, which is taken away again at the end. y
/// may be nullptr: zeros.
template <class T>
struct SumAlongClasses {
  struct State {
    double sum;
  };
  std::int64_t samples, classes;
  const T *dz, *y, *labels;
  const double* plain;
  T* along;
  BANYAN_HOST_DEVICE State identity() const { return {0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t) const {
    if (y != nullptr) s.sum += static_cast<double>(dz[i]) * static_cast<double>(y[i]);
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const { into.sum += later.sum; }
  BANYAN_HOST_DEVICE void store(std::int64_t d, const State& s) const {
    double sum = s.sum;
    for (std::int64_t i = 0; i < samples; ++i)
      if (labels[i] == static_cast<T>(d)) {
        const std::int64_t at = i * classes + d;
        sum += static_cast<double>(dz[at]) * (plain[i] - (y == nullptr ? 0 : static_cast<double>(y[at])));
      }
    along[d] = static_cast<T>(sum);
  }
};

}  // namespace detail

template <class Backend>
void margin_lambda_on(Context& context, const MarginDecay& decay, const std::uint64_t* draw, Tensor& lambda) {
  require_count("margin_lambda", lambda, 1);
  Backend::for_each(context, 1, detail::MarginLambda{decay, draw, lambda.data<double>()});
}

template <class Backend>
void invert_lengths_on(Context& context, const Tensor& squares, double least, Tensor& inverse,
                       Tensor& steps) {
  require_count("invert_lengths, inverse", inverse, squares.count());
  require_count("invert_lengths, steps", steps, squares.count());
  dispatch_float(inverse.dtype(), "invert_lengths", [&]<class T>() {
    Backend::for_each(
        context, squares.count(),
        detail::InvertLengths<T>{squares.data<double>(), least, inverse.data<T>(), steps.data<T>()});
  });
}

template <class Backend>
void add_margin_on(Context& context, const Tensor& squares, const Tensor& labels, int margin,
                   const Tensor& lambda, const Tensor& inverse, Tensor& y, Tensor& slopes, Tensor& lengths,
                   Tensor& plain, Tensor& noted) {
  const std::int64_t samples = labels.count();
  require_count("add_margin, squares", squares, samples);
  require_count("add_margin, slopes", slopes, samples);
  require_count("add_margin, lengths", lengths, samples);
  require_count("add_margin, plain", plain, samples);
  require_count("add_margin, noted", noted, 3);
  if (samples == 0) return;
  const Channels over{samples, y.count() / samples, 1};
  if (inverse.defined()) require_count("add_margin, inverse", inverse, over.channels);
  dispatch_float(y.dtype(), "add_margin", [&]<class T>() {
    Backend::for_each(
        context, samples,
        detail::AddMargin<T>{over, margin, squares.data<double>(), lambda.data<double>(), labels.data<T>(),
                             detail::optional_data<T>(inverse), y.data<T>(), slopes.data<double>(),
                             lengths.data<double>(), plain.data<double>()});
    Backend::reduce_all(
        context, samples,
        detail::FindWrongLabel<T>{{noted.data<double>(), over.inner}, over.channels, {}, labels.data<T>()});
  });
}

template <class Backend>
void scale_at_labels_on(Context& context, const Tensor& dy, const Tensor& labels, const Tensor& slopes,
                        Tensor& dz) {
  const std::int64_t samples = labels.count();
  require_alike("scale_at_labels", dy, dz);
  require_count("scale_at_labels", slopes, samples);
  if (dy.count() == 0) return;
  const std::int64_t classes = dy.count() / samples;
  dispatch_float(dy.dtype(), "scale_at_labels", [&]<class T>() {
    Backend::for_each_channel(context, Broadcast{1, samples, classes},
                              detail::ScaleAtLabels<T>{classes, dy.data<T>(), labels.data<T>(),
                                                       slopes.data<double>(), dz.data<T>()});
  });
}

template <class Backend>
void sum_along_classes_on(Context& context, const Tensor& dz, const Tensor& y, const Tensor& labels,
                          const Tensor& plain, Tensor& along) {
  const std::int64_t samples = labels.count(), classes = along.count();
  require_count("sum_along_classes", dz, samples * classes);
  if (y.defined()) require_alike("sum_along_classes", dz, y);
  require_count("sum_along_classes, plain", plain, samples);
  dispatch_float(dz.dtype(), "sum_along_classes", [&]<class T>() {
    Backend::reduce_channels(
        context, Broadcast{samples, classes, 1},
        detail::SumAlongClasses<T>{samples, classes, dz.data<T>(), detail::optional_data<T>(y),
                                   labels.data<T>(), plain.data<double>(), along.data<T>()});
  });
}

template <class Backend>
void subtract_along_rows_on(Context& context, const Tensor& w, const Tensor& along, const Tensor& inverse,
                            const Tensor& steps, Tensor& dw) {
  const std::int64_t rows = along.count();
  require_alike("subtract_along_rows", w, dw);
  require_count("subtract_along_rows, inverse", inverse, rows);
  require_count("subtract_along_rows, steps", steps, rows);
  if (rows == 0) return;
  dispatch_float(w.dtype(), "subtract_along_rows", [&]<class T>() {
    Backend::for_each_channel(context, Broadcast{1, rows, w.count() / rows},
                              detail::SubtractAlongRows<T>{w.data<T>(), along.data<T>(), inverse.data<T>(),
                                                           steps.data<T>(), dw.data<T>()});
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
    Backend::for_each_channel(context, Broadcast{1, samples, dx.count() / samples},
                              detail::AddAlongSamples<T>{dy.count() / samples, dy.data<T>(), labels.data<T>(),
                                                         lengths.data<double>(), x.data<T>(), dx.data<T>()});
  });
}

template <class Backend>
struct DefineMargin {
  DefineMargin() {
    margin_lambda.define(Backend::kind, &margin_lambda_on<Backend>);
    invert_lengths.define(Backend::kind, &invert_lengths_on<Backend>);
    add_margin.define(Backend::kind, &add_margin_on<Backend>);
    scale_at_labels.define(Backend::kind, &scale_at_labels_on<Backend>);
    sum_along_classes.define(Backend::kind, &sum_along_classes_on<Backend>);
    subtract_along_rows.define(Backend::kind, &subtract_along_rows_on<Backend>);
    add_along_samples.define(Backend::kind, &add_along_samples_on<Backend>);
  }
};

}  // namespace banyan::ops
