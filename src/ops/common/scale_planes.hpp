// scale_planes: factors for each channel of each sample, for every back end (see backend.hpp).
#pragma once

#include "ops/common/elementwise.hpp"

namespace banyan::ops {
namespace detail {

/// Addend: a pointer, or std::nullptr_t for "none".
template <class T, class Factor, class Addend>
struct ScalePlanes {
  const T* x;
  const Factor* factors;
  Addend addend;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t plane) const {
    Arithmetic<T> value = x[i];
    value *= factors[plane];
    if constexpr (!std::is_null_pointer_v<Addend>) value += addend[i];
    y[i] = static_cast<T>(value);
  }
};

/// kInput: also the gradient of x, element by element as they are added up.
template <class T, class Factor, bool kInput>
struct PlaneFactorGradient {
  struct State {
    double sum;
  };
  const T* x;
  ScalePlanes<T, Factor, std::nullptr_t> input;  ///< of dy
  Factor* dfactors;
  BANYAN_HOST_DEVICE State identity() const { return {0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t plane) const {
    s.sum += static_cast<double>(x[i]) * static_cast<double>(input.x[i]);
    if constexpr (kInput) input(i, plane);  // last: dx may be dy
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const { into.sum += later.sum; }
  BANYAN_HOST_DEVICE void store(std::int64_t plane, const State& s) const {
    dfactors[plane] = static_cast<Factor>(static_cast<Arithmetic<T>>(s.sum));
  }
};

/// f(element, plane) as f(row, column) of channels-last memory.
template <class F>
struct InRowsOfChannels {
  F f;
  std::int64_t channels, inner;
  BANYAN_HOST_DEVICE void operator()(std::int64_t row, std::int64_t channel) const {
    f(row * channels + channel, row / inner * channels + channel);
  }
};
template <class F>
struct MakeCopy {
  F f;
  BANYAN_HOST_DEVICE F operator()() const { return f; }
};

/// A plane of channels-last memory by one call.
template <class R>
struct ReducePlane {
  R r;
  std::int64_t channels, inner;
  BANYAN_HOST_DEVICE void operator()(std::int64_t plane) const {
    const std::int64_t first = plane / channels * inner * channels + plane % channels;
    typename R::State state = r.identity();
    for (std::int64_t pixel = 0; pixel < inner; ++pixel) r.add(state, first + pixel * channels, plane);
    r.store(plane, state);
  }
};

/// f(i, plane) for all elements i; planes are numbered n * C + c.
template <class Backend, class F>
void for_each_of_planes(Context& context, const ChannelView& view, F f) {
  if (view.channels_last) {
    using Rows = InRowsOfChannels<F>;
    Backend::for_each_made(context, view.batch * view.inner, view.channels,
                           MakeCopy<Rows>{{f, view.channels, view.inner}});
  } else {
    Backend::for_each_channel(context, {1, view.batch * view.channels, view.inner}, f);
  }
}

/// reduce_channels with a state for each plane.
template <class Backend, class R>
void reduce_planes(Context& context, const ChannelView& view, R r) {
  if (!view.channels_last)
    Backend::reduce_channels(context, {1, view.batch * view.channels, view.inner}, r);
  else if constexpr (requires { Backend::reduce_columns_of_samples(context, 1, 1, 1, r); })
    Backend::reduce_columns_of_samples(context, view.batch, view.inner, view.channels, r);
  else
    Backend::for_each_long(context, view.batch * view.channels, view.inner,
                           ReducePlane<R>{r, view.channels, view.inner});
}

/// body.operator()<Factor>() with the factors' type: that of activations, T, or of parameters.
template <class T, class Body>
void dispatch_factors(const Tensor& factors, const Body& body) {
  if constexpr (!std::is_same_v<T, Arithmetic<T>>)
    if (factors.dtype() == DTypeOf<T>::value) return body.template operator()<T>();
  body.template operator()<Arithmetic<T>>();
}

}  // namespace detail

template <class Backend>
void scale_planes_on(Context& context, const Tensor& x, const Tensor& factors, const Tensor& addend,
                     Tensor& y) {
  const ChannelView view = channel_view(x);
  require_alike("scale_planes", x, y);
  if (addend.defined()) require_alike("scale_planes", x, addend);
  require_count("scale_planes, factors", factors, view.batch * view.channels);
  dispatch_storage(x.dtype(), "scale_planes", [&]<class T>() {
    detail::dispatch_factors<T>(factors, [&]<class Factor>() {
      const auto run = [&]<class Addend>(Addend added) {
        detail::for_each_of_planes<Backend>(
            context, view,
            detail::ScalePlanes<T, Factor, Addend>{x.data<T>(), factors.data<Factor>(), added, y.data<T>()});
      };
      if (addend.defined())
        run(addend.data<T>());
      else
        run(nullptr);
    });
  });
}

template <class Backend>
void scale_planes_backward_on(Context& context, const Tensor& x, const Tensor& dy, const Tensor& factors,
                              Tensor& dx, Tensor& dfactors) {
  constexpr const char* kName = "scale_planes_backward";
  if (!dfactors.defined()) {
    if (dx.defined()) scale_planes_on<Backend>(context, dy, factors, {}, dx);
    return;
  }
  const ChannelView view = channel_view(x);
  require_alike(kName, x, dy);
  if (dx.defined()) require_alike(kName, x, dx);
  require_count(kName, factors, view.batch * view.channels);
  require_count(kName, dfactors, view.batch * view.channels);
  require_type(kName, dfactors, factors.dtype());
  dispatch_storage(x.dtype(), kName, [&]<class T>() {
    detail::dispatch_factors<T>(factors, [&]<class Factor>() {
      const auto run = [&]<bool kInput>(T* to) {
        detail::reduce_planes<Backend>(
            context, view,
            detail::PlaneFactorGradient<T, Factor, kInput>{
                x.data<T>(), {dy.data<T>(), factors.data<Factor>(), nullptr, to}, dfactors.data<Factor>()});
      };
      if (dx.defined())
        run.template operator()<true>(dx.data<T>());
      else
        run.template operator()<false>(nullptr);
    });
  });
}

/// Registers both for a back end.
template <class Backend>
struct DefineScalePlanes {
  DefineScalePlanes() {
    scale_planes.define(Backend::kind, &scale_planes_on<Backend>);
    scale_planes_backward.define(Backend::kind, &scale_planes_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
