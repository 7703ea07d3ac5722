// Losses of distances between vectors, for every back end (see backend.hpp).
#pragma once

#include <cmath>
#include <utility>

#include "banyan/ops/basic.hpp"
#include "banyan/ops/distance_loss.hpp"
#include "ops/common/labels.hpp"
#include "ops/common/sums.hpp"

namespace banyan::ops {
namespace detail {

/// The sum of half losses of samples; `partial` as for the other losses.
struct HalfLossSum {
  struct State {
    double sum;
  };
  double *factors, *partial;
  BANYAN_HOST_DEVICE State identity() const { return {0}; }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const { into.sum += later.sum; }
  BANYAN_HOST_DEVICE void store(std::int64_t, const State& s) const {
    partial[0] = s.sum / 2;
    partial[1] = 0;
  }
};

template <class T>
struct ContrastiveLoss : HalfLossSum {
  PairMargin margin;
  const double* squares;
  const T* similar;
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t n, std::int64_t) const {
    const double square = squares[n];
    if (similar[n] >= T(1) || similar[n] <= T(-1)) {
      const double distance = std::sqrt(square), excess = distance - margin.near;
      const double counted = excess < 0 ? 0 : excess;
      s.sum += margin.near > 0 ? counted * counted : square;
      factors[n] = margin.near > 0 ? counted / (distance + 1e-4) : 1;
      return;
    }
    const double distance = margin.legacy ? square : std::sqrt(square);
    const double missing = margin.margin - distance;
    const double counted = missing < 0 ? 0 : missing;  // NaN stays NaN
    s.sum += margin.legacy ? counted : counted * counted;
    if (margin.legacy)
      factors[n] = missing > 0 ? -1 : 0;
    else
      factors[n] = -counted / (distance + 1e-4);  // as Caffe does, so that it stays finite
  }
};

template <class T>
struct EqualLabels {
  const T *a, *b;
  T* similar;
  BANYAN_HOST_DEVICE void operator()(std::int64_t n) const {
    similar[n] = std::trunc(a[n]) == std::trunc(b[n]) ? T(1) : T(0);
  }
};

/// Twice the loss of a triplet, how fast it grows with `near`, and how fast it falls with `far`.
struct TripletTerm {
  double loss, rise, fall;
};
BANYAN_HOST_DEVICE inline TripletTerm triplet_term(const TripletMargin& margin, double near, double far) {
  double loss = margin.margin + near - far, rise = 1, fall = 1;
  if (margin.kind == TripletMargin::Kind::ratio) {
    const double above = near + margin.margin;
    loss = 1 - far / above;
    fall = 1 / above;
    rise = far * fall / above;
  } else if (margin.kind == TripletMargin::Kind::exponential_ratio) {
    // e^far / (e^near + margin), without the size of either.
    const double share = 1 / (1 + margin.margin * std::exp(-near));
    fall = std::exp(far - near) * share;
    loss = 1 - fall;
    rise = fall * share;
  }
  return {loss < 0 ? 0 : loss, loss > 0 ? rise : 0, loss > 0 ? fall : 0};  // NaN stays NaN
}

/// factors: to_near.
struct TripletLoss : HalfLossSum {
  TripletMargin margin;
  const double *near, *far;
  double* to_far;
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t n, std::int64_t) const {
    const TripletTerm term = triplet_term(margin, near[n], far[n]);
    s.sum += term.loss;
    factors[n] = term.rise;
    to_far[n] = term.fall;
  }
};

/// As squared_distances, of each row from the first one of its set.
template <class T>
struct DistanceInSet {
  struct State {
    double sum;
  };
  std::int64_t size, length;
  const T* x;
  double* squares;
  BANYAN_HOST_DEVICE State identity() const { return {0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t row) const {
    const auto d = static_cast<double>(x[i] - x[i - row % size * length]);
    s.sum += d * d;
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const { into.sum += later.sum; }
  BANYAN_HOST_DEVICE void store(std::int64_t row, const State& s) const { squares[row] = s.sum; }
};

/// Of sets; factors: the squared distances, which it overwrites.
struct TripletSetsLoss : HalfLossSum {
  TripletSets sets;
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t set, std::int64_t) const {
    double* const of_set = factors + set * sets.size;
    const double near = of_set[1];
    s.sum += sets.pairs ? near : 0;
    of_set[1] = sets.pairs ? 1 : 0;
    for (std::int64_t n = 2; n < sets.size; ++n) {
      const TripletTerm term = triplet_term(sets.margin, near, of_set[n]);
      s.sum += term.loss;
      of_set[1] += term.rise;
      of_set[n] = -term.fall;
    }
  }
};

template <class T>
struct TripletSetsGradient {
  std::int64_t size, length;
  const T* x;
  const double* factors;
  const T* grad_loss;
  const double* divisor;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / length, place = row % size;
    T sum(0);
    if (place > 0) sum = static_cast<T>(factors[row]) * (x[i] - x[i - place * length]);
    for (std::int64_t n = place > 0 ? size : 1; n < size; ++n)
      sum += static_cast<T>(factors[row + n]) * (x[i] - x[i + n * length]);
    dx[i] = sum * loss_scale(grad_loss, divisor);
  }
};

