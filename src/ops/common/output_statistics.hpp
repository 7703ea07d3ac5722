// Recovers normalized values from batch normalization's output instead of its input, for every back end.
#pragma once

#include <limits>

#include "banyan/ops/normalization.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/optional_data.hpp"

namespace banyan::ops {
namespace detail {

template <class T>
struct OutputStatistics {
  const T *slope, *bias;  ///< null: 1 and 0
  const double* mean_inv_std;
  double *of_output, *unusable;
  T* slope_of_output;
  std::int64_t channels;
  double least_of_bias, least;  ///< what a slope must exceed: this fraction of the bias, and this
  BANYAN_HOST_DEVICE void operator()(std::int64_t c) const {
    const double g = slope == nullptr ? 1.0 : static_cast<double>(slope[c]);
    const double b = bias == nullptr ? 0.0 : static_cast<double>(bias[c]);
    const double inv_std = mean_inv_std[channels + c];
    const double size = g < 0 ? -g : g;
    // NaN passes, so that it is reported where it arose.
    const bool lost = size < least || size <= least_of_bias * (b < 0 ? -b : b);
    if (lost) unusable[c] = 1;
    of_output[c] = b;
    of_output[channels + c] = lost ? 0.0 : 1 / g;
    slope_of_output[c] = static_cast<T>(g * g * inv_std);
  }
};

}  // namespace detail

template <class Backend>
void output_statistics_on(Context& context, const Tensor& slope, const Tensor& bias,
                          const Tensor& mean_inv_std, Tensor& of_output, Tensor& slope_of_output,
                          Tensor& unusable) {
  const std::int64_t channels = slope_of_output.count();
  require_count("output_statistics", mean_inv_std, 2 * channels);
  require_count("output_statistics", of_output, 2 * channels);
  require_count("output_statistics", unusable, channels);
  dispatch_float(slope_of_output.dtype(), "output_statistics", [&]<class T>() {
    // The output is rounded to epsilon * |bias|; at 1000 times that, xhat is good to 1e-3.
    const double least_of_bias = 1000 * static_cast<double>(std::numeric_limits<T>::epsilon());
    Backend::for_each(
        context, channels,
        detail::OutputStatistics<T>{detail::optional_data<T>(slope), detail::optional_data<T>(bias),
                                    mean_inv_std.data<double>(), of_output.data<double>(),
                                    unusable.data<double>(), slope_of_output.data<T>(), channels,
                                    least_of_bias, static_cast<double>(std::numeric_limits<T>::min())});
  });
}

}  // namespace banyan::ops
