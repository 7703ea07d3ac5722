// Elementwise operators for every back end (see backend.hpp).
#pragma once

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "banyan/ops/elementwise.hpp"
#include "ops/common/activations.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/optional_data.hpp"
#include "ops/common/pack.hpp"
#include "ops/common/pass_key.hpp"

namespace banyan::ops {

template <class T>
struct Product {
  BANYAN_HOST_DEVICE T operator()(T a, T b) const { return a * b; }
};

/// y = f(x), and y = f(a, b).
template <class T, class F>
struct Unary {
  using Element = T;
  static constexpr int kReads = 1;
  F f;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = static_cast<T>(f(x[i])); }
  template <class Visit>
  BANYAN_HOST_DEVICE void each_read(const Visit& visit) {
    visit(x);
  }
  template <class Visit>
  BANYAN_HOST_DEVICE void each_write(const Visit& visit) {
    visit(y);
  }
};
template <class T, class F>
struct Binary {
  using Element = T;
  static constexpr int kReads = 2;
  F f;
  const T *a, *b;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = static_cast<T>(f(a[i], b[i])); }
  template <class Visit>
  BANYAN_HOST_DEVICE void each_read(const Visit& visit) {
    visit(a);
    visit(b);
  }
  template <class Visit>
  BANYAN_HOST_DEVICE void each_write(const Visit& visit) {
    visit(y);
  }
};

template <class T>
struct QuotientGradient {
  const T *x, *y, *dy;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const { dx[i] = static_cast<T>(dy[i] * y[i] / x[i]); }
};

template <class T, bool kFirst>
struct Maximum {
  std::int32_t index_of_b;
  const T *a, *b;
  T* y;
  std::int32_t* mask;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const T left = a[i], right = b[i];
    const bool right_wins = kFirst ? !(left > right) : right > left;
    y[i] = right_wins ? right : left;
    const std::int32_t before = kFirst ? index_of_b - 1 : mask[i];
    mask[i] = right_wins ? index_of_b : before;
  }
};
template <class T>
struct MaximumGradient {
  std::int32_t index;
  const T* dy;
  const std::int32_t* mask;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const { dx[i] = mask[i] == index ? dy[i] : T(0); }
};

/// How dropout goes through memory, seen as rows and columns. Numbers are drawn four at a time, for a quad of
/// consecutive elements of a sample in logical order.
enum class DrawOrder : std::uint8_t {
  quads,            ///< row: a sample; column: a quad, whose elements are neighbours
  quads_of_pixels,  ///< channels-last; row: four consecutive pixels; column: a channel
  elements,         ///< column: an element; where quads would reach beyond a row
};

/// The random numbers of elements.
template <DrawOrder kOrder>
struct Drawing {
  RandomKey key;
  SampleIndex samples;
  std::int64_t columns, rows_per_sample;  ///< as kOrder says
  /// Calls body(place in memory, number within the sample, random bits) for the elements of a place.
  template <class Body>
  BANYAN_HOST_DEVICE void each(std::int64_t row, std::int64_t column, const Body& body) const {
    const std::int64_t sample = samples.first + row / rows_per_sample * samples.stride;
    // Columns are as many quads, or elements, apart as a channel has.
    const std::int64_t number = column * rows_per_sample + row % rows_per_sample;
    if constexpr (kOrder == DrawOrder::elements) {
      const Philox4 bits = random_quad(key, sample, number >> 2);
      const bool second = (number & 1) != 0, upper = (number & 2) != 0;
      const std::uint32_t low = second ? bits.v[1] : bits.v[0], high = second ? bits.v[3] : bits.v[2];
      body(row * columns + column, number, upper ? high : low);
    } else {
      const Philox4 bits = random_quad(key, sample, number);
      constexpr bool kNeighbours = kOrder == DrawOrder::quads;
      const std::int64_t first = 4 * row * columns + (kNeighbours ? 4 * column : column);
      const std::int64_t step = kNeighbours ? 1 : columns;
      for (int e = 0; e < 4; ++e) body(first + e * step, 4 * number + e, bits.v[e]);
    }
  }
};
/// What dropout keeps.
template <DrawOrder kOrder>
struct Keeping : Drawing<kOrder> {
  std::uint32_t least;  ///< of a number's upper 24 bits, to be kept
  /// The same with body(place in memory, number within the sample, is it kept?).
  template <class Body>
  BANYAN_HOST_DEVICE void each(std::int64_t row, std::int64_t column, const Body& body) const {
    Drawing<kOrder>::each(row, column,
                          [this, &body](std::int64_t at, std::int64_t number, std::uint32_t bits) {
                            body(at, number, bits >> 8 >= least);
                          });
  }
};
template <class T, DrawOrder kOrder>
struct Dropout : Keeping<kOrder> {
  Arithmetic<T> scale;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t row, std::int64_t column) const {
    this->each(row, column, [this](std::int64_t at, std::int64_t, bool kept) {
      y[at] = kept ? static_cast<T>(x[at] * scale) : T(0);
    });
  }
};

