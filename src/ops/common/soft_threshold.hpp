// Thresholds that draw values to 0, for every back end (see backend.hpp).
#pragma once

#include "banyan/ops/soft_threshold.hpp"
#include "ops/common/elementwise.hpp"
#include "ops/common/optional_data.hpp"
#include "ops/common/sums.hpp"

namespace banyan::ops {
namespace detail {

template <class T>
struct SoftThreshold {
  const T* x;
  const Arithmetic<T>* threshold;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t d) const {
    const Arithmetic<T> value = x[i], t = threshold[d];
    const Arithmetic<T> within = value - value;  // NaN stays NaN
    y[i] = static_cast<T>(value > t ? value - t : value < -t ? value + t : within);
  }
};

template <class T>
struct SoftThresholdGradient {
  const T *y, *dy;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const Arithmetic<T> gradient = dy[i];
    dx[i] = static_cast<T>(y[i] == Arithmetic<T>(0) ? Arithmetic<T>(0) : gradient);
  }
  /// What the element adds to the threshold's gradient.
  BANYAN_HOST_DEVICE double of_parameter(std::int64_t i) const {
    const auto value = static_cast<double>(y[i]), gradient = static_cast<double>(dy[i]);
    return value > 0 ? -gradient : value < 0 ? gradient : 0;
  }
};

template <class A>
struct AddSign {
  A factor;
  BANYAN_HOST_DEVICE A operator()(A x, A dy) const {
    return dy + (x > A(0) ? factor : x < A(0) ? -factor : A(0));
  }
};

}  // namespace detail

template <class Backend>
void soft_threshold_forward_on(Context& context, const Tensor& x, const Tensor& threshold,
                               const Broadcast& over, Tensor& y) {
  require_alike("soft_threshold_forward", x, y);
  require_broadcast("soft_threshold_forward", x, over);
  require_count("soft_threshold_forward", threshold, over.dim);
  dispatch_storage(x.dtype(), "soft_threshold_forward", [&]<class T>() {
    Backend::for_each_channel(
        context, over, detail::SoftThreshold<T>{x.data<T>(), threshold.data<Arithmetic<T>>(), y.data<T>()});
  });
}

template <class Backend>
void soft_threshold_backward_on(Context& context, const Tensor& y, const Tensor& dy, const Broadcast& over,
                                Tensor& dx, Tensor& dthreshold) {
  require_alike("soft_threshold_backward", y, dy);
  require_broadcast("soft_threshold_backward", y, over);
  if (dx.defined()) require_alike("soft_threshold_backward", y, dx);
  if (dthreshold.defined()) require_count("soft_threshold_backward", dthreshold, over.dim);
  dispatch_storage(y.dtype(), "soft_threshold_backward", [&]<class T>() {
    using A = Arithmetic<T>;
    const detail::SoftThresholdGradient<T> input{y.data<T>(), dy.data<T>(), detail::optional_data<T>(dx)};
    if (dx.defined() && dthreshold.defined())
      Backend::reduce_channels(context, over, channel_gradient<true>(input, dthreshold.data<A>()));
    else if (dthreshold.defined())
      Backend::reduce_channels(context, over, channel_gradient<false>(input, dthreshold.data<A>()));
    else if (dx.defined())
      Backend::for_each_channel(context, over, input);
  });
}

template <class Backend>
void add_signs_on(Context& context, const Tensor& x, const Tensor& dy, double factor, Tensor& y) {
  require_alike("add_signs", x, dy);
  require_alike("add_signs", x, y);
  dispatch_storage(x.dtype(), "add_signs", [&]<class T>() {
    using Rule = detail::AddSign<Arithmetic<T>>;
    Backend::for_each(
        context, x.count(),
        Binary<T, Rule>{Rule{static_cast<Arithmetic<T>>(factor)}, x.data<T>(), dy.data<T>(), y.data<T>()});
  });
}

/// Registers the above for a back end.
template <class Backend>
struct DefineSoftThreshold {
  DefineSoftThreshold() {
    soft_threshold_forward.define(Backend::kind, &soft_threshold_forward_on<Backend>);
    soft_threshold_backward.define(Backend::kind, &soft_threshold_backward_on<Backend>);
    add_signs.define(Backend::kind, &add_signs_on<Backend>);
  }
};

}  // namespace banyan::ops
