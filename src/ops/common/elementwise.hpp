// Elementwise operators for every back end (see backend.hpp).
#pragma once

#include "banyan/ops/elementwise.hpp"
#include "ops/common/activations.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/pass_key.hpp"

namespace banyan::ops {

template <class T>
struct Product {
  BANYAN_HOST_DEVICE T operator()(T a, T b) const { return a * b; }
};

/// y = f(x), and y = f(a, b).
template <class T, class F>
struct Unary {
  F f;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = static_cast<T>(f(x[i])); }
};
template <class T, class F>
struct Binary {
  F f;
  const T *a, *b;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = static_cast<T>(f(a[i], b[i])); }
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

/// Item i is one quad: 4 consecutive elements, in logical order, of one sample.
template <class T, bool kChannelsLast>
struct Dropout {
  RandomKey key;
  SampleIndex samples;
  double ratio;
  T scale;
  std::int64_t channels, inner;  ///< of one sample
  std::int64_t quads;            ///< per sample
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t sample = i / quads, quad = i % quads;
    const std::int64_t length = channels * inner, first = 4 * quad;
    const Philox4 bits = random_quad(key, samples.first + sample * samples.stride, quad);
    const int used = length - first < 4 ? static_cast<int>(length - first) : 4;
    for (int e = 0; e < used; ++e) {
      std::int64_t at = sample * length + first + e;
      if constexpr (kChannelsLast)
        at = sample * length + (first + e) % inner * channels + (first + e) / inner;
      y[at] = static_cast<double>(uniform01(bits.v[e])) >= ratio ? x[at] * scale : T(0);
    }
  }
};

/// factor * x plus the preceding sum.
template <class T, int kTerms>
struct Terms {
  const T* x;
  Arithmetic<T> factor;
  Terms<T, kTerms - 1> before;
  BANYAN_HOST_DEVICE Arithmetic<T> operator()(std::int64_t i) const { return factor * x[i] + before(i); }
};
template <class T>
struct Terms<T, 1> {
  const T* x;
  Arithmetic<T> factor;
  BANYAN_HOST_DEVICE Arithmetic<T> operator()(std::int64_t i) const { return factor * x[i]; }
};

/// Applied to a sum.
struct Kept {
  template <class A>
  BANYAN_HOST_DEVICE A operator()(A sum, std::int64_t) const {
    return sum;
  }
};
template <class T>
struct Rectified {
  Relu<Arithmetic<T>> relu;
  BANYAN_HOST_DEVICE Arithmetic<T> operator()(Arithmetic<T> sum, std::int64_t) const {
    return relu(stored<T>(sum));
  }
};
template <class T>
struct Masked {
  ReluGradient<Arithmetic<T>> gradient;
  const T* y;
  BANYAN_HOST_DEVICE Arithmetic<T> operator()(Arithmetic<T> sum, std::int64_t i) const {
    return gradient(y[i], stored<T>(sum));
  }
};

template <class T, int kTerms, class Last>
struct WeightedSum {
  Terms<T, kTerms> terms;
  Last last;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = static_cast<T>(last(terms(i), i)); }
};

template <class T, bool kScale, bool kBias, class Last>
struct ScaleBias {
  const T* x;
  const Arithmetic<T>*scale, *bias;
  Last last;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t d) const {
    Arithmetic<T> value = x[i];
    if constexpr (kScale) value *= scale[d];
    if constexpr (kBias) value += bias[d];
    y[i] = static_cast<T>(last(value, i));
  }
};