/// y = x where sign > 0, else x divided by a number that is drawn from [least, least + range).
template <class T, DrawOrder kOrder>
struct DivideNegatives : Drawing<kOrder> {
  using A = Arithmetic<T>;
  A least, range;
  const T *sign, *x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t row, std::int64_t column) const {
    this->each(row, column, [this](std::int64_t at, std::int64_t, std::uint32_t bits) {
      const A value = x[at], divisor = multiply_add(static_cast<A>(uniform01(bits)), range, least);
      y[at] = static_cast<T>(sign[at] > A(0) ? value : value / divisor);
    });
  }
};

/// The bias of element e of a sample is bias[e % length].
template <class T, DrawOrder kOrder, class End>
struct ActivateAndDrop : Keeping<kOrder> {
  using A = Arithmetic<T>;
  End end;
  A scale;
  const A* bias;
  std::int64_t length;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t row, std::int64_t column) const {
    std::int64_t begin = -1;  // of the biases' repetition in which the first element is
    this->each(row, column, [this, &begin](std::int64_t at, std::int64_t e, bool kept) {
      A value = x[at];
      if (bias != nullptr) {
        if (begin < 0) begin = e - e % length;
        while (e - begin >= length) begin += length;
        value = stored<T>(value + bias[e - begin]);
      }
      y[at] = kept ? static_cast<T>(stored<T>(end(value)) * scale) : T(0);
    });
  }
};
template <class T, DrawOrder kOrder>
struct ActivateAndDropGradient : Keeping<kOrder> {
  ReluEnd<T> end;
  Arithmetic<T> scale;
  const T *y, *dy;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t row, std::int64_t column) const {
    this->each(row, column, [this](std::int64_t at, std::int64_t, bool kept) {
      dx[at] = kept ? static_cast<T>(end.gradient_by_output(y[at], stored<T>(dy[at] * scale))) : T(0);
    });
  }
};
/// For a slope of 0.
template <class A>
struct KeptGradient {
  A scale;
  BANYAN_HOST_DEVICE A operator()(A y, A dy) const { return y > A(0) ? dy * scale : A(0); }
};

/// factor * x plus the preceding sum.
template <class T, int kTerms>
struct Terms {
  const T* x;
  Arithmetic<T> factor;
  Terms<T, kTerms - 1> before;
  BANYAN_HOST_DEVICE Arithmetic<T> operator()(std::int64_t i) const { return factor * x[i] + before(i); }
  template <class Visit>
  BANYAN_HOST_DEVICE void each_read(const Visit& visit) {
    visit(x);
    before.each_read(visit);
  }
};
template <class T>
struct Terms<T, 1> {
  const T* x;
  Arithmetic<T> factor;
  BANYAN_HOST_DEVICE Arithmetic<T> operator()(std::int64_t i) const { return factor * x[i]; }
  template <class Visit>
  BANYAN_HOST_DEVICE void each_read(const Visit& visit) {
    visit(x);
  }
};

