// Operators on rows for every back end (see backend.hpp).
#pragma once

#include <cmath>

#include "banyan/ops/rows.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/found.hpp"
#include "ops/common/index_below.hpp"

namespace banyan::ops {
namespace detail {

BANYAN_HOST_DEVICE inline double quotient_or_zero(double value, double divisor) {
  return divisor == 0 ? 0 : value / divisor;
}

// Over memory seen as 1 x rows x length; element i is in row `row`.

template <class T, RowSum kWhat>
struct RowReduction {
  struct State {
    double sum;
  };
  double factor;
  const T* x;
  const double* divisor;
  T* y;
  BANYAN_HOST_DEVICE State identity() const { return {0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t) const {
    const auto value = static_cast<double>(x[i]);
    if constexpr (kWhat == RowSum::values)
      s.sum += value;
    else
      s.sum += kWhat == RowSum::magnitudes ? std::fabs(value) : value * value;
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const { into.sum += later.sum; }
  BANYAN_HOST_DEVICE void store(std::int64_t row, const State& s) const {
    y[row] = static_cast<T>(quotient_or_zero(factor * s.sum, divisor[0]));
  }
};

template <class T, RowSum kWhat>
struct RowReductionGradient {
  double factor;
  const T *x, *dy;
  const double* divisor;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t row) const {
    const T by = static_cast<T>(quotient_or_zero(factor, divisor[0])) * dy[row];
    T slope = T(1);
    if constexpr (kWhat == RowSum::magnitudes) slope = x[i] > T(0) ? T(1) : x[i] < T(0) ? T(-1) : T(0);
    if constexpr (kWhat == RowSum::squares) slope = T(2) * x[i];
    dx[i] = slope * by;
  }
};

/// body.operator()<what>().
template <class Body>
void with_row_sum(RowSum what, const Body& body) {
  switch (what) {
    case RowSum::values:
      return body.template operator()<RowSum::values>();
    case RowSum::magnitudes:
      return body.template operator()<RowSum::magnitudes>();
    case RowSum::squares:
      return body.template operator()<RowSum::squares>();
  }
}

/// Rows of y.
template <class T>
struct TileRows {
  std::int64_t length, tiles;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t row) const {
    y[i] = x[(row / tiles - row) * length + i];
  }
};
template <class T>
struct TileRowsGradient {
  std::int64_t length, tiles;
  const T* dy;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t row) const {
    const T* const copy = dy + row * (tiles - 1) * length;
    double sum = 0;
    for (std::int64_t t = 0; t < tiles; ++t) sum += static_cast<double>(copy[t * length + i]);
    dx[i] = static_cast<T>(sum);
  }
};

template <class T>
struct GatherRows {
  std::int64_t rows, length;
  const T *table, *indices;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t number) const {
    const std::int64_t row = index_below(indices[number], rows);
    y[i] = row >= 0 ? table[(row - number) * length + i] : T(0);
  }
};

template <class T>
struct AddDividedRows {
  double factor;
  const T* x;
  const double* counts;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t row) const {
    y[i] += static_cast<T>(factor / (1 + counts[row])) * x[i];
  }
};

/// `run` columns per index, so that no two threads add to the same element.
template <class T>
struct AddToRows {
  std::int64_t rows, length, count, run;
  const T *dy, *indices;
  T* dtable;
  BANYAN_HOST_DEVICE void operator()(std::int64_t number) const {
    const std::int64_t first = number * run, left = length - first, columns = left < run ? left : run;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = index_below(indices[i], rows);
      if (row < 0) continue;
      T* const to = dtable + row * length + first;
      const T* const from = dy + i * length + first;
      for (std::int64_t c = 0; c < columns; ++c) to[c] += from[c];
    }
  }
};

template <class T>
struct FindOutside : FindFirst {
  std::int64_t step, limit;
  const T* x;
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t) const {
    const T value = x[i * step];
    if (index_below(value, limit) < 0) note(s, i, static_cast<double>(value));
  }
};

/// Elements per row; the tensor must be made of such rows.
inline std::int64_t row_length(const char* op, const Tensor& tensor, std::int64_t rows) {
  if (rows > 0 && tensor.count() % rows != 0)
    runtime_failure(op, ": ", tensor.shape().to_string(), " is not made of ", rows, " rows");
  return rows > 0 ? tensor.count() / rows : 0;
}

}  // namespace detail

template <class Backend>
void reduce_rows_on(Context& context, const Tensor& x, RowSum what, double factor, const Tensor& divisor,
                    Tensor& y) {
  require_count("reduce_rows, divisor", divisor, 1);
  const std::int64_t rows = y.count(), length = detail::row_length("reduce_rows", x, rows);
  dispatch_float(x.dtype(), "reduce_rows", [&]<class T>() {
    detail::with_row_sum(what, [&]<RowSum kWhat>() {
      Backend::reduce_channels(
          context, Broadcast{1, rows, length},
          detail::RowReduction<T, kWhat>{factor, x.data<T>(), divisor.data<double>(), y.data<T>()});
    });
  });
}

