// Losses over the channels of locations, for every back end (see backend.hpp).
#pragma once

#include <cmath>

#include "banyan/ops/location_loss.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/labels.hpp"
#include "ops/common/optional_data.hpp"
#include "ops/common/raised.hpp"
#include "ops/common/sums.hpp"

namespace banyan::ops {
namespace detail {

template <class T>
struct LocationData {
  const T *x, *target;
  Channels over;
  T first_shift, second_shift, factor, plateau;
  const double* powers;

  BANYAN_HOST_DEVICE T difference(std::int64_t i) const {
    return target == nullptr ? x[i] : x[i] - target[i];
  }
  /// s of a location, and how many of its differences are numbers.
  struct Sum {
    T value, numbers;
  };
  BANYAN_HOST_DEVICE Sum sum(std::int64_t location) const {
    const T p = static_cast<T>(powers[0]);
    Sum all{0, 0};
    std::int64_t i = first_class(over, location);
    for (std::int64_t c = 0; c < over.channels; ++c, i += over.inner) {
      const T d = difference(i);
      const bool counts = d == d;
      all.value += raised((counts ? std::fabs(d) : T(0)) + first_shift, p);
      all.numbers += counts ? T(1) : T(0);
    }
    all.value *= factor;
    return all;
  }
};

template <class T>
struct LocationLossSum : LossSum {
  LocationData<T> data;
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t location, std::int64_t) const {
    const auto sum = data.sum(location);
    const T value = sum.value < data.plateau ? T(0) : sum.value;
    s.loss += static_cast<double>(raised(value + data.second_shift, static_cast<T>(data.powers[1])));
    s.counted += static_cast<double>(sum.numbers);
  }
};

/// One location of the gradient.
template <class T>
struct LocationLossGradient {
  LocationData<T> data;
  T sign;
  const T* scale;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t location) const {
    const T p = static_cast<T>(data.powers[0]), q = static_cast<T>(data.powers[1]);
    const T s = data.sum(location).value;
    std::int64_t i = first_class(data.over, location);
    for (std::int64_t c = 0; c < data.over.channels; ++c, i += data.over.inner) {
      const T d = data.difference(i);
      // A square may be 0 where the difference is not.
      if (s < data.plateau || !(d > T(0) || d < T(0)) || s + data.second_shift == 0) {
        dx[i] = T(0);
        continue;
      }
      const T outer = raised_slope(s + data.second_shift, q) * data.factor;
      const T slope = outer * raised_slope(std::fabs(d) + data.first_shift, p);
      dx[i] = (d > T(0) ? sign : -sign) * slope * scale[0];
    }
  }
};

struct WritePowers {
  PowersFrom from;
  const std::uint64_t* draw;
  double* powers;
  BANYAN_HOST_DEVICE void operator()(std::int64_t) const {
    const auto iteration = static_cast<std::int64_t>(*draw / static_cast<std::uint64_t>(from.passes));
    if (iteration < from.start) return;
    powers[0] = from.p;
    powers[1] = from.q;
  }
};

template <class T>
LocationData<T> location_data(const char* op, const LocationPair& what, const LocationLoss& loss,
                              const Tensor& powers) {
  if (what.target.defined()) require_alike(op, what.x, what.target);
  require_count(op, what.x, what.over.outer * what.over.channels * what.over.inner);
  require_count(op, powers, 2);
  return {what.x.data<T>(),
          optional_data<T>(what.target),
          what.over,
          static_cast<T>(loss.first_shift),
          static_cast<T>(loss.second_shift),
          static_cast<T>(loss.factor),
          static_cast<T>(loss.plateau),
          powers.data<double>()};
}

}  // namespace detail

template <class Backend>
void location_loss_forward_on(Context& context, const LocationPair& what, const LocationLoss& loss,
                              const Tensor& powers, Tensor& partial) {
  require_count("location_loss_forward, partial", partial, 2);
  dispatch_float(what.x.dtype(), "location_loss_forward", [&]<class T>() {
    Backend::reduce_all(
        context, what.over.outer * what.over.inner,
        detail::LocationLossSum<T>{{partial.data<double>()},
                                   detail::location_data<T>("location_loss_forward", what, loss, powers)});
  });
}

template <class Backend>
void location_loss_backward_on(Context& context, const LocationPair& what, const LocationLoss& loss,
                               const Tensor& powers, double sign, const Tensor& scale, Tensor& dx) {
  require_alike("location_loss_backward", what.x, dx);
  require_count("location_loss_backward, scale", scale, 1);
  dispatch_float(what.x.dtype(), "location_loss_backward", [&]<class T>() {
    Backend::for_each_long(context, what.over.outer * what.over.inner, what.over.channels,
                           detail::LocationLossGradient<T>{
                               detail::location_data<T>("location_loss_backward", what, loss, powers),
                               static_cast<T>(sign), scale.data<T>(), dx.data<T>()});
  });
}

template <class Backend>
void location_loss_powers_on(Context& context, const PowersFrom& from, const std::uint64_t* draw,
                             Tensor& powers) {
  require_count("location_loss_powers", powers, 2);
  Backend::for_each(context, 1, detail::WritePowers{from, draw, powers.data<double>()});
}

template <class Backend>
struct DefineLocationLoss {
  DefineLocationLoss() {
    location_loss_forward.define(Backend::kind, &location_loss_forward_on<Backend>);
    location_loss_backward.define(Backend::kind, &location_loss_backward_on<Backend>);
    location_loss_powers.define(Backend::kind, &location_loss_powers_on<Backend>);
  }
};

}  // namespace banyan::ops
