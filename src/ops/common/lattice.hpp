// Filtering by a permutohedral lattice, for every back end (see backend.hpp). An element of a vector is
// computed alone, from first to last entry, so that no order of threads matters.
#pragma once

#include "banyan/ops/lattice.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"

namespace banyan::ops {
namespace detail {

// Element i of a result belongs to vector `row`; i - row * length is its place there.

template <class T>
struct LatticeSplat {
  std::int64_t length, corners;
  const T *x, *weights;
  const std::int32_t *starts, *entries;
  T* values;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t row) const {
    const T* const column = x + (i - row * length);
    double sum = 0;
    for (std::int32_t at = starts[row]; at < starts[row + 1]; ++at) {
      const std::int32_t entry = entries[at];
      sum += static_cast<double>(weights[entry]) * static_cast<double>(column[entry / corners * length]);
    }
    values[i] = static_cast<T>(sum);
  }
};

template <class T>
struct LatticeBlur {
  std::int64_t length;
  const T* x;
  const std::int32_t* neighbours;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t row) const {
    const T* const column = x + (i - row * length);
    const std::int32_t above = neighbours[2 * row], below = neighbours[2 * row + 1];
    const T one = above >= 0 ? column[above * length] : T(0);
    const T other = below >= 0 ? column[below * length] : T(0);
    y[i] = x[i] + T(0.5) * (one + other);
  }
};

template <class T>
struct LatticeSlice {
  std::int64_t length, corners;
  bool add;
  const T *values, *weights;
  const std::int32_t* vertices;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t row) const {
    const T* const column = values + (i - row * length);
    double sum = add ? static_cast<double>(y[i]) : 0;
    for (std::int64_t entry = row * corners; entry < (row + 1) * corners; ++entry)
      sum += static_cast<double>(weights[entry]) * static_cast<double>(column[vertices[entry] * length]);
    y[i] = static_cast<T>(sum);
  }
};

/// Length of the vectors of a tensor with `rows` of them.
inline std::int64_t vector_length(const char* op, const Tensor& vectors, std::int64_t rows) {
  if (rows <= 0 || vectors.count() % rows != 0)
    runtime_failure(op, ": ", vectors.shape().to_string(), " is not made of ", rows, " vectors");
  return vectors.count() / rows;
}

/// Corners of each of `points` points.
inline std::int64_t corner_count(const char* op, const Tensor& weights, std::int64_t points) {
  if (points <= 0 || weights.count() % points != 0)
    runtime_failure(op, ": ", weights.count(), " weights for ", points, " points");
  return weights.count() / points;
}

}  // namespace detail

template <class Backend>
void lattice_splat_on(Context& context, const Tensor& x, const Tensor& weights, const Tensor& starts,
                      const Tensor& entries, Tensor& values) {
  const std::int64_t vertices = starts.count() - 1;
  const std::int64_t length = detail::vector_length("lattice_splat", values, vertices);
  require_count("lattice_splat, entries", entries, weights.count());
  const std::int64_t points = length > 0 ? x.count() / length : 0;
  const std::int64_t corners = detail::corner_count("lattice_splat", weights, points);
  dispatch_float(values.dtype(), "lattice_splat", [&]<class T>() {
    Backend::for_each_channel(
        context, Broadcast{1, vertices, length},
        detail::LatticeSplat<T>{length, corners, x.data<T>(), weights.data<T>(), starts.data<std::int32_t>(),
                                entries.data<std::int32_t>(), values.data<T>()});
  });
}

template <class Backend>
void lattice_blur_on(Context& context, const Tensor& x, const Tensor& neighbours, Tensor& y) {
  require_alike("lattice_blur", x, y);
  const std::int64_t vertices = neighbours.count() / 2;
  const std::int64_t length = detail::vector_length("lattice_blur", x, vertices);
  dispatch_float(x.dtype(), "lattice_blur", [&]<class T>() {
    Backend::for_each_channel(
        context, Broadcast{1, vertices, length},
        detail::LatticeBlur<T>{length, x.data<T>(), neighbours.data<std::int32_t>(), y.data<T>()});
  });
}

template <class Backend>
void lattice_slice_on(Context& context, const Tensor& values, const Tensor& weights, const Tensor& vertices,
                      bool add, Tensor& y) {
  require_count("lattice_slice, vertices", vertices, weights.count());
  if (y.count() == 0) return;
  const std::int64_t points = y.shape()[0], length = y.count() / points;
  const std::int64_t corners = detail::corner_count("lattice_slice", weights, points);
  dispatch_float(y.dtype(), "lattice_slice", [&]<class T>() {
    Backend::for_each_channel(
        context, Broadcast{1, points, length},
        detail::LatticeSlice<T>{length, corners, add, values.data<T>(), weights.data<T>(),
                                vertices.data<std::int32_t>(), y.data<T>()});
  });
}

template <class Backend>
struct DefineLattice {
  DefineLattice() {
    lattice_splat.define(Backend::kind, &lattice_splat_on<Backend>);
    lattice_blur.define(Backend::kind, &lattice_blur_on<Backend>);
    lattice_slice.define(Backend::kind, &lattice_slice_on<Backend>);
  }
};

}  // namespace banyan::ops