template <class Backend>
void reduce_rows_backward_on(Context& context, const Tensor& x, const Tensor& dy, RowSum what, double factor,
                             const Tensor& divisor, Tensor& dx) {
  require_alike("reduce_rows_backward", x, dx);
  require_count("reduce_rows_backward, divisor", divisor, 1);
  const std::int64_t rows = dy.count(), length = detail::row_length("reduce_rows_backward", x, rows);
  dispatch_float(x.dtype(), "reduce_rows_backward", [&]<class T>() {
    detail::with_row_sum(what, [&]<RowSum kWhat>() {
      Backend::for_each_channel(context, Broadcast{1, rows, length},
                                detail::RowReductionGradient<T, kWhat>{factor, x.data<T>(), dy.data<T>(),
                                                                       divisor.data<double>(), dx.data<T>()});
    });
  });
}

template <class Backend>
void tile_rows_on(Context& context, const Tensor& x, std::int64_t length, std::int64_t tiles, Tensor& y) {
  require_count("tile_rows", y, x.count() * tiles);
  if (y.count() == 0) return;
  dispatch_float(x.dtype(), "tile_rows", [&]<class T>() {
    Backend::for_each_channel(context, Broadcast{1, y.count() / length, length},
                              detail::TileRows<T>{length, tiles, x.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void tile_rows_backward_on(Context& context, const Tensor& dy, std::int64_t length, std::int64_t tiles,
                           Tensor& dx) {
  require_count("tile_rows_backward", dy, dx.count() * tiles);
  if (dx.count() == 0) return;
  dispatch_float(dy.dtype(), "tile_rows_backward", [&]<class T>() {
    Backend::for_each_channel(context, Broadcast{1, dx.count() / length, length},
                              detail::TileRowsGradient<T>{length, tiles, dy.data<T>(), dx.data<T>()});
  });
}

template <class Backend>
void gather_rows_on(Context& context, const Tensor& table, std::int64_t rows, const Tensor& indices,
                    Tensor& y) {
  const std::int64_t length = detail::row_length("gather_rows", y, indices.count());
  if (indices.count() > 0) require_count("gather_rows", table, rows * length);
  dispatch_float(y.dtype(), "gather_rows", [&]<class T>() {
    Backend::for_each_channel(
        context, Broadcast{1, indices.count(), length},
        detail::GatherRows<T>{rows, length, table.data<T>(), indices.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void add_divided_rows_on(Context& context, const Tensor& x, const Tensor& counts, double factor, Tensor& y) {
  require_alike("add_divided_rows", x, y);
  if (y.count() == 0) return;
  const std::int64_t rows = counts.count();
  dispatch_float(x.dtype(), "add_divided_rows", [&]<class T>() {
    Backend::for_each_channel(
        context, Broadcast{1, rows, y.count() / rows},
        detail::AddDividedRows<T>{factor, x.data<T>(), counts.data<double>(), y.data<T>()});
  });
}

template <class Backend>
void add_to_rows_on(Context& context, const Tensor& dy, const Tensor& indices, std::int64_t rows,
                    Tensor& dtable) {
  if (rows == 0) return;
  const std::int64_t length = detail::row_length("add_to_rows", dtable, rows);
  require_count("add_to_rows", dy, indices.count() * length);
  // Neighbours on the CPU: a cache line belongs to one thread, mostly, and memory is read in order.
  const std::int64_t run = Backend::kind == DeviceKind::cpu ? 64 : 1;
  dispatch_float(dy.dtype(), "add_to_rows", [&]<class T>() {
    Backend::for_each_long(context, (length + run - 1) / run, run * indices.count(),
                           detail::AddToRows<T>{rows, length, indices.count(), run, dy.data<T>(),
                                                indices.data<T>(), dtable.data<T>()});
  });
}

template <class Backend>
void note_outside_on(Context& context, const Tensor& x, std::int64_t step, std::int64_t limit,
                     Tensor& noted) {
  require_count("note_outside", noted, 2);
  dispatch_float(x.dtype(), "note_outside", [&]<class T>() {
    Backend::reduce_all(context, x.count() / step,
                        detail::FindOutside<T>{{noted.data<double>(), 0}, step, limit, x.data<T>()});
  });
}

template <class Backend>
struct DefineRows {
  DefineRows() {
    reduce_rows.define(Backend::kind, &reduce_rows_on<Backend>);
    reduce_rows_backward.define(Backend::kind, &reduce_rows_backward_on<Backend>);
    tile_rows.define(Backend::kind, &tile_rows_on<Backend>);
    tile_rows_backward.define(Backend::kind, &tile_rows_backward_on<Backend>);
    gather_rows.define(Backend::kind, &gather_rows_on<Backend>);
    add_divided_rows.define(Backend::kind, &add_divided_rows_on<Backend>);
    add_to_rows.define(Backend::kind, &add_to_rows_on<Backend>);
    note_outside.define(Backend::kind, &note_outside_on<Backend>);
  }
};

}  // namespace banyan::ops