template <class T>
struct TripletGradient {
  std::int64_t length;
  const T *a, *p, *n;
  const double *to_near, *to_far;
  const T* grad_loss;
  const double* divisor;
  T* da;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t sample = i / length;
    const T sum =
        static_cast<T>(to_near[sample]) * (a[i] - p[i]) - static_cast<T>(to_far[sample]) * (a[i] - n[i]);
    da[i] = sum * loss_scale(grad_loss, divisor);
  }
};

template <class T>
struct PairGradient {
  std::int64_t length;
  const T *a, *b;
  const double* factors;
  const T* grad_loss;
  const double* divisor;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    dx[i] = static_cast<T>(factors[i / length]) * (a[i] - b[i]) * loss_scale(grad_loss, divisor);
  }
};

/// Reduces over memory seen as 1 x (rows of x * rows of w) x length.
template <class T, bool kAbsolute>
struct DistanceToRow {
  struct State {
    double sum;
  };
  std::int64_t rows, length;  ///< of w
  const T *x, *w;
  T* y;
  BANYAN_HOST_DEVICE State identity() const { return {0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t pair) const {
    const std::int64_t k = i - pair * length, row = pair / rows;
    const auto d = static_cast<double>(x[row * length + k] - w[(pair - row * rows) * length + k]);
    s.sum += kAbsolute ? std::abs(d) : d * d;
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const { into.sum += later.sum; }
  BANYAN_HOST_DEVICE void store(std::int64_t pair, const State& s) const { y[pair] = static_cast<T>(s.sum); }
};

template <class T>
struct AbsoluteDistancesGradient {
  RowPairs pairs;
  std::int64_t b_rows;
  double keep;
  const T *a, *b, *dy;
  T* da;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / pairs.length, k = i - row * pairs.length;
    double sum = 0;
    for (std::int64_t n = 0; n < b_rows; ++n) {
      const T difference = a[i] - b[n * pairs.length + k];
      const auto g = static_cast<double>(dy[row * pairs.a_step + n * pairs.b_step]);
      sum += difference > T(0) ? g : difference < T(0) ? -g : 0;
    }
    da[i] = static_cast<T>(keep == 0 ? sum : keep * static_cast<double>(da[i]) + sum);
  }
};

template <class T>
struct Cosine {
  const double *products, *a_squares, *b_squares;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t n) const {
    const double lengths = std::sqrt(a_squares[n]) * std::sqrt(b_squares[n]);
    y[n] = lengths > 0 ? static_cast<T>(products[n] / lengths) : T(0);
  }
};
template <class T>
struct CosineGradient {
  std::int64_t length;
  const T *a, *b;
  const double *products, *a_squares, *b_squares;
  const T* dy;
  T* da;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t n = i / length;
    const double lengths = std::sqrt(a_squares[n]) * std::sqrt(b_squares[n]);
    const double along = products[n] / a_squares[n];
    da[i] = lengths > 0 ? dy[n] * static_cast<T>((b[i] - along * a[i]) / lengths) : T(0);
  }
};

}  // namespace detail

template <class Backend>
void squared_distances_on(Context& context, const Tensor& a, const Tensor& b, Tensor& squares) {
  require_alike("squared_distances", a, b);
  const std::int64_t samples = squares.count();
  if (samples == 0) return;
  dispatch_float(a.dtype(), "squared_distances", [&]<class T>() {
    Backend::reduce_channels(
        context, Broadcast{1, samples, a.count() / samples},
        SumOf<Differences<T>, Square>{{a.data<T>(), b.data<T>()}, squares.data<double>()});
  });
}

