// Losses of images that were made of others, for every back end (see backend.hpp): elements of a difference,
// windows of two images.
#pragma once

#include "banyan/ops/photometric_loss.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/optional_data.hpp"
#include "ops/common/raised.hpp"
#include "ops/common/sums.hpp"

namespace banyan::ops {
namespace detail {

template <class T>
struct CharbonnierTerms {
  const T *x, *weights;
  std::int64_t of_sample, further_weights;  ///< elements of x; how many more weights there are
  T alpha, squared_beta, squared_epsilon;

  BANYAN_HOST_DEVICE T weight(std::int64_t i) const {
    if (weights == nullptr) return T(1);
    return weights[further_weights == 0 ? i : i + i / of_sample * further_weights];
  }
  BANYAN_HOST_DEVICE T base(std::int64_t i) const { return squared_beta * x[i] * x[i] + squared_epsilon; }
  /// The loss.
  BANYAN_HOST_DEVICE T operator[](std::int64_t i) const { return weight(i) * raised(base(i), alpha); }
};

template <class T>
struct CharbonnierGradient {
  CharbonnierTerms<T> terms;
  const T* scale;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const T base = terms.base(i);
    const T slope = raised_slope(base, terms.alpha) * (T(2) * terms.squared_beta * terms.x[i]);
    dx[i] = base == T(0) ? T(0) : terms.weight(i) * slope * scale[0];
  }
};

/// Planes of H x W pixels, and the windows of each.
struct WindowedPlanes {
  std::int64_t height, width, size, stride, down, across;
  double c1, c2;

  BANYAN_HOST_DEVICE std::int64_t pixels() const { return height * width; }
  BANYAN_HOST_DEVICE std::int64_t windows() const { return down * across; }
  /// How many pixels of a window that begins at `start` there are.
  BANYAN_HOST_DEVICE std::int64_t inside(std::int64_t start, std::int64_t length) const {
    return length - start < size ? length - start : size;
  }
  /// The first window that holds a pixel, if one does.
  BANYAN_HOST_DEVICE std::int64_t first_with(std::int64_t pixel) const {
    return pixel < size ? 0 : (pixel - size) / stride + 1;
  }
};

/// One window of one plane.
template <class T>
struct WindowSimilarity {
  WindowedPlanes over;
  std::int64_t count;  ///< of all windows
  const T *x, *y;
  const double* weights;
  double* found;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t plane = i / over.windows(), window = i % over.windows();
    const std::int64_t row = window / over.across * over.stride, column = window % over.across * over.stride;
    const std::int64_t rows = over.inside(row, over.height), columns = over.inside(column, over.width);
    double mean_x = 0, mean_y = 0, xx = 0, yy = 0, xy = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t at = plane * over.pixels() + (row + r) * over.width + column;
      for (std::int64_t c = 0; c < columns; ++c) {
        const double weight = weights[r] * weights[c];
        const auto a = static_cast<double>(x[at + c]), b = static_cast<double>(y[at + c]);
        mean_x += weight * a;
        mean_y += weight * b;
        xx += weight * a * a;
        yy += weight * b * b;
        xy += weight * a * b;
      }
    }
    const double means = mean_x * mean_x + mean_y * mean_y + over.c1;
    const double variances = (xx - mean_x * mean_x) + (yy - mean_y * mean_y) + over.c2;
    const double of_means = (2 * mean_x * mean_y + over.c1) / means;
    const double of_variances = (2 * (xy - mean_x * mean_y) + over.c2) / variances;
    const double by_y = -2 * of_means / variances, by_x = -of_variances * by_y;
    found[i] = -2 * of_variances * (mean_y - mean_x * of_means) / means - by_y * mean_y - by_x * mean_x;
    found[count + i] = by_y;
    found[2 * count + i] = by_x;
    found[3 * count + i] = 1 - of_means * of_variances;
  }
};

/// One pixel of the gradient, from all windows that hold it.
template <class T>
struct WindowSimilarityGradient {
  WindowedPlanes over;
  std::int64_t count;
  const T *x, *y;
  const double *weights, *found;
  const T* scale;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t plane = i / over.pixels(), row = i % over.pixels() / over.width,
                       column = i % over.width;
    double constant = 0, by_y = 0, by_x = 0;
    for (std::int64_t p = over.first_with(row); p < over.down && p * over.stride <= row; ++p)
      for (std::int64_t q = over.first_with(column); q < over.across && q * over.stride <= column; ++q) {
        const double weight = weights[row - p * over.stride] * weights[column - q * over.stride];
        const double* const of_window = found + (plane * over.down + p) * over.across + q;
        constant += weight * of_window[0];
        by_y += weight * of_window[count];
        by_x += weight * of_window[2 * count];
      }
    const double slope = constant + by_y * static_cast<double>(y[i]) + by_x * static_cast<double>(x[i]);
    dx[i] = static_cast<T>(slope * static_cast<double>(scale[0]));
  }
};