template <class T, bool kInput>
struct ScaleGradient {
  struct State {
    double sum;
  };
  const T *x, *dy;
  Arithmetic<T>* dscale;
  BANYAN_HOST_DEVICE State identity() const { return {0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t) const {
    if constexpr (kInput)
      s.sum += static_cast<double>(x[i]) * static_cast<double>(dy[i]);
    else
      s.sum += static_cast<double>(dy[i]);
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const { into.sum += later.sum; }
  BANYAN_HOST_DEVICE void store(std::int64_t d, const State& s) const {
    dscale[d] += static_cast<Arithmetic<T>>(s.sum);
  }
};

template <class Backend, template <class> class F, class... Parameters>
void unary(Context& context, const char* name, const Tensor& x, Tensor& y, Parameters... parameters) {
  require_alike(name, x, y);
  dispatch_activations<Backend>(x.dtype(), name, [&]<class T>() {
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
  dispatch_activations<Backend>(a.dtype(), name, [&]<class T>() {
    using A = Arithmetic<T>;
    Backend::for_each(
        context, a.count(),
        Binary<T, F<A>>{F<A>{static_cast<A>(parameters)...}, a.data<T>(), b.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void invert(Context& context, const Tensor& y, const InvertibleActivation& activation, Tensor& x) {
  const double epsilon = y.dtype() == DType::f64 ? 0x1p-52 : 0x1p-23;
  const double floor = activation.elu.alpha * activation.elu.lambda;
  if (activation.kind == InvertibleActivation::Kind::leaky_relu)
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
  dispatch_activations<Backend>(x.dtype(), kName, [&]<class T>() {
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
  dispatch_activations<Backend>(a.dtype(), "maximum", [&]<class T>() {
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
  dispatch_activations<Backend>(dy.dtype(), "maximum_backward", [&]<class T>() {
    Backend::for_each(context, dy.count(),
                      MaximumGradient<T>{index, dy.data<T>(), mask.data<std::int32_t>(), dx.data<T>()});
  });
}

template <class Backend>
void drop(Context& context, const Tensor& x, double ratio, const PassKey& key, const SampleIndex& samples,
          Tensor& y) {
  require_alike("dropout", x, y);
  if (!(ratio >= 0 && ratio <= 1)) runtime_failure("dropout: the ratio must be in [0, 1], not ", ratio);
  if (x.count() == 0) return;
  const ChannelView view = channel_view(x);
  const std::int64_t length = x.count() / view.batch;
  const std::int64_t quads = (length + 3) / 4;
  dispatch_float(x.dtype(), "dropout", [&]<class T>() {
    const auto run = [&]<bool kChannelsLast>() {
      const T scale = ratio < 1 ? static_cast<T>(1 / (1 - ratio)) : T(0);
      using Functor = Dropout<T, kChannelsLast>;
      const Functor functor{{key.seed, key.stream}, samples, ratio,       scale,      view.channels,
                            length / view.channels, quads,   x.data<T>(), y.data<T>()};
      Backend::for_each_made(context, view.batch * quads, MakeDrawing<Functor>{functor, key.iteration});
    };
    if (x.is_contiguous())
      run.template operator()<false>();
    else
      run.template operator()<true>();
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
  dispatch_activations<Backend>(x.dtype(), "keep_term", [&]<class T>() {
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
    pass.template operator()<4>(Kept{});
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
    if (k > 3 && terms[k]->same_memory(y)) runtime_failure(op, ": only one of the first four terms may be y");
  }
}

template <class Backend>
void sum_weighted(Context& context, const std::vector<const Tensor*>& terms,
                  const std::vector<double>& factors, const Rectifier& relu, Tensor& y) {
  require_terms("weighted_sum", terms, y);
  if (factors.size() != terms.size()) runtime_failure("weighted_sum: one factor per term is needed");
  dispatch_activations<Backend>(y.dtype(), "weighted_sum", [&]<class T>() {
    if (relu.on)
      sum_in_passes<Backend, T>(context, terms, factors,
                                Rectified<T>{{static_cast<Arithmetic<T>>(relu.slope)}}, y);
    else
      sum_in_passes<Backend, T>(context, terms, factors, Kept{}, y);
  });
}

template <class Backend>
void sum_masked(Context& context, const std::vector<const Tensor*>& terms, const Tensor& y, double slope,
                Tensor& dx) {
  require_terms("relu_backward_of_sum", terms, dx);
  require_alike("relu_backward_of_sum", y, dx);
  dispatch_activations<Backend>(dx.dtype(), "relu_backward_of_sum", [&]<class T>() {
    sum_in_passes<Backend, T>(context, terms, std::vector<double>(terms.size(), 1),
                              Masked<T>{{static_cast<Arithmetic<T>>(slope)}, y.data<T>()}, dx);
  });
}

inline void require_broadcast(const char* op, const Tensor& x, const Broadcast& over) {
  require_count(op, x, over.outer * over.dim * over.inner);
}

template <class Backend>
void scale_and_shift(Context& context, const Tensor& x, const Tensor& scale, const Tensor& bias,
                     const Broadcast& over, const Rectifier& relu, Tensor& y) {
  require_alike("scale_bias", x, y);
  require_broadcast("scale_bias", x, over);
  if (scale.defined()) require_count("scale_bias", scale, over.dim);
  if (bias.defined()) require_count("scale_bias", bias, over.dim);
  dispatch_activations<Backend>(x.dtype(), "scale_bias", [&]<class T>() {
    using A = Arithmetic<T>;
    const A* s = scale.defined() ? scale.data<A>() : nullptr;
    const A* b = bias.defined() ? bias.data<A>() : nullptr;
    const auto run = [&]<bool kScale, bool kBias>(auto last) {
      Backend::for_each_channel(
          context, over, ScaleBias<T, kScale, kBias, decltype(last)>{x.data<T>(), s, b, last, y.data<T>()});
    };
    const auto choose = [&](auto last) {
      if (s != nullptr && b != nullptr)
        run.template operator()<true, true>(last);
      else if (s != nullptr)
        run.template operator()<true, false>(last);
      else
        run.template operator()<false, true>(last);
    };
    if (relu.on)
      choose(Rectified<T>{{static_cast<A>(relu.slope)}});
    else
      choose(Kept{});
  });
}

template <class Backend>
void scale_gradient(Context& context, const Tensor& x, const Tensor& dy, const Broadcast& over,
                    Tensor& dscale) {
  require_broadcast("scale_backward", dy, over);
  require_count("scale_backward", dscale, over.dim);
  if (x.defined()) require_alike("scale_backward", x, dy);
  dispatch_activations<Backend>(dy.dtype(), "scale_backward", [&]<class T>() {
    auto* to = dscale.data<Arithmetic<T>>();
    if (x.defined())
      Backend::reduce_channels(context, over, ScaleGradient<T, true>{x.data<T>(), dy.data<T>(), to});
    else
      Backend::reduce_channels(context, over, ScaleGradient<T, false>{nullptr, dy.data<T>(), to});
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
    invert_activation.define(kind, &invert<Backend>);
    multiply.define(kind, [](Context& context, const Tensor& a, const Tensor& b, Tensor& y) {
      binary<Backend, Product>(context, "multiply", a, b, y);
    });
    product_backward_by_quotient.define(kind, &divide_product<Backend>);
    maximum.define(kind, &take_maximum<Backend>);
    maximum_backward.define(kind, &route_maximum<Backend>);
    dropout.define(kind, &drop<Backend>);
    keep_term.define(kind, &keep_or_leave_out<Backend>);
    weighted_sum.define(kind, &sum_weighted<Backend>);
    relu_backward_of_sum.define(kind, &sum_masked<Backend>);
    scale_bias.define(kind, &scale_and_shift<Backend>);
    scale_backward.define(kind, &scale_gradient<Backend>);
  }
};

}  // namespace banyan::ops