/// Applied to element i of a sum: an activation, or its gradient by the output.
template <class T, class End>
struct Ended {
  static constexpr int kReads = 0;
  End end;
  BANYAN_HOST_DEVICE Arithmetic<T> operator()(Arithmetic<T> sum, std::int64_t) const { return end(sum); }
  template <class Visit>
  BANYAN_HOST_DEVICE void each_read(const Visit&) {}
};
template <class T, class End>
struct EndedGradient {
  static constexpr int kReads = 1;
  End end;
  const T* y;
  BANYAN_HOST_DEVICE Arithmetic<T> operator()(Arithmetic<T> sum, std::int64_t i) const {
    return end.gradient_by_output(y[i], stored<T>(sum));
  }
  template <class Visit>
  BANYAN_HOST_DEVICE void each_read(const Visit& visit) {
    visit(y);
  }
};

template <class T, int kTerms, class Last>
struct WeightedSum {
  using Element = T;
  static constexpr int kReads = kTerms + Last::kReads;
  Terms<T, kTerms> terms;
  Last last;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = static_cast<T>(last(terms(i), i)); }
  template <class Visit>
  BANYAN_HOST_DEVICE void each_read(const Visit& visit) {
    terms.each_read(visit);
    last.each_read(visit);
  }
  template <class Visit>
  BANYAN_HOST_DEVICE void each_write(const Visit& visit) {
    visit(y);
  }
};

/// Scale, Bias: pointers, or std::nullptr_t for "none".
template <class T, class Scale, class Bias, class End>
struct ScaleBias {
  const T* x;
  Scale scale;
  Bias bias;
  End end;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t d) const {
    Arithmetic<T> value = x[i];
    if constexpr (!std::is_null_pointer_v<Scale>) value *= scale[d];
    if constexpr (!std::is_null_pointer_v<Bias>) value += bias[d];
    y[i] = static_cast<T>(end(value));
  }
};

