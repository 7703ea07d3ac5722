// Local response normalization: y = x * scale^-beta.
//
//   across channels   scale = k + alpha / n * sum of x^2 over n channels centred on this one
//   within a channel  scale = 1 + alpha / n^2 * sum of x^2 over n x n pixels centred on this one; Caffe's
//                     padded average never overhangs input + pad here, so its divisor is always n^2
//
// With r = dy * y / scale and a symmetric window of n:
//   dx = dy * scale^-beta - 2 alpha beta / divisor * x * (sum of r over the window)
#pragma once

#include <cmath>

#include "banyan/ops/normalization.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"

namespace banyan::ops {
namespace detail {

/// scale^-beta. The usual beta needs no power function, so it vectorizes.
template <class T>
BANYAN_HOST_DEVICE inline T inverse_power(T scale, T beta) {
  if (beta == T(0.75)) {
    const T root = std::sqrt(scale);
    return T(1) / (root * std::sqrt(root));
  }
  return std::pow(scale, -beta);
}

/// The n elements around element i: `length` positions along an axis, `step` apart.
struct LrnAxis {
  std::int64_t length, step;
};

template <class T>
struct LrnTerms {
  T alpha_over_n, beta, k;
};

/// The window of element i: rows of pixels within a channel, or a single row of channels.
struct LrnWindow {
  LrnAxis outer, inner;  ///< outer.length == 1 across channels
  std::int64_t half;     ///< n / 2
  BANYAN_HOST_DEVICE static std::int64_t begin(std::int64_t at, std::int64_t half) {
    return at > half ? at - half : 0;
  }
  BANYAN_HOST_DEVICE static std::int64_t end(std::int64_t at, std::int64_t half, std::int64_t length) {
    return at + half + 1 < length ? at + half + 1 : length;
  }
  /// Sum of term(j) over the window, in ascending order.
  template <class T, class Term>
  BANYAN_HOST_DEVICE T sum(std::int64_t i, const Term& term) const {
    const std::int64_t row = i / outer.step % outer.length, column = i / inner.step % inner.length;
    const std::int64_t origin = i - row * outer.step - column * inner.step;
    const std::int64_t row_end = end(row, half, outer.length), column_end = end(column, half, inner.length);
    T total = 0;
    for (std::int64_t r = begin(row, half); r < row_end; ++r)
      for (std::int64_t c = begin(column, half); c < column_end; ++c)
        total += term(origin + r * outer.step + c * inner.step);
    return total;
  }
};

template <class T>
struct LrnSquare {
  const T* x;
  BANYAN_HOST_DEVICE Arithmetic<T> operator()(std::int64_t i) const { return x[i] * x[i]; }
};
template <class T>
struct LrnRatio {
  const T *y, *dy;
  const Arithmetic<T>* scale;
  BANYAN_HOST_DEVICE Arithmetic<T> operator()(std::int64_t i) const { return dy[i] * y[i] / scale[i]; }
};

template <class T>
struct LrnForward {
  using A = Arithmetic<T>;
  LrnWindow window;
  LrnTerms<A> terms;
  const T* x;
  A* scale;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const A s = terms.k + terms.alpha_over_n * window.sum<A>(i, LrnSquare<T>{x});
    scale[i] = s;
    y[i] = static_cast<T>(x[i] * inverse_power(s, terms.beta));
  }
};

template <class T>
struct LrnBackward {
  using A = Arithmetic<T>;
  LrnWindow window;
  LrnTerms<A> terms;
  const T *x, *y, *dy;
  const A* scale;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const A sum = window.sum<A>(i, LrnRatio<T>{y, dy, scale});
    dx[i] = static_cast<T>(dy[i] * inverse_power(scale[i], terms.beta) -
                           A(2) * terms.alpha_over_n * terms.beta * x[i] * sum);
  }
};

template <class T>
LrnTerms<T> lrn_terms(const LrnParameters& p) {
  const double divisor = static_cast<double>(p.within_channel ? p.size * p.size : p.size);
  return {static_cast<T>(p.alpha / divisor), static_cast<T>(p.beta),
          static_cast<T>(p.within_channel ? 1 : p.k)};
}

inline LrnWindow lrn_window(const LrnParameters& p, const Tensor& x) {
  if (p.size < 1 || p.size % 2 == 0) bad_input("LRN: local_size must be odd, found ", p.size);
  const ChannelView view = channel_view(x);
  const bool last = view.channels_last;
  if (!p.within_channel) return {{1, 1}, {view.channels, last ? 1 : view.inner}, p.size / 2};
  if (x.shape().axes() != 4) bad_input("LRN within a channel needs 4 axes, found ", x.shape().axes());
  const std::int64_t step = last ? view.channels : 1, columns = x.shape()[3];
  return {{x.shape()[2], step * columns}, {columns, step}, p.size / 2};
}

}  // namespace detail

template <class Backend>
void lrn_forward_on(Context& context, const LrnParameters& parameters, const Tensor& x, Tensor& scale,
                    Tensor& y) {
  require_alike("lrn_forward", x, scale);
  require_alike("lrn_forward", x, y);
  if (x.count() == 0) return;
  const detail::LrnWindow window = detail::lrn_window(parameters, x);
  dispatch_storage(x.dtype(), "lrn_forward", [&]<class T>() {
    using A = Arithmetic<T>;
    Backend::for_each(context, x.count(),
                      detail::LrnForward<T>{window, detail::lrn_terms<A>(parameters), x.data<T>(),
                                            scale.data<A>(), y.data<T>()});
  });
}

template <class Backend>
void lrn_backward_on(Context& context, const LrnParameters& parameters, const Tensor& x, const Tensor& y,
                     const Tensor& scale, const Tensor& dy, Tensor& dx) {
  for (const Tensor* other : {&y, &scale, &dy}) require_alike("lrn_backward", x, *other);
  require_alike("lrn_backward", x, dx);
  if (x.count() == 0) return;
  const detail::LrnWindow window = detail::lrn_window(parameters, x);
  dispatch_storage(x.dtype(), "lrn_backward", [&]<class T>() {
    using A = Arithmetic<T>;
    Backend::for_each(context, x.count(),
                      detail::LrnBackward<T>{window, detail::lrn_terms<A>(parameters), x.data<T>(),
                                             y.data<T>(), dy.data<T>(), scale.data<A>(), dx.data<T>()});
  });
}

}  // namespace banyan::ops
