// Products of matrices at places: a few neighbouring places of one element of the result per index.
#pragma once

#include "banyan/ops/local.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"

namespace banyan::ops {
namespace detail {

/// kRun: places of an index.
template <class T, int kRun>
struct MultiplyPlaces {
  PlaceProducts over;
  std::int64_t runs;  ///< of an element
  bool add;
  const T *a, *b;
  T* c;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t first = i % runs * kRun, element = i / runs;
    const std::int64_t left = over.places - first, some = left < kRun ? left : kRun;
    const T* from_a = a + element / over.columns * over.a_row + first;
    const T* from_b = b + element % over.columns * over.b_column + first;
    T* const to = c + element * over.places + first;
    T sums[kRun];
    for (int k = 0; k < kRun; ++k) sums[k] = 0;
    for (std::int64_t t = 0; t < over.terms; ++t, from_a += over.a_term, from_b += over.b_term) {
      if (some == kRun)
        for (int k = 0; k < kRun; ++k) sums[k] += from_a[k] * from_b[k];
      else
        for (std::int64_t k = 0; k < some; ++k) sums[k] += from_a[k] * from_b[k];
    }
    for (std::int64_t k = 0; k < some; ++k) to[k] = add ? to[k] + sums[k] : sums[k];
  }
};

/// Elements of a matrix at all places, with these steps.
inline std::int64_t spanned(const PlaceProducts& over, std::int64_t count, std::int64_t step,
                            std::int64_t term_step) {
  return (count - 1) * step + (over.terms - 1) * term_step + over.places;
}

}  // namespace detail

template <class Backend>
void place_products_on(Context& context, const PlaceProducts& over, const Tensor& a, const Tensor& b,
                       double beta, Tensor& c) {
  const std::int64_t elements = over.rows * over.columns;
  require_count("place_products", c, elements * over.places);
  if (c.count() == 0) return;
  if (over.terms > 0 && (a.count() < detail::spanned(over, over.rows, over.a_row, over.a_term) ||
                         b.count() < detail::spanned(over, over.columns, over.b_column, over.b_term)))
    runtime_failure("place_products: ", a.shape().to_string(), " and ", b.shape().to_string(),
                    " are too small for ", c.shape().to_string());
  constexpr int kRun = Backend::kind == DeviceKind::cpu ? 32 : 1;
  const std::int64_t runs = (over.places + kRun - 1) / kRun;
  dispatch_float(c.dtype(), "place_products", [&]<class T>() {
    Backend::for_each_long(
        context, elements * runs, over.terms * kRun,
        detail::MultiplyPlaces<T, kRun>{over, runs, beta != 0, a.data<T>(), b.data<T>(), c.data<T>()});
  });
}

}  // namespace banyan::ops