template <class T, bool kInput, class Sum>
struct ScaleGradient {
  struct State {
    double sum;
  };
  const T *x, *dy;
  Sum* dscale;
  BANYAN_HOST_DEVICE State identity() const { return {0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t) const {
    if constexpr (kInput)
      s.sum += static_cast<double>(x[i]) * static_cast<double>(dy[i]);
    else
      s.sum += static_cast<double>(dy[i]);
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const { into.sum += later.sum; }
  BANYAN_HOST_DEVICE void store(std::int64_t d, const State& s) const {
    dscale[d] = static_cast<Sum>(dscale[d] + static_cast<Arithmetic<T>>(s.sum));
  }
};

template <class Backend, template <class> class F, class... Parameters>
void unary(Context& context, const char* name, const Tensor& x, Tensor& y, Parameters... parameters) {
  require_alike(name, x, y);
  dispatch_storage(x.dtype(), name, [&]<class T>() {
    using A = Arithmetic<T>;
    Backend::for_each(context, x.count(),
                      Unary<T, F<A>>{F<A>{static_cast<A>(parameters)...}, x.data<T>(), y.data<T>()});
  });
}

template <class Backend, template <class> class F, class... Parameters>
void binary(Context& context, const char* name, const Tensor& a, const Tensor& b, Tensor& y,
            Parameters... parameters) {
  require_alike(name, a, b);
  require_alike(name, a, y);
  dispatch_storage(a.dtype(), name, [&]<class T>() {
    using A = Arithmetic<T>;
    Backend::for_each(
        context, a.count(),
        Binary<T, F<A>>{F<A>{static_cast<A>(parameters)...}, a.data<T>(), b.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void invert(Context& context, const Tensor& y, const Activation& activation, Tensor& x) {
  if (!activation.invertible()) runtime_failure("invert_activation: the activation has no inverse");
  const double epsilon = y.dtype() == DType::f64 ? 0x1p-52 : 0x1p-23;
  const double floor = activation.elu.alpha * activation.elu.lambda;
  if (activation.kind == Activation::Kind::relu)
    unary<Backend, LeakyReluInverse>(context, "invert_activation", y, x, activation.slope);
  else
    unary<Backend, EluInverse>(context, "invert_activation", y, x, floor, activation.elu.lambda, epsilon - 1);
}

template <class Backend>
void divide_product(Context& context, const Tensor& x, const Tensor& y, const Tensor& dy, Tensor& dx) {
  constexpr const char* kName = "product_backward_by_quotient";
  require_alike(kName, x, y);
  require_alike(kName, x, dy);
  require_alike(kName, x, dx);
  dispatch_storage(x.dtype(), kName, [&]<class T>() {
    Backend::for_each(context, x.count(),
                      QuotientGradient<T>{x.data<T>(), y.data<T>(), dy.data<T>(), dx.data<T>()});
  });
}

template <class Backend>
void take_maximum(Context& context, const Tensor& a, const Tensor& b, int index_of_b, bool first, Tensor& y,
                  Tensor& mask) {
  require_alike("maximum", a, b);
  require_alike("maximum", a, y);
  require_count("maximum", mask, a.count());
  dispatch_storage(a.dtype(), "maximum", [&]<class T>() {
    auto* winners = mask.data<std::int32_t>();
    if (first)
      Backend::for_each(context, a.count(),
                        Maximum<T, true>{index_of_b, a.data<T>(), b.data<T>(), y.data<T>(), winners});
    else
      Backend::for_each(context, a.count(),
                        Maximum<T, false>{index_of_b, a.data<T>(), b.data<T>(), y.data<T>(), winners});
  });
}

template <class Backend>
void route_maximum(Context& context, const Tensor& dy, const Tensor& mask, int index, Tensor& dx) {
  require_alike("maximum_backward", dy, dx);
  require_count("maximum_backward", mask, dy.count());
  dispatch_storage(dy.dtype(), "maximum_backward", [&]<class T>() {
    Backend::for_each(context, dy.count(),
                      MaximumGradient<T>{index, dy.data<T>(), mask.data<std::int32_t>(), dx.data<T>()});
  });
}

template <class A>
A scale_of_kept(double ratio) {
  return ratio < 1 ? static_cast<A>(1 / (1 - ratio)) : A(0);
}

/// Runs make(drawing), a functor derived from Drawing, for all of `like`.
template <class Backend, class Make>
void draw_numbers(Context& context, const Tensor& like, const PassKey& key, const SampleIndex& samples,
                  const Make& make) {
  if (like.count() == 0) return;
  const ChannelView view = channel_view(like);
  const std::int64_t length = like.count() / view.batch, inner = length / view.channels;
  const auto run = [&]<DrawOrder kOrder>(std::int64_t columns, std::int64_t rows_per_sample) {
    const auto functor = make(Drawing<kOrder>{{key.seed, key.stream}, samples, columns, rows_per_sample});
    using Functor = std::decay_t<decltype(functor)>;
    Backend::for_each_made(context, view.batch * rows_per_sample, columns,
                           MakeDrawing<Functor>{functor, key.iteration});
  };
  const bool contiguous = like.is_contiguous();
  if (contiguous && length % 4 == 0)
    run.template operator()<DrawOrder::quads>(length / 4, 1);
  else if (contiguous)
    run.template operator()<DrawOrder::elements>(length, 1);
  else if (inner % 4 == 0)
    run.template operator()<DrawOrder::quads_of_pixels>(view.channels, inner / 4);
  else
    run.template operator()<DrawOrder::elements>(view.channels, inner);
}

/// The same with a functor derived from Keeping.
template <class Backend, class Make>
void draw_kept(Context& context, const char* name, const Tensor& like, double ratio, const PassKey& key,
               const SampleIndex& samples, const Make& make) {
  if (!(ratio >= 0 && ratio <= 1)) runtime_failure(name, ": the ratio must be in [0, 1], not ", ratio);
  // uniform01(bits) >= ratio: both sides times 2^24 are exact.
  const auto least = static_cast<std::uint32_t>(std::ceil(ratio * 16777216));
  draw_numbers<Backend>(context, like, key, samples, [&]<DrawOrder kOrder>(const Drawing<kOrder>& d) {
    return make(Keeping<kOrder>{d, least});
  });
}

template <class Backend>
void drop(Context& context, const Tensor& x, double ratio, const PassKey& key, const SampleIndex& samples,
          Tensor& y) {
  require_alike("dropout", x, y);
  dispatch_storage(x.dtype(), "dropout", [&]<class T>() {
    draw_kept<Backend>(
        context, "dropout", x, ratio, key, samples, [&]<DrawOrder kOrder>(const Keeping<kOrder>& d) {
          return Dropout<T, kOrder>{d, scale_of_kept<Arithmetic<T>>(ratio), x.data<T>(), y.data<T>()};
        });
  });
}

template <class Backend>
void activate_then_drop(Context& context, const Tensor& x, const Tensor& bias, const Activation& activation,
                        double ratio, const PassKey& key, const SampleIndex& samples, Tensor& y) {
  constexpr const char* kName = "activate_and_drop";
  require_alike(kName, x, y);
  if (bias.defined() && !x.is_contiguous()) runtime_failure(kName, ": x must be contiguous");
  if (bias.defined()) require_count(kName, bias, x.shape()[x.shape().axes() - 1]);
  dispatch_storage(x.dtype(), kName, [&]<class T>() {
    using A = Arithmetic<T>;
    with_activation<T>(activation, [&](auto end) {
      using End = decltype(end);
      draw_kept<Backend>(context, kName, x, ratio, key, samples,
                         [&]<DrawOrder kOrder>(const Keeping<kOrder>& d) {
                           return ActivateAndDrop<T, kOrder, End>{d,
                                                                  end,
                                                                  scale_of_kept<A>(ratio),
                                                                  detail::optional_data<A>(bias),
                                                                  bias.defined() ? bias.count() : 0,
                                                                  x.data<T>(),
                                                                  y.data<T>()};
                         });
    });
  });
}

template <class Backend>
void divide_by_drawn(Context& context, const Tensor& sign, const Tensor& x, const Divisors& divisors,
                     const PassKey& key, const SampleIndex& samples, Tensor& y) {
  constexpr const char* kName = "divide_negatives";
  require_alike(kName, sign, x);
  require_alike(kName, x, y);
  if (!(divisors.least > 0 && divisors.most >= divisors.least))
    runtime_failure(kName, ": the divisors must be positive and in order, not ", divisors.least, " to ",
                    divisors.most);
  dispatch_storage(x.dtype(), kName, [&]<class T>() {
    using A = Arithmetic<T>;
    draw_numbers<Backend>(context, x, key, samples, [&]<DrawOrder kOrder>(const Drawing<kOrder>& d) {
      return DivideNegatives<T, kOrder>{d,
                                        static_cast<A>(divisors.least),
                                        static_cast<A>(divisors.most - divisors.least),
                                        sign.data<T>(),
                                        x.data<T>(),
                                        y.data<T>()};
    });
  });
}

/// Without a slope nothing need be drawn: where dropout left nothing, the output is 0.
template <class Backend>
void activate_then_drop_gradient(Context& context, const Tensor& y, const Tensor& dy, double slope,
                                 double ratio, const PassKey& key, const SampleIndex& samples, Tensor& dx) {
  constexpr const char* kName = "activate_and_drop_backward";
  require_alike(kName, y, dy);
  require_alike(kName, y, dx);
  if (!(slope >= 0)) runtime_failure(kName, ": the slope must not be negative");
  if (slope == 0)
    return binary<Backend, KeptGradient>(context, kName, y, dy, dx, scale_of_kept<double>(ratio));
  dispatch_storage(y.dtype(), kName, [&]<class T>() {
    using A = Arithmetic<T>;
    draw_kept<Backend>(context, kName, y, ratio, key, samples,
                       [&]<DrawOrder kOrder>(const Keeping<kOrder>& d) {
                         return ActivateAndDropGradient<T, kOrder>{d,
                                                                   ReluEnd<T>{static_cast<A>(slope)},
                                                                   scale_of_kept<A>(ratio),
                                                                   y.data<T>(),
                                                                   dy.data<T>(),
                                                                   dx.data<T>()};
                       });
  });
}

template <class T>
struct KeepTerm {
  bool kept, adds;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    using A = Arithmetic<T>;
    const A before = adds ? static_cast<A>(y[i]) : A(0);
    y[i] = static_cast<T>(kept ? before + static_cast<A>(x[i]) : before);
  }
};

/// One number for the whole tensor: that of draw 0, 1, ... of sample 0.
template <class T>
struct MakeKeepTerm {
  RandomKey key;
  const std::uint64_t* iteration;
  int draw;
  double keep;
  KeepTerm<T> f;
  BANYAN_HOST_DEVICE KeepTerm<T> operator()() const {
    RandomKey now = key;
    now.iteration = *iteration;
    KeepTerm<T> term = f;
    term.kept = uniform01(random_quad(now, 0, draw / 4).v[draw % 4]) < keep;
    return term;
  }
};

template <class Backend>
void keep_or_leave_out(Context& context, const Tensor& x, double keep, const PassKey& key, int draw,
                       bool adds, Tensor& y) {
  require_alike("keep_term", x, y);
  if (!(keep >= 0 && keep <= 1)) runtime_failure("keep_term: the probability must be in [0, 1], not ", keep);
  dispatch_storage(x.dtype(), "keep_term", [&]<class T>() {
    Backend::for_each_made(
        context, x.count(),
        MakeKeepTerm<T>{
            {key.seed, key.stream}, key.iteration, draw, keep, {false, adds, x.data<T>(), y.data<T>()}});
  });
}

template <class T, int kTerms>
Terms<T, kTerms> sum_terms(const Tensor* const* x, const double* factors) {
  const T* data = x[kTerms - 1]->data<T>();
  const auto factor = static_cast<Arithmetic<T>>(factors[kTerms - 1]);
  if constexpr (kTerms == 1)
    return {data, factor};
  else
    return {data, factor, sum_terms<T, kTerms - 1>(x, factors)};
}

/// Up to four terms take one sweep; more take several, the last of which ends with `last`.
template <class Backend, class T, class Last>
void sum_in_passes(Context& context, std::vector<const Tensor*> terms, std::vector<double> factors, Last last,
                   Tensor& y) {
  const auto pass = [&]<int kTerms>(auto end) {
    Backend::for_each(context, y.count(),
                      WeightedSum<T, kTerms, decltype(end)>{
                          sum_terms<T, kTerms>(terms.data(), factors.data()), end, y.data<T>()});
  };
  while (terms.size() > 4) {
    pass.template operator()<4>(Ended<T, NoEnd<T>>{});
    terms.erase(terms.begin(), terms.begin() + 3);
    factors.erase(factors.begin(), factors.begin() + 3);
    terms[0] = &y;
    factors[0] = 1;
  }
  switch (terms.size()) {
    case 1:
      return pass.template operator()<1>(last);
    case 2:
      return pass.template operator()<2>(last);
    case 3:
      return pass.template operator()<3>(last);
    default:
      return pass.template operator()<4>(last);
  }
}

inline void require_terms(const char* op, const std::vector<const Tensor*>& terms, const Tensor& y) {
  if (terms.empty()) runtime_failure(op, ": there is nothing to add up");
  for (std::size_t k = 0; k < terms.size(); ++k) {
    require_alike(op, *terms[k], y);
    // Without elements they may have one place.
    if (k > 3 && y.count() > 0 && terms[k]->same_memory(y))
      runtime_failure(op, ": only one of the first four terms may be y");
  }
}

template <class Backend>
void sum_weighted(Context& context, const std::vector<const Tensor*>& terms,
                  const std::vector<double>& factors, const Activation& activation, Tensor& y) {
  require_terms("weighted_sum", terms, y);
  if (factors.size() != terms.size()) runtime_failure("weighted_sum: one factor per term is needed");
  dispatch_storage(y.dtype(), "weighted_sum", [&]<class T>() {
    with_activation<T>(activation, [&](auto end) {
      sum_in_passes<Backend, T>(context, terms, factors, Ended<T, decltype(end)>{end}, y);
    });
  });
}

template <class Backend>
void sum_of_gradients(Context& context, const std::vector<const Tensor*>& terms, const Tensor& y,
                      const Activation& activation, Tensor& dx) {
  constexpr const char* kName = "activation_backward_of_sum";
  require_terms(kName, terms, dx);
  require_alike(kName, y, dx);
  if (!activation.on() || !activation.shows_gradient())
    runtime_failure(kName, ": the output does not determine the activation's gradient");
  dispatch_storage(dx.dtype(), kName, [&]<class T>() {
    with_activation<T>(activation, [&](auto end) {
      if constexpr (!std::is_same_v<decltype(end), NoEnd<T>>)
        sum_in_passes<Backend, T>(context, terms, std::vector<double>(terms.size(), 1),
                                  EndedGradient<T, decltype(end)>{end, y.data<T>()}, dx);
    });
  });
}

inline void require_broadcast(const char* op, const Tensor& x, const Broadcast& over) {
  require_count(op, x, over.outer * over.dim * over.inner);
}

/// body(pointer) to the values of an operand of activations stored as T: a parameter, or activations
/// themselves; nullptr for an undefined one.
template <class T, class Body>
void with_operand(const Tensor& operand, const Body& body) {
  if (!operand.defined()) return body(nullptr);
  if constexpr (!std::is_same_v<T, Arithmetic<T>>)
    if (operand.dtype() == DTypeOf<T>::value) return body(operand.data<T>());
  body(operand.data<Arithmetic<T>>());
}

/// An undefined operand, or one that is not stored as activations of T are.
template <class T, class Operand>
inline constexpr bool kIsParameter =
    std::is_null_pointer_v<Operand> || std::is_same_v<Operand, const Arithmetic<T>*>;

/// With an operand that is activations of 16 bits, the activation takes a sweep of its own: that is rare, and
/// kernels for all pairs of types would take a third of this file's compilation.
template <class Backend>
void scale_and_shift(Context& context, const Tensor& x, const Tensor& scale, const Tensor& bias,
                     const Broadcast& over, const Activation& activation, Tensor& y) {
  if (!scale.defined() && !bias.defined()) runtime_failure("scale_bias: neither a scale nor a bias is given");
  require_alike("scale_bias", x, y);
  require_broadcast("scale_bias", x, over);
  if (scale.defined()) require_count("scale_bias", scale, over.dim);
  if (bias.defined()) require_count("scale_bias", bias, over.dim);
  dispatch_storage(x.dtype(), "scale_bias", [&]<class T>() {
    with_operand<T>(scale, [&](auto s) {
      with_operand<T>(bias, [&](auto b) {
        using Scale = decltype(s);
        using Bias = decltype(b);
        const auto run = [&](auto end) {
          Backend::for_each_channel(
              context, over, ScaleBias<T, Scale, Bias, decltype(end)>{x.data<T>(), s, b, end, y.data<T>()});
        };
        if constexpr (std::is_null_pointer_v<Scale> && std::is_null_pointer_v<Bias>) {
          return;  // refused above
        } else if constexpr (kIsParameter<T, Scale> && kIsParameter<T, Bias>) {
          with_activation<T>(activation, run);
        } else {
          run(NoEnd<T>{});
          if (!activation.on()) return;
          with_activation<T>(activation, [&](auto end) {
            sum_in_passes<Backend, T>(context, {&y}, {1}, Ended<T, decltype(end)>{end}, y);
          });
        }
      });
    });
  });
}

template <class Backend>
void scale_gradient(Context& context, const Tensor& x, const Tensor& dy, const Broadcast& over,
                    Tensor& dscale) {
  require_broadcast("scale_backward", dy, over);
  require_count("scale_backward", dscale, over.dim);
  if (x.defined()) require_alike("scale_backward", x, dy);
  dispatch_storage(dy.dtype(), "scale_backward", [&]<class T>() {
    const auto run = [&]<class Sum>(Sum* to) {
      if (x.defined())
        Backend::reduce_channels(context, over, ScaleGradient<T, true, Sum>{x.data<T>(), dy.data<T>(), to});
      else
        Backend::reduce_channels(context, over, ScaleGradient<T, false, Sum>{nullptr, dy.data<T>(), to});
    };
    if constexpr (!std::is_same_v<T, Arithmetic<T>>)
      if (dscale.dtype() == DTypeOf<T>::value) return run(dscale.data<T>());
    run(dscale.data<Arithmetic<T>>());
  });
}

/// Registers all of the above for a back end.
template <class Backend>
struct DefineElementwise {
  DefineElementwise() {
    constexpr DeviceKind kind = Backend::kind;
    relu_forward.define(kind, [](Context& context, const Tensor& x, double slope, Tensor& y) {
      unary<Backend, Relu>(context, "relu_forward", x, y, slope);
    });
    relu_backward.define(kind,
                         [](Context& context, const Tensor& x, const Tensor& dy, double slope, Tensor& dx) {
                           binary<Backend, ReluGradient>(context, "relu_backward", x, dy, dx, slope);
                         });
    sigmoid_forward.define(kind, [](Context& context, const Tensor& x, Tensor& y) {
      unary<Backend, Sigmoid>(context, "sigmoid_forward", x, y);
    });
    sigmoid_backward.define(kind, [](Context& context, const Tensor& y, const Tensor& dy, Tensor& dx) {
      binary<Backend, SigmoidGradient>(context, "sigmoid_backward", y, dy, dx);
    });
    tanh_forward.define(kind, [](Context& context, const Tensor& x, Tensor& y) {
      unary<Backend, Tanh>(context, "tanh_forward", x, y);
    });
    tanh_backward.define(kind, [](Context& context, const Tensor& y, const Tensor& dy, Tensor& dx) {
      binary<Backend, TanhGradient>(context, "tanh_backward", y, dy, dx);
    });
    elu_forward.define(kind, [](Context& context, const Tensor& x, const EluShape& shape, Tensor& y) {
      unary<Backend, Elu>(context, "elu_forward", x, y, shape.alpha * shape.lambda, shape.lambda);
    });
    elu_backward.define(
        kind, [](Context& context, const Tensor& y, const Tensor& dy, const EluShape& shape, Tensor& dx) {
          binary<Backend, EluGradient>(context, "elu_backward", y, dy, dx, shape.alpha * shape.lambda,
                                       shape.lambda);
        });
    elu_backward_by_input.define(
        kind, [](Context& context, const Tensor& x, const Tensor& dy, const EluShape& shape, Tensor& dx) {
          binary<Backend, EluGradientByInput>(context, "elu_backward_by_input", x, dy, dx,
                                              shape.alpha * shape.lambda, shape.lambda);
        });
    invert_activation.define(kind, &invert<Backend>);
    multiply.define(kind, [](Context& context, const Tensor& a, const Tensor& b, Tensor& y) {
      binary<Backend, Product>(context, "multiply", a, b, y);
    });
    product_backward_by_quotient.define(kind, &divide_product<Backend>);
    maximum.define(kind, &take_maximum<Backend>);
    maximum_backward.define(kind, &route_maximum<Backend>);
    dropout.define(kind, &drop<Backend>);
    activate_and_drop.define(kind, &activate_then_drop<Backend>);
    activate_and_drop_backward.define(kind, &activate_then_drop_gradient<Backend>);
    divide_negatives.define(kind, &divide_by_drawn<Backend>);
    keep_term.define(kind, &keep_or_leave_out<Backend>);
    weighted_sum.define(kind, &sum_weighted<Backend>);
    activation_backward_of_sum.define(kind, &sum_of_gradients<Backend>);
    scale_bias.define(kind, &scale_and_shift<Backend>);
    scale_backward.define(kind, &scale_gradient<Backend>);
  }
};

}  // namespace banyan::ops