template <class Backend>
void contrastive_loss_on(Context& context, const Tensor& squares, const Tensor& similar,
                         const PairMargin& margin, Tensor& factors, Tensor& partial) {
  require_count("contrastive_loss", similar, squares.count());
  require_count("contrastive_loss", factors, squares.count());
  require_count("contrastive_loss, partial", partial, 2);
  dispatch_float(similar.dtype(), "contrastive_loss", [&]<class T>() {
    Backend::reduce_all(context, squares.count(),
                        detail::ContrastiveLoss<T>{{factors.data<double>(), partial.data<double>()},
                                                   margin,
                                                   squares.data<double>(),
                                                   similar.data<T>()});
  });
}

template <class Backend>
void equal_labels_on(Context& context, const Tensor& a, const Tensor& b, Tensor& similar) {
  require_count("equal_labels", a, similar.count());
  require_count("equal_labels", b, similar.count());
  dispatch_float(similar.dtype(), "equal_labels", [&]<class T>() {
    Backend::for_each(context, similar.count(),
                      detail::EqualLabels<T>{a.data<T>(), b.data<T>(), similar.data<T>()});
  });
}

template <class Backend>
void triplet_loss_on(Context& context, const Tensor& near, const Tensor& far, const TripletMargin& margin,
                     Tensor& to_near, Tensor& to_far, Tensor& partial) {
  for (const Tensor* tensor : {&far, &std::as_const(to_near), &std::as_const(to_far)})
    require_count("triplet_loss", *tensor, near.count());
  require_count("triplet_loss, partial", partial, 2);
  Backend::reduce_all(context, near.count(),
                      detail::TripletLoss{{to_near.data<double>(), partial.data<double>()},
                                          margin,
                                          near.data<double>(),
                                          far.data<double>(),
                                          to_far.data<double>()});
}

template <class Backend>
void triplet_backward_on(Context& context, const Tensor& a, const Tensor& p, const Tensor& n,
                         const Tensor& to_near, const Tensor& to_far, const Tensor& grad_loss,
                         const Tensor& divisor, Tensor& da) {
  for (const Tensor* tensor : {&p, &n, &std::as_const(da)}) require_alike("triplet_backward", a, *tensor);
  require_count("triplet_backward", to_far, to_near.count());
  if (da.count() == 0) return;
  dispatch_float(a.dtype(), "triplet_backward", [&]<class T>() {
    Backend::for_each(context, da.count(),
                      detail::TripletGradient<T>{da.count() / to_near.count(), a.data<T>(), p.data<T>(),
                                                 n.data<T>(), to_near.data<double>(), to_far.data<double>(),
                                                 grad_loss.data<T>(), divisor.data<double>(), da.data<T>()});
  });
}

template <class Backend>
void triplet_sets_loss_on(Context& context, const Tensor& x, const TripletSets& sets, Tensor& factors,
                          Tensor& partial) {
  const std::int64_t rows = factors.count(), length = rows > 0 ? x.count() / rows : 0;
  require_count("triplet_sets_loss", x, rows * length);
  require_count("triplet_sets_loss, rows of whole sets", factors, rows / sets.size * sets.size);
  require_count("triplet_sets_loss, partial", partial, 2);
  fill(context, factors, 0);  // vectors without values are alike
  if (x.count() > 0)
    dispatch_float(x.dtype(), "triplet_sets_loss", [&]<class T>() {
      Backend::reduce_channels(
          context, Broadcast{1, rows, length},
          detail::DistanceInSet<T>{sets.size, length, x.data<T>(), factors.data<double>()});
    });
  Backend::reduce_all(context, rows / sets.size,
                      detail::TripletSetsLoss{{factors.data<double>(), partial.data<double>()}, sets});
}

template <class Backend>
void triplet_sets_backward_on(Context& context, const Tensor& x, const TripletSets& sets,
                              const Tensor& factors, const Tensor& grad_loss, const Tensor& divisor,
                              Tensor& dx) {
  require_alike("triplet_sets_backward", x, dx);
  if (dx.count() == 0) return;
  dispatch_float(x.dtype(), "triplet_sets_backward", [&]<class T>() {
    Backend::for_each_long(context, dx.count(), sets.size,
                           detail::TripletSetsGradient<T>{
                               sets.size, dx.count() / factors.count(), x.data<T>(), factors.data<double>(),
                               grad_loss.data<T>(), divisor.data<double>(), dx.data<T>()});
  });
}

