// Norms of vectors along an axis for every back end (see backend.hpp).
#pragma once

#include <cmath>

#include "banyan/ops/norms.hpp"
#include "ops/common/labels.hpp"

namespace banyan::ops {
namespace detail {

/// Of neighbouring elements: reduces over memory seen as 1 x positions x channels.
template <class T>
struct DotOfRow {
  struct State {
    double sum;
  };
  double begin;
  const T *a, *b;
  double* products;
  BANYAN_HOST_DEVICE State identity() const { return {0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t) const {
    s.sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const { into.sum += later.sum; }
  BANYAN_HOST_DEVICE void store(std::int64_t position, const State& s) const {
    products[position] = begin + s.sum;
  }
};
/// Of elements `inner` apart: one position per index.
template <class T>
struct DotOfColumn {
  double begin;
  Channels over;
  const T *a, *b;
  double* products;
  BANYAN_HOST_DEVICE void operator()(std::int64_t position) const {
    const std::int64_t first = first_class(over, position);
    double sum = begin;
    for (std::int64_t c = 0; c < over.channels; ++c) {
      const std::int64_t i = first + c * over.inner;
      sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    }
    products[position] = sum;
  }
};

/// The position of element i, which is in run `run` of neighbours: kRows: the channels of one position, else
/// the positions of one channel.
template <bool kRows>
BANYAN_HOST_DEVICE inline std::int64_t position_of(const Channels& over, std::int64_t i, std::int64_t run) {
  if constexpr (kRows) return run;
  return run / over.channels * over.inner + (i - run * over.inner);
}

template <class T, bool kRows>
struct DivideByNorm {
  Channels over;
  const T* x;
  const double* squares;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t run) const {
    y[i] = x[i] * static_cast<T>(1 / std::sqrt(squares[position_of<kRows>(over, i, run)]));
  }
};
template <class T, bool kRows>
struct DivideByNormGradient {
  Channels over;
  const T *x, *dy;
  const double *squares, *products;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t run) const {
    const std::int64_t position = position_of<kRows>(over, i, run);
    const double square = squares[position];
    const T along = static_cast<T>(products[position] / square);
    dx[i] = (dy[i] - x[i] * along) * static_cast<T>(1 / std::sqrt(square));
  }
};
template <class T, bool kRows>
struct ScaleVectors {
  Channels over;
  const T *x, *factors;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t run) const {
    y[i] = x[i] * factors[position_of<kRows>(over, i, run)];
  }
};

struct DeviationStatistics {
  std::int64_t channels;
  double eps;
  bool with_variance;
  const double* moments;
  double *mean_inv_std, *stretch;
  BANYAN_HOST_DEVICE void operator()(std::int64_t c) const {
    const double count = moments[0], squares = moments[1 + channels + c];
    const double deviation = count > 0 ? std::sqrt(squares / count) : 0;
    mean_inv_std[c] = moments[1 + c];
    mean_inv_std[channels + c] = with_variance ? 1 / (deviation + eps) : 1;
    stretch[c] = with_variance ? (deviation > 0 ? (deviation + eps) / deviation : 1) : 0;
  }
};

inline void require_vectors(const char* op, const Tensor& x, const Tensor& per_position,
                            const Channels& over) {
  require_count(op, x, over.outer * over.channels * over.inner);
  require_count(op, per_position, over.outer * over.inner);
}

/// Calls body.operator()<kRows>(runs of neighbours).
template <class Body>
void with_runs(const Channels& over, const Body& body) {
  if (over.inner == 1)
    body.template operator()<true>(Broadcast{1, over.outer, over.channels});
  else
    body.template operator()<false>(Broadcast{1, over.outer * over.channels, over.inner});
}

}  // namespace detail

template <class Backend>
void dot_products_on(Context& context, const Tensor& a, const Tensor& b, const Channels& over, double add,
                     Tensor& products) {
  detail::require_vectors("dot_products", a, products, over);
  require_alike("dot_products", a, b);
  dispatch_float(a.dtype(), "dot_products", [&]<class T>() {
    auto* to = products.data<double>();
    if (over.inner == 1)
      Backend::reduce_channels(context, Broadcast{1, over.outer, over.channels},
                               detail::DotOfRow<T>{add, a.data<T>(), b.data<T>(), to});
    else
      Backend::for_each(context, over.outer * over.inner,
                        detail::DotOfColumn<T>{add, over, a.data<T>(), b.data<T>(), to});
  });
}

template <class Backend>
void divide_by_norm_on(Context& context, const Tensor& x, const Tensor& squares, const Channels& over,
                       Tensor& y) {
  detail::require_vectors("divide_by_norm", x, squares, over);
  require_alike("divide_by_norm", x, y);
  dispatch_float(x.dtype(), "divide_by_norm", [&]<class T>() {
    detail::with_runs(over, [&]<bool kRows>(const Broadcast& runs) {
      Backend::for_each_channel(
          context, runs,
          detail::DivideByNorm<T, kRows>{over, x.data<T>(), squares.data<double>(), y.data<T>()});
    });
  });
}

template <class Backend>
void divide_by_norm_backward_on(Context& context, const Tensor& x, const Tensor& dy, const Tensor& squares,
                                const Tensor& products, const Channels& over, Tensor& dx) {
  detail::require_vectors("divide_by_norm_backward", x, squares, over);
  detail::require_vectors("divide_by_norm_backward", dy, products, over);
  require_alike("divide_by_norm_backward", x, dx);
  dispatch_float(x.dtype(), "divide_by_norm_backward", [&]<class T>() {
    detail::with_runs(over, [&]<bool kRows>(const Broadcast& runs) {
      Backend::for_each_channel(
          context, runs,
          detail::DivideByNormGradient<T, kRows>{over, x.data<T>(), dy.data<T>(), squares.data<double>(),
                                                 products.data<double>(), dx.data<T>()});
    });
  });
}

template <class Backend>
void scale_vectors_on(Context& context, const Tensor& x, const Tensor& factors, const Channels& over,
                      Tensor& y) {
  detail::require_vectors("scale_vectors", x, factors, over);
  require_alike("scale_vectors", x, y);
  dispatch_float(x.dtype(), "scale_vectors", [&]<class T>() {
    detail::with_runs(over, [&]<bool kRows>(const Broadcast& runs) {
      Backend::for_each_channel(
          context, runs, detail::ScaleVectors<T, kRows>{over, x.data<T>(), factors.data<T>(), y.data<T>()});
    });
  });
}

template <class Backend>
void deviation_statistics_on(Context& context, const Tensor& moments, double eps, bool with_variance,
                             Tensor& mean_inv_std, Tensor& stretch) {
  const std::int64_t channels = stretch.count();
  require_count("deviation_statistics, moments", moments, 1 + 2 * channels);
  require_count("deviation_statistics, mean_inv_std", mean_inv_std, 2 * channels);
  Backend::for_each(context, channels,
                    detail::DeviationStatistics{channels, eps, with_variance, moments.data<double>(),
                                                mean_inv_std.data<double>(), stretch.data<double>()});
}

template <class Backend>
struct DefineNorms {
  DefineNorms() {
    dot_products.define(Backend::kind, &dot_products_on<Backend>);
    divide_by_norm.define(Backend::kind, &divide_by_norm_on<Backend>);
    divide_by_norm_backward.define(Backend::kind, &divide_by_norm_backward_on<Backend>);
    scale_vectors.define(Backend::kind, &scale_vectors_on<Backend>);
    deviation_statistics.define(Backend::kind, &deviation_statistics_on<Backend>);
  }
};

}  // namespace banyan::ops
