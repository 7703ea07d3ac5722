// Analytic gradients against central differences.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

namespace banyan {

/// Compares the `loss` of perturbed `at` with `gradient`, for at most about 40 elements spread over the
/// tensor. Meant for f64: with step h = 1e-5 the truncation error is about h^2 = 1e-10 and the rounding error
/// 1e-16 |loss| / h = 1e-11 |loss|.
inline void expect_gradient(const std::function<double(const std::vector<double>&)>& loss,
                            const std::vector<double>& at, const std::vector<double>& gradient,
                            double tolerance = 1e-7, double step = 1e-5) {
  ASSERT_EQ(at.size(), gradient.size());
  const std::size_t stride = std::max<std::size_t>(1, at.size() / 40);
  for (std::size_t i = 0; i < at.size(); i += stride) {
    std::vector<double> moved = at;
    moved[i] = at[i] + step;
    const double above = loss(moved);
    moved[i] = at[i] - step;
    const double below = loss(moved);
    EXPECT_NEAR((above - below) / (2 * step), gradient[i], tolerance * std::max(1.0, std::abs(gradient[i])))
        << "element " << i << " of " << at.size();
  }
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace banyan