template <class Backend>
void pair_backward_on(Context& context, const Tensor& a, const Tensor& b, const Tensor& factors,
                      const Tensor& grad_loss, const Tensor& divisor, Tensor& dx) {
  require_alike("pair_backward", a, b);
  require_alike("pair_backward", a, dx);
  if (dx.count() == 0) return;
  dispatch_float(a.dtype(), "pair_backward", [&]<class T>() {
    Backend::for_each(context, dx.count(),
                      detail::PairGradient<T>{dx.count() / factors.count(), a.data<T>(), b.data<T>(),
                                              factors.data<double>(), grad_loss.data<T>(),
                                              divisor.data<double>(), dx.data<T>()});
  });
}

template <class Backend>
void distances_to_rows_on(Context& context, const Tensor& x, const Tensor& w, bool absolute,
                          std::int64_t length, Tensor& y) {
  if (y.count() == 0) return;
  if (length == 0) return fill(context, y, 0);  // vectors without values are alike
  const std::int64_t rows = w.count() / length;
  require_count("distances_to_rows, w", w, rows * length);
  require_count("distances_to_rows", y, x.count() / length * rows);
  dispatch_float(x.dtype(), "distances_to_rows", [&]<class T>() {
    const Broadcast over{1, y.count(), length};
    if (absolute)
      Backend::reduce_channels(
          context, over, detail::DistanceToRow<T, true>{rows, length, x.data<T>(), w.data<T>(), y.data<T>()});
    else
      Backend::reduce_channels(
          context, over,
          detail::DistanceToRow<T, false>{rows, length, x.data<T>(), w.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void absolute_distances_backward_on(Context& context, const Tensor& a, const Tensor& b, const Tensor& dy,
                                    const RowPairs& pairs, double keep, Tensor& da) {
  require_alike("absolute_distances_backward", a, da);
  if (da.count() == 0) return;
  const std::int64_t b_rows = b.count() / pairs.length;
  require_count("absolute_distances_backward", dy, a.count() / pairs.length * b_rows);
  dispatch_float(a.dtype(), "absolute_distances_backward", [&]<class T>() {
    Backend::for_each_long(context, da.count(), b_rows,
                           detail::AbsoluteDistancesGradient<T>{pairs, b_rows, keep, a.data<T>(), b.data<T>(),
                                                                dy.data<T>(), da.data<T>()});
  });
}

template <class Backend>
void cosines_on(Context& context, const Tensor& products, const Tensor& a_squares, const Tensor& b_squares,
                Tensor& y) {
  for (const Tensor* tensor : {&products, &a_squares, &b_squares})
    require_count("cosines", *tensor, y.count());
  dispatch_float(y.dtype(), "cosines", [&]<class T>() {
    Backend::for_each(context, y.count(),
                      detail::Cosine<T>{products.data<double>(), a_squares.data<double>(),
                                        b_squares.data<double>(), y.data<T>()});
  });
}

template <class Backend>
void cosines_backward_on(Context& context, const Tensor& a, const Tensor& b, const Tensor& products,
                         const Tensor& a_squares, const Tensor& b_squares, const Tensor& dy, Tensor& da) {
  require_alike("cosines_backward", a, b);
  require_alike("cosines_backward", a, da);
  if (da.count() == 0) return;
  dispatch_float(a.dtype(), "cosines_backward", [&]<class T>() {
    Backend::for_each(context, da.count(),
                      detail::CosineGradient<T>{da.count() / dy.count(), a.data<T>(), b.data<T>(),
                                                products.data<double>(), a_squares.data<double>(),
                                                b_squares.data<double>(), dy.data<T>(), da.data<T>()});
  });
}

template <class Backend>
struct DefineDistanceLoss {
  DefineDistanceLoss() {
    squared_distances.define(Backend::kind, &squared_distances_on<Backend>);
    contrastive_loss.define(Backend::kind, &contrastive_loss_on<Backend>);
    equal_labels.define(Backend::kind, &equal_labels_on<Backend>);
    triplet_loss.define(Backend::kind, &triplet_loss_on<Backend>);
    triplet_backward.define(Backend::kind, &triplet_backward_on<Backend>);
    triplet_sets_loss.define(Backend::kind, &triplet_sets_loss_on<Backend>);
    triplet_sets_backward.define(Backend::kind, &triplet_sets_backward_on<Backend>);
    pair_backward.define(Backend::kind, &pair_backward_on<Backend>);
    distances_to_rows.define(Backend::kind, &distances_to_rows_on<Backend>);
    absolute_distances_backward.define(Backend::kind, &absolute_distances_backward_on<Backend>);
    cosines.define(Backend::kind, &cosines_on<Backend>);
    cosines_backward.define(Backend::kind, &cosines_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
