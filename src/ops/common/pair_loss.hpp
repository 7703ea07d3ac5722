// Losses over all pairs of samples, for every back end (see backend.hpp).
#pragma once

#include <cmath>

#include "banyan/ops/pair_loss.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"

namespace banyan::ops {
namespace detail {

template <class T>
BANYAN_HOST_DEVICE inline double product_of_labels(const T* a, const T* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t k = 0; k < count; ++k) sum += static_cast<double>(a[k]) * static_cast<double>(b[k]);
  return sum;
}

/// Reduces over the pairs and then the elements of x.
template <class T>
struct HashingLoss {
  struct State {
    double pairs, distances;
  };
  Hashing how;
  std::int64_t samples;
  const T *x, *squares, *labels;
  T* factors;
  double* partial;
  BANYAN_HOST_DEVICE State identity() const { return {0, 0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t index, std::int64_t) const {
    if (index >= samples * samples) {
      const double value = std::fabs(static_cast<double>(x[index - samples * samples]));
      s.distances += std::fabs(value - 1);
      return;
    }
    const std::int64_t i = index / samples, j = index - i * samples;
    const auto square = static_cast<double>(squares[index]);
    const double missing = how.margin - square;
    const bool alike = i == j || are_alike(i, j);
    factors[index] = i == j ? T(0) : alike ? T(1) : missing > 0 ? T(-1) : T(0);
    if (i < j) s.pairs += alike ? square : missing < 0 ? 0 : missing;  // NaN stays NaN
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const {
    into.pairs += later.pairs;
    into.distances += later.distances;
  }
  BANYAN_HOST_DEVICE void store(std::int64_t, const State& s) const {
    const auto n = static_cast<double>(samples);
    partial[0] =
        (samples > 1 ? s.pairs / 2 / (n * (n - 1)) : 0) + (samples > 0 ? how.tradeoff * s.distances / n : 0);
    partial[1] = n;
  }

 private:
  BANYAN_HOST_DEVICE bool are_alike(std::int64_t i, std::int64_t j) const {
    if (how.labels == 1) return labels[i] == labels[j];
    return product_of_labels(labels + i * how.labels, labels + j * how.labels, how.labels) > 0;
  }
};

template <class T>
struct HashingGradient {
  std::int64_t samples, length;
  double tradeoff;
  const T *x, *factors, *grad_loss;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t at) const {
    const std::int64_t i = at / length, k = at - i * length;
    const T value = x[at];
    double sum = 0;
    for (std::int64_t j = 0; j < samples; ++j)
      sum += static_cast<double>(factors[i * samples + j]) * static_cast<double>(value - x[j * length + k]);
    const auto n = static_cast<double>(samples);
    const bool rises = value >= T(1) || (value <= T(0) && value >= T(-1));
    const double pairs = samples > 1 ? sum / (n * (n - 1)) : 0;
    dx[at] = static_cast<T>(static_cast<double>(grad_loss[0]) * (pairs + (rises ? tradeoff : -tradeoff) / n));
  }
};

template <class T>
struct PairwiseLoss {
  struct State {
    double loss, counted;
  };
  LabelledPairs how;
  std::int64_t b_samples;
  const T *products, *a_labels, *b_labels;
  T* factors;
  double* partial;
  BANYAN_HOST_DEVICE State identity() const { return {0, 0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t index, std::int64_t) const {
    const std::int64_t i = index / b_samples, j = index - i * b_samples;
    const T *const a = a_labels + i * how.labels, *const b = b_labels + j * how.labels;
    const double product = product_of_labels(a, b, how.labels);
    factors[index] = T(0);
    if (!how.all && !(product >= 0 && product < static_cast<double>(how.labels))) return;
    const bool alike = product > 0;
    const double counted = alike ? how.alike : 1;
    double weight = counted;
    if (how.continuous && alike)
      weight *= 4 * product * product / (of_itself(a) * of_itself(b));  // neither is 0, or the product were
    const auto p = static_cast<double>(products[index]);
    const double small = std::exp(-std::fabs(p));
    const double less = alike ? p : 0;
    s.loss += weight * ((p > 0 ? p : 0) - less + std::log1p(small));
    s.counted += counted;
    const double sigmoid = (p < 0 ? small : 1) / (1 + small);
    factors[index] = static_cast<T>(weight * (sigmoid - (alike ? 1 : 0)));
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const {
    into.loss += later.loss;
    into.counted += later.counted;
  }
  BANYAN_HOST_DEVICE void store(std::int64_t, const State& s) const {
    partial[0] = how.scale * s.loss;
    partial[1] = s.counted;
  }

 private:
  BANYAN_HOST_DEVICE double of_itself(const T* row) const { return product_of_labels(row, row, how.labels); }
};

}  // namespace detail

template <class Backend>
void hashing_loss_on(Context& context, const Tensor& x, const Tensor& squares, const Tensor& labels,
                     const Hashing& how, Tensor& factors, Tensor& partial) {
  require_count("hashing_loss, partial", partial, 2);
  require_alike("hashing_loss", squares, factors);
  const std::int64_t samples = labels.count() / how.labels;
  require_count("hashing_loss, labels", labels, samples * how.labels);
  require_count("hashing_loss, squares", squares, samples * samples);
  dispatch_float(x.dtype(), "hashing_loss", [&]<class T>() {
    Backend::reduce_all(context, squares.count() + x.count(),
                        detail::HashingLoss<T>{how, samples, x.data<T>(), squares.data<T>(), labels.data<T>(),
                                               factors.data<T>(), partial.data<double>()});
  });
}

template <class Backend>
void hashing_backward_on(Context& context, const Tensor& x, const Tensor& factors, double tradeoff,
                         const Tensor& grad_loss, Tensor& dx) {
  require_alike("hashing_backward", x, dx);
  const std::int64_t samples = x.shape()[0];
  require_count("hashing_backward, factors", factors, samples * samples);
  if (dx.count() == 0) return;
  dispatch_float(x.dtype(), "hashing_backward", [&]<class T>() {
    Backend::for_each_long(context, dx.count(), samples,
                           detail::HashingGradient<T>{samples, x.count() / samples, tradeoff, x.data<T>(),
                                                      factors.data<T>(), grad_loss.data<T>(), dx.data<T>()});
  });
}

template <class Backend>
void pairwise_loss_on(Context& context, const Tensor& products, const Tensor& a_labels,
                      const Tensor& b_labels, const LabelledPairs& how, Tensor& factors, Tensor& partial) {
  require_count("pairwise_loss, partial", partial, 2);
  require_alike("pairwise_loss", products, factors);
  const std::int64_t a_samples = a_labels.count() / how.labels, b_samples = b_labels.count() / how.labels;
  require_count("pairwise_loss, products", products, a_samples * b_samples);
  dispatch_float(products.dtype(), "pairwise_loss", [&]<class T>() {
    Backend::reduce_all(
        context, products.count(),
        detail::PairwiseLoss<T>{how, b_samples, products.data<T>(), a_labels.data<T>(), b_labels.data<T>(),
                                factors.data<T>(), partial.data<double>()});
  });
}

template <class Backend>
struct DefinePairLoss {
  DefinePairLoss() {
    hashing_loss.define(Backend::kind, &hashing_loss_on<Backend>);
    hashing_backward.define(Backend::kind, &hashing_backward_on<Backend>);
    pairwise_loss.define(Backend::kind, &pairwise_loss_on<Backend>);
  }
};

}  // namespace banyan::ops
