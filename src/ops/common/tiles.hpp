// Groups of weights for every back end (see backend.hpp).
#pragma once

#include <cmath>

#include "banyan/ops/tiles.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/divisor.hpp"
#include "ops/common/sums.hpp"

namespace banyan::ops {
namespace detail {

/// Where a matrix's elements lie.
struct TilePlaces {
  explicit TilePlaces(const Tiling& tiling)
      : columns(tiling.columns),
        tile_rows(tiling.tile_rows),
        tile_columns(tiling.tile_columns),
        tile_size(tiling.tile_rows * tiling.tile_columns),
        across(tiling.columns / tiling.tile_columns) {}
  Divisor<std::int64_t> columns, tile_rows, tile_columns, tile_size, across;

  BANYAN_HOST_DEVICE std::int64_t tile_of(std::int64_t i) const {
    const Split<std::int64_t> place(i, columns);
    return tile_rows.quotient(place.quotient) * across.value() + tile_columns.quotient(place.rest);
  }
  /// The index of tile t's element number i - t * tile_size.
  BANYAN_HOST_DEVICE std::int64_t index_in_tile(std::int64_t i, std::int64_t t) const {
    const Split<std::int64_t> tile(t, across), inside(i - t * tile_size.value(), tile_columns);
    return (tile.quotient * tile_rows.value() + inside.quotient) * columns.value() +
           tile.rest * tile_columns.value() + inside.rest;
  }
};

/// Of tiles that are rows, or columns, of memory.
template <class T>
using TileSquares = SumOf<const T*, Square>;

/// Of any tiles: reduces over 1 x tiles x elements of each, of which index_in_tile says where they are.
template <class T>
struct ScatteredTileSquares {
  using State = typename TileSquares<T>::State;
  TileSquares<T> plain;
  TilePlaces places;
  BANYAN_HOST_DEVICE State identity() const { return plain.identity(); }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t t) const {
    plain.add(s, places.index_in_tile(i, t), t);
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const { plain.merge(into, later); }
  BANYAN_HOST_DEVICE void store(std::int64_t t, const State& s) const { plain.store(t, s); }
};

template <class T>
struct AddTileDecay {
  double decay;
  TilePlaces places;
  const T* weight;
  const double* squares;
  T* gradient;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const double square = squares[places.tile_of(i)];
    if (square > 0) gradient[i] += static_cast<T>(decay * static_cast<double>(weight[i]) / std::sqrt(square));
  }
};

template <class T>
struct ClearEmptyTiles {
  TilePlaces places;
  const double* squares;
  T* values;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    if (squares[places.tile_of(i)] == 0) values[i] = T(0);
  }
};

template <class T>
struct ClearWhereZero {
  const T* weight;
  T* values;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    if (weight[i] == T(0)) values[i] = T(0);
  }
};

template <class T>
struct ScaleGradient {
  T scale;
  const T* gradient;
  T* out;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const { out[i] = scale * gradient[i]; }
};
template <class T>
struct MakeScaleGradient {
  const UpdateValues* values;
  const T* gradient;
  T* out;
  BANYAN_HOST_DEVICE ScaleGradient<T> operator()() const {
    return {static_cast<T>(values->gradient_scale), gradient, out};
  }
};

}  // namespace detail

template <class Backend>
void times_gradient_scale_on(Context& context, const UpdateValues* values, const Tensor& gradient,
                             Tensor& out) {
  require_count("times_gradient_scale", gradient, out.count());
  dispatch_float(out.dtype(), "times_gradient_scale", [&]<class T>() {
    Backend::for_each_made(context, out.count(),
                           detail::MakeScaleGradient<T>{values, gradient.data<T>(), out.data<T>()});
  });
}

template <class Backend>
void tile_squares_on(Context& context, const Tensor& weight, const Tiling& tiling, Tensor& squares) {
  require_count("tile_squares", weight, tiling.rows * tiling.columns);
  require_count("tile_squares, squares", squares, tiling.tiles());
  if (weight.count() == 0) return;
  const std::int64_t size = tiling.tile_rows * tiling.tile_columns;
  dispatch_float(weight.dtype(), "tile_squares", [&]<class T>() {
    const detail::TileSquares<T> plain{weight.data<T>(), squares.data<double>()};
    if (tiling.tile_columns == tiling.columns)
      Backend::reduce_channels(context, Broadcast{1, tiling.tiles(), size}, plain);
    else if (tiling.tile_columns == 1 && tiling.tile_rows == tiling.rows)
      Backend::reduce_channels(context, Broadcast{tiling.rows, tiling.columns, 1}, plain);
    else
      Backend::reduce_channels(context, Broadcast{1, tiling.tiles(), size},
                               detail::ScatteredTileSquares<T>{plain, detail::TilePlaces(tiling)});
  });
}

template <class Backend>
void add_tile_decay_on(Context& context, double decay, const Tensor& weight, const Tiling& tiling,
                       const Tensor& squares, Tensor& gradient) {
  require_count("add_tile_decay", weight, tiling.rows * tiling.columns);
  require_count("add_tile_decay, gradient", gradient, weight.count());
  require_count("add_tile_decay, squares", squares, tiling.tiles());
  dispatch_float(weight.dtype(), "add_tile_decay", [&]<class T>() {
    Backend::for_each(context, weight.count(),
                      detail::AddTileDecay<T>{decay, detail::TilePlaces(tiling), weight.data<T>(),
                                              squares.data<double>(), gradient.data<T>()});
  });
}

template <class Backend>
void clear_empty_tiles_on(Context& context, const Tiling& tiling, const Tensor& squares, Tensor& values) {
  require_count("clear_empty_tiles", values, tiling.rows * tiling.columns);
  require_count("clear_empty_tiles, squares", squares, tiling.tiles());
  dispatch_float(values.dtype(), "clear_empty_tiles", [&]<class T>() {
    Backend::for_each(
        context, values.count(),
        detail::ClearEmptyTiles<T>{detail::TilePlaces(tiling), squares.data<double>(), values.data<T>()});
  });
}

template <class Backend>
void clear_where_zero_on(Context& context, const Tensor& weight, Tensor& values) {
  require_count("clear_where_zero", values, weight.count());
  dispatch_float(values.dtype(), "clear_where_zero", [&]<class T>() {
    Backend::for_each(context, values.count(), detail::ClearWhereZero<T>{weight.data<T>(), values.data<T>()});
  });
}

/// Registers the above for a back end.
template <class Backend>
struct DefineTiles {
  DefineTiles() {
    times_gradient_scale.define(Backend::kind, &times_gradient_scale_on<Backend>);
    tile_squares.define(Backend::kind, &tile_squares_on<Backend>);
    add_tile_decay.define(Backend::kind, &add_tile_decay_on<Backend>);
    clear_empty_tiles.define(Backend::kind, &clear_empty_tiles_on<Backend>);
    clear_where_zero.define(Backend::kind, &clear_where_zero_on<Backend>);
  }
};

}  // namespace banyan::ops
