// The margin that all samples have in common, for every back end (see backend.hpp).
#pragma once

#include <cmath>

#include "banyan/ops/global_margin.hpp"
#include "ops/common/exponential.hpp"
#include "ops/common/loss.hpp"
#include "ops/common/optional_data.hpp"

namespace banyan::ops {
namespace detail {

template <class T>
struct MarginRow {
  std::int64_t classes;
  bool each;  ///< has a scale of its own
  const T *x, *labels, *scale;
  T* rows;
  BANYAN_HOST_DEVICE void operator()(std::int64_t n) const {
    const std::int64_t label = index_below(labels[n], classes);
    T* const to = rows + n * kMarginNumbers;
    to[0] = label >= 0 ? x[n * classes + label] : static_cast<T>(NAN);
    to[3] = scale[each ? n : 0];
    to[4] = static_cast<T>(label);
  }
};

// Over memory seen as 1 x samples x classes: element i is in row `row`.

template <class T>
struct OtherClasses {
  std::int64_t classes;
  const T* x;
  T* rows;
  BANYAN_HOST_DEVICE bool has(std::int64_t i, std::int64_t row) const {
    return i - row * classes != static_cast<std::int64_t>(rows[row * kMarginNumbers + 4]);
  }
};

template <class T>
struct MarginLargest : OtherClasses<T> {
  struct State {
    T most;
  };
  BANYAN_HOST_DEVICE State identity() const { return {-static_cast<T>(HUGE_VAL)}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t row) const {
    const T value = this->has(i, row) ? this->x[i] : s.most;
    s.most = value > s.most ? value : s.most;
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const {
    into.most = later.most > into.most ? later.most : into.most;
  }
  BANYAN_HOST_DEVICE void store(std::int64_t row, const State& s) const {
    this->rows[row * kMarginNumbers + 2] = s.most;
  }
};

template <class T>
struct MarginLogSum : OtherClasses<T> {
  struct State {
    double sum;
  };
  BANYAN_HOST_DEVICE State identity() const { return {0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t row) const {
    const T* const of_row = this->rows + row * kMarginNumbers;
    const T term = exponential(of_row[3] * (this->x[i] - of_row[2]));
    s.sum += static_cast<double>(this->has(i, row) ? term : T(0));
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const { into.sum += later.sum; }
  BANYAN_HOST_DEVICE void store(std::int64_t row, const State& s) const {
    T* const to = this->rows + row * kMarginNumbers;
    to[1] = static_cast<T>(std::log(s.sum) / static_cast<double>(to[3]) + static_cast<double>(to[2]));
  }
};

template <class T>
struct MoveMargin {
  std::int64_t count;
  const T *rows, *margin;
  T* moved;
  BANYAN_HOST_DEVICE double mean_near(double centre, double reach) const {
    double sum = 0, found = 0;
    for (std::int64_t n = 0; n < count; ++n) {
      const T* const row = rows + n * kMarginNumbers;
      const double d = static_cast<double>(row[0]) - static_cast<double>(row[1]);
      if (!(std::fabs(d - centre) < reach)) continue;
      sum += d;
      found += 1;
    }
    return found > 0 ? sum / found : static_cast<double>(NAN);
  }
  BANYAN_HOST_DEVICE double mean() const {
    double sum = 0;
    for (std::int64_t n = 0; n < count; ++n)
      sum +=
          static_cast<double>(rows[n * kMarginNumbers]) - static_cast<double>(rows[n * kMarginNumbers + 1]);
    return sum / static_cast<double>(count);
  }
  /// Where `steps` steps lead from there.
  BANYAN_HOST_DEVICE double shifted(double centre, int steps) const {
    for (int step = 0; step < steps; ++step) {
      double next = mean_near(centre, 0.1);
      if (std::isnan(next) && step == 0) {
        centre = mean();
        next = mean_near(centre, 0.1);
      }
      if (std::isnan(next)) return centre;  // the mean of all, which none is near to
      const bool rests = std::fabs(next - centre) < 0.001;
      centre = next;
      if (rests) break;
    }
    return centre;
  }
  BANYAN_HOST_DEVICE void operator()(std::int64_t) const {
    const auto before = static_cast<double>(margin[0]);
    const double of_batch = count == 0    ? static_cast<double>(NAN)
                            : before == 0 ? shifted(mean(), 20)
                                          : shifted(before, 1);
    const double now = before == 0 ? of_batch : 0.9 * before + 0.1 * of_batch;
    moved[0] = std::isfinite(now) ? static_cast<T>(now) : margin[0];
  }
};

template <class T>
struct MarginStatistics {
  std::int64_t count;
  const T *rows, *scale, *margin;
  T* y;
  /// of one of the numbers, or of `least` where that is greater
  BANYAN_HOST_DEVICE T mean(std::int64_t which, double least) const {
    double sum = 0;
    for (std::int64_t n = 0; n < count; ++n) {
      const auto value = static_cast<double>(rows[n * kMarginNumbers + which]);
      sum += value < least ? least : value;
    }
    return count > 0 ? static_cast<T>(sum / static_cast<double>(count)) : T(0);
  }
  BANYAN_HOST_DEVICE void operator()(std::int64_t) const {
    y[0] = scale != nullptr ? scale[0] : mean(3, -HUGE_VAL);
    y[1] = mean(0, -HUGE_VAL);
    y[2] = mean(1, -HUGE_VAL);
    y[3] = mean(2, -1);
    y[4] = margin[0];
  }
};

template <class T>
struct SubtractMargin {
  std::int64_t classes;
  bool each;
  const T *labels, *scale, *margin;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t n) const {
    const std::int64_t label = index_below(labels[n], classes);
    if (label >= 0 && margin[0] > T(0)) y[n * classes + label] -= scale[each ? n : 0] * margin[0];
  }
};

/// Of one scale, which `samples` share.
template <class T>
struct SubtractMarginSlope {
  std::int64_t classes, samples;
  const T *labels, *margin, *dy;
  T* dscale;
  BANYAN_HOST_DEVICE void operator()(std::int64_t d) const {
    if (!(margin[0] > T(0))) return;
    double sum = 0;
    for (std::int64_t n = d * samples; n < (d + 1) * samples; ++n) {
      const std::int64_t label = index_below(labels[n], classes);
      if (label >= 0) sum += static_cast<double>(dy[n * classes + label]);
    }
    dscale[d] -= static_cast<T>(sum * static_cast<double>(margin[0]));
  }
};

inline void require_scale(const char* op, const Tensor& scale, std::int64_t samples) {
  if (scale.count() != 1) require_count(op, scale, samples);
}

}  // namespace detail

template <class Backend>
void margin_rows_on(Context& context, const Tensor& x, const Tensor& labels, const Tensor& scale,
                    Tensor& rows, Tensor& noted) {
  const std::int64_t samples = labels.count();
  require_count("margin_rows, rows", rows, samples * kMarginNumbers);
  require_count("margin_rows, noted", noted, 3);
  detail::require_scale("margin_rows, scale", scale, samples);
  if (samples == 0) return;
  const std::int64_t classes = x.count() / samples;
  const Broadcast over{1, samples, classes};
  dispatch_float(x.dtype(), "margin_rows", [&]<class T>() {
    T* const to = rows.data<T>();
    Backend::for_each(
        context, samples,
        detail::MarginRow<T>{classes, scale.count() > 1, x.data<T>(), labels.data<T>(), scale.data<T>(), to});
    Backend::reduce_channels(context, over, detail::MarginLargest<T>{{classes, x.data<T>(), to}});
    Backend::reduce_channels(context, over, detail::MarginLogSum<T>{{classes, x.data<T>(), to}});
    Backend::reduce_all(context, samples,
                        detail::FindWrongLabel<T>{{noted.data<double>(), 1}, classes, {}, labels.data<T>()});
  });
}

template <class Backend>
void move_margin_on(Context& context, const Tensor& rows, const Tensor& margin, Tensor& moved) {
  require_count("move_margin, margin", margin, 1);
  require_count("move_margin, moved", moved, 1);
  const std::int64_t count = rows.count() / kMarginNumbers;
  dispatch_float(rows.dtype(), "move_margin", [&]<class T>() {
    Backend::for_each_long(context, 1, count,
                           detail::MoveMargin<T>{count, rows.data<T>(), margin.data<T>(), moved.data<T>()});
  });
}

template <class Backend>
void margin_statistics_on(Context& context, const Tensor& rows, const Tensor& scale, const Tensor& margin,
                          Tensor& y) {
  require_count("margin_statistics", y, 5);
  require_count("margin_statistics, margin", margin, 1);
  const std::int64_t count = rows.count() / kMarginNumbers;
  dispatch_float(rows.dtype(), "margin_statistics", [&]<class T>() {
    Backend::for_each_long(context, 1, count,
                           detail::MarginStatistics<T>{count, rows.data<T>(), detail::optional_data<T>(scale),
                                                       margin.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void subtract_margin_on(Context& context, const Tensor& labels, const Tensor& scale, const Tensor& margin,
                        Tensor& y) {
  const std::int64_t samples = labels.count();
  require_count("subtract_margin, margin", margin, 1);
  detail::require_scale("subtract_margin, scale", scale, samples);
  if (samples == 0) return;
  dispatch_float(y.dtype(), "subtract_margin", [&]<class T>() {
    Backend::for_each(context, samples,
                      detail::SubtractMargin<T>{y.count() / samples, scale.count() > 1, labels.data<T>(),
                                                scale.data<T>(), margin.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void subtract_margin_backward_on(Context& context, const Tensor& labels, const Tensor& margin,
                                 const Tensor& dy, Tensor& dscale) {
  const std::int64_t samples = labels.count();
  require_count("subtract_margin_backward, margin", margin, 1);
  detail::require_scale("subtract_margin_backward, dscale", dscale, samples);
  if (samples == 0) return;
  const std::int64_t each = samples / dscale.count();
  dispatch_float(dy.dtype(), "subtract_margin_backward", [&]<class T>() {
    Backend::for_each_long(context, dscale.count(), each,
                           detail::SubtractMarginSlope<T>{dy.count() / samples, each, labels.data<T>(),
                                                          margin.data<T>(), dy.data<T>(), dscale.data<T>()});
  });
}

template <class Backend>
struct DefineGlobalMargin {
  DefineGlobalMargin() {
    margin_rows.define(Backend::kind, &margin_rows_on<Backend>);
    move_margin.define(Backend::kind, &move_margin_on<Backend>);
    margin_statistics.define(Backend::kind, &margin_statistics_on<Backend>);
    subtract_margin.define(Backend::kind, &subtract_margin_on<Backend>);
    subtract_margin_backward.define(Backend::kind, &subtract_margin_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