template <class T>
CharbonnierTerms<T> charbonnier_terms(const char* op, const WeightedDifference& what,
                                      const Charbonnier& how) {
  const Shape& x = what.x.shape();
  const std::int64_t of_sample = x.axes() > 0 && x[0] > 0 ? what.x.count() / x[0] : 1;
  std::int64_t further = 0;
  if (what.weights.defined()) {
    const Shape& weights = what.weights.shape();
    if (weights.axes() < 1 || x.axes() < 1 || weights[0] != x[0] || weights.count() < x.count() ||
        !what.x.is_contiguous() || !what.weights.is_contiguous())
      runtime_failure(op, ": ", x.to_string(), " and weights ", weights.to_string(), " do not match");
    if (x[0] > 0) further = what.weights.count() / x[0] - of_sample;
  }
  return {what.x.data<T>(),
          optional_data<T>(what.weights),
          of_sample,
          further,
          static_cast<T>(how.alpha),
          static_cast<T>(how.beta * how.beta),
          static_cast<T>(how.epsilon * how.epsilon)};
}

inline WindowedPlanes windowed_planes(const char* op, const ComparedImages& what,
                                      const SimilarityWindows& how, const Tensor& weights,
                                      const Tensor& found, std::int64_t& count) {
  const Shape& x = what.x.shape();
  require_alike(op, what.x, what.y);
  require_count(op, weights, how.size);
  if (x.axes() != 4 || !what.x.is_contiguous())
    runtime_failure(op, ": expected contiguous images, found ", x.to_string());
  const std::int64_t down = how.along(x[2]), across = how.along(x[3]);
  count = x[0] * x[1] * down * across;
  require_count(op, found, 4 * count);
  return {x[2], x[3], how.size, how.stride, down, across, how.c1, how.c2};
}

}  // namespace detail

template <class Backend>
void charbonnier_forward_on(Context& context, const WeightedDifference& what, const Charbonnier& how,
                            Tensor& sum) {
  require_count("charbonnier_forward, sum", sum, 1);
  dispatch_float(what.x.dtype(), "charbonnier_forward", [&]<class T>() {
    const auto terms = detail::charbonnier_terms<T>("charbonnier_forward", what, how);
    Backend::reduce_all(context, what.x.count(),
                        SumOf<detail::CharbonnierTerms<T>, Identity>{terms, sum.data<double>()});
  });
}

template <class Backend>
void charbonnier_backward_on(Context& context, const WeightedDifference& what, const Charbonnier& how,
                             const Tensor& scale, Tensor& dx) {
  require_alike("charbonnier_backward", what.x, dx);
  require_count("charbonnier_backward, scale", scale, 1);
  dispatch_float(what.x.dtype(), "charbonnier_backward", [&]<class T>() {
    Backend::for_each(
        context, dx.count(),
        detail::CharbonnierGradient<T>{detail::charbonnier_terms<T>("charbonnier_backward", what, how),
                                       scale.data<T>(), dx.data<T>()});
  });
}

template <class Backend>
void similarity_forward_on(Context& context, const ComparedImages& what, const SimilarityWindows& how,
                           const Tensor& weights, Tensor& found) {
  std::int64_t count = 0;
  const detail::WindowedPlanes over =
      detail::windowed_planes("similarity_forward", what, how, weights, found, count);
  dispatch_float(what.x.dtype(), "similarity_forward", [&]<class T>() {
    Backend::for_each_long(context, count, how.size * how.size,
                           detail::WindowSimilarity<T>{over, count, what.x.data<T>(), what.y.data<T>(),
                                                       weights.data<double>(), found.data<double>()});
  });
}

template <class Backend>
void similarity_backward_on(Context& context, const ComparedImages& what, const SimilarityWindows& how,
                            const Tensor& weights, const Tensor& found, const Tensor& scale, Tensor& dx) {
  std::int64_t count = 0;
  const detail::WindowedPlanes over =
      detail::windowed_planes("similarity_backward", what, how, weights, found, count);
  require_alike("similarity_backward", what.x, dx);
  require_count("similarity_backward, scale", scale, 1);
  dispatch_float(what.x.dtype(), "similarity_backward", [&]<class T>() {
    Backend::for_each_long(context, dx.count(), 16,
                           detail::WindowSimilarityGradient<T>{
                               over, count, what.x.data<T>(), what.y.data<T>(), weights.data<double>(),
                               found.data<double>(), scale.data<T>(), dx.data<T>()});
  });
}

template <class Backend>
struct DefinePhotometricLoss {
  DefinePhotometricLoss() {
    charbonnier_forward.define(Backend::kind, &charbonnier_forward_on<Backend>);
    charbonnier_backward.define(Backend::kind, &charbonnier_backward_on<Backend>);
    similarity_forward.define(Backend::kind, &similarity_forward_on<Backend>);
    similarity_backward.define(Backend::kind, &similarity_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
