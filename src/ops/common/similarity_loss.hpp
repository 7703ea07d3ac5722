// Losses of how alike two vectors are, for every back end (see backend.hpp).
#pragma once

#include <cmath>
#include <utility>

#include "banyan/ops/similarity_loss.hpp"
#include "ops/common/labels.hpp"

namespace banyan::ops {
namespace detail {

struct LikenessSum {
  struct State {
    double sum;
  };
  double count;
  const double *products, *a_squares, *b_squares;
  double* partial;
  BANYAN_HOST_DEVICE State identity() const { return {0}; }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const { into.sum += later.sum; }
  BANYAN_HOST_DEVICE void store(std::int64_t, const State& s) const {
    partial[0] = s.sum;
    partial[1] = count;
  }
};

struct DiceLoss : LikenessSum {
  double *own, *other;
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t n, std::int64_t) const {
    const double divisor = a_squares[n] + b_squares[n] + 1, dice = (2 * products[n] + 1) / divisor;
    s.sum += 1 - dice;
    own[n] = 2 * dice / divisor;
    other[n] = -2 / divisor;
  }
};

struct CosineLoss : LikenessSum {
  double *own_a, *own_b, *other;
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t n, std::int64_t) const {
    const double lengths = std::sqrt(a_squares[n]) * std::sqrt(b_squares[n]);
    const bool none = lengths == 0;  // NaN stays NaN
    const double cosine = none ? 0 : products[n] / lengths;
    s.sum += 1 - cosine;
    own_a[n] = none ? 0 : cosine / a_squares[n];
    own_b[n] = none ? 0 : cosine / b_squares[n];
    other[n] = none ? 0 : -1 / lengths;
  }
};

template <class T>
struct LikenessGradient {
  Channels over;
  const T *a, *b;
  const double *own, *other;
  const T* grad_loss;
  const double* divisor;
  T* da;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t position = i / (over.channels * over.inner) * over.inner + i % over.inner;
    da[i] = static_cast<T>(own[position] * static_cast<double>(a[i]) +
                           other[position] * static_cast<double>(b[i])) *
            loss_scale(grad_loss, divisor);
  }
};

}  // namespace detail

template <class Backend>
void dice_loss_on(Context& context, const Tensor& products, const Tensor& a_squares, const Tensor& b_squares,
                  Tensor& own, Tensor& other, Tensor& partial) {
  for (const Tensor* tensor : {&a_squares, &b_squares, &std::as_const(own), &std::as_const(other)})
    require_count("dice_loss", *tensor, products.count());
  require_count("dice_loss, partial", partial, 2);
  Backend::reduce_all(
      context, products.count(),
      detail::DiceLoss{{static_cast<double>(products.count()), products.data<double>(),
                        a_squares.data<double>(), b_squares.data<double>(), partial.data<double>()},
                       own.data<double>(),
                       other.data<double>()});
}

template <class Backend>
void cosine_loss_on(Context& context, const Tensor& products, const Tensor& a_squares,
                    const Tensor& b_squares, Tensor& own_a, Tensor& own_b, Tensor& other, Tensor& partial) {
  for (const Tensor* tensor :
       {&a_squares, &b_squares, &std::as_const(own_a), &std::as_const(own_b), &std::as_const(other)})
    require_count("cosine_loss", *tensor, products.count());
  require_count("cosine_loss, partial", partial, 2);
  Backend::reduce_all(
      context, products.count(),
      detail::CosineLoss{{static_cast<double>(products.count()), products.data<double>(),
                          a_squares.data<double>(), b_squares.data<double>(), partial.data<double>()},
                         own_a.data<double>(),
                         own_b.data<double>(),
                         other.data<double>()});
}

template <class Backend>
void likeness_backward_on(Context& context, const Tensor& a, const Tensor& b, const Tensor& own,
                          const Tensor& other, const Channels& over, const Tensor& grad_loss,
                          const Tensor& divisor, Tensor& da) {
  for (const Tensor* tensor : {&a, &b, &std::as_const(da)})
    require_count("likeness_backward", *tensor, over.outer * over.channels * over.inner);
  for (const Tensor* tensor : {&own, &other})
    require_count("likeness_backward", *tensor, over.outer * over.inner);
  dispatch_float(a.dtype(), "likeness_backward", [&]<class T>() {
    Backend::for_each(
        context, da.count(),
        detail::LikenessGradient<T>{over, a.data<T>(), b.data<T>(), own.data<double>(), other.data<double>(),
                                    grad_loss.data<T>(), divisor.data<double>(), da.data<T>()});
  });
}

template <class Backend>
struct DefineSimilarityLoss {
  DefineSimilarityLoss() {
    dice_loss.define(Backend::kind, &dice_loss_on<Backend>);
    cosine_loss.define(Backend::kind, &cosine_loss_on<Backend>);
    likeness_backward.define(Backend::kind, &likeness_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
