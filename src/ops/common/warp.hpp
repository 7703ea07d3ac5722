// Sampling along a flow: one pixel of one map per index forward, one row of a map, or one pixel of the flow,
// backward.
#pragma once

#include "banyan/ops/warp.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/planes.hpp"
#include "ops/common/seen_rows.hpp"

namespace banyan::ops {
namespace detail {

/// Where a pixel of the result comes from: what its pixels count, (row, column) and those below and to the
/// right of it. Such as are not there count 0.
template <class T>
struct WarpPoint {
  std::int32_t row, column;  ///< row -1: outside
  T above, down, left, right;
};

/// A point along an axis, not outside of it.
template <class T>
struct WarpAxis {
  std::int32_t low;  ///< the pixel before it, or at it; -1: there is none
  T fraction;        ///< of the way to the next
  BANYAN_HOST_DEVICE explicit WarpAxis(T at)
      : low(at < T(0) ? -1 : static_cast<std::int32_t>(at)), fraction(at - static_cast<T>(low)) {}
  BANYAN_HOST_DEVICE std::int32_t first() const { return low < 0 ? 0 : low; }
  BANYAN_HOST_DEVICE T first_weight() const { return low < 0 ? fraction : T(1) - fraction; }
  BANYAN_HOST_DEVICE T second_weight(std::int64_t length) const {
    return low < 0 || low + 1 >= length ? T(0) : fraction;
  }
  /// Of values `step` apart.
  BANYAN_HOST_DEVICE T slope(const T* values, std::int64_t length, std::int64_t step, bool fades) const {
    const auto value = [&](std::int64_t pixel) {
      if (pixel >= 0 && pixel < length) return values[pixel * step];
      return fades ? T(0) : values[first() * step];
    };
    if (fraction > T(0)) return value(low + 1) - value(low);
    return ((value(low + 1) - value(low)) + (value(low) - value(low - 1))) / T(2);
  }
};

template <class T>
struct WarpPlace {
  T down, right;
};

struct WarpMaps {
  std::int64_t images, height, width;
  std::int64_t rows, columns;  ///< of the result
  Planes maps, flow;
  bool fades;        ///< WarpBorder
  bool coordinates;  ///< WarpRules

  BANYAN_HOST_DEVICE std::int64_t pixels() const { return height * width; }
  BANYAN_HOST_DEVICE std::int64_t points() const { return rows * columns; }
  template <class T>
  BANYAN_HOST_DEVICE WarpPlace<T> place(const T* flows, std::int64_t image, std::int64_t row,
                                        std::int64_t column) const {
    const T* const here =
        flows + flow.base({image, 0, 0, 0}, points()) + (row * columns + column) * flow.step();
    if (coordinates) return {here[flow.next(points())], here[0]};
    return {static_cast<T>(row) + here[flow.next(points())], static_cast<T>(column) + here[0]};
  }
  template <class T>
  BANYAN_HOST_DEVICE WarpPoint<T> point(const WarpPlace<T>& at) const {
    const auto inside = [this](T place, std::int64_t length) {
      return fades ? place > T(-1) && place < static_cast<T>(length)
                   : place >= T(0) && place <= static_cast<T>(length - 1);
    };
    if (!(inside(at.down, height) && inside(at.right, width))) return {-1, -1, T(0), T(0), T(0), T(0)};
    const WarpAxis<T> row(at.down), column(at.right);
    return {row.first(),           column.first(),
            row.first_weight(),    row.second_weight(height),
            column.first_weight(), column.second_weight(width)};
  }
  template <class T>
  BANYAN_HOST_DEVICE WarpPoint<T> point(const T* flows, std::int64_t image, std::int64_t row,
                                        std::int64_t column) const {
    return point(place(flows, image, row, column));
  }
};

/// `plane` at the point, its pixels being `step` apart.
template <class T>
BANYAN_HOST_DEVICE inline T warped_value(const WarpPoint<T>& at, const T* plane, std::int64_t width,
                                         std::int64_t step) {
  const T* const corner = plane + (at.row * width + at.column) * step;
  const std::int64_t right = at.right > T(0) ? step : 0, down = at.down > T(0) ? width * step : 0;
  const T above = at.left * corner[0] + at.right * corner[right];
  const T below = at.left * corner[down] + at.right * corner[down + right];
  return at.above * above + at.down * below;
}

/// The value's slopes in the place of the point.
template <class T>
BANYAN_HOST_DEVICE inline WarpPlace<T> warp_slopes(const WarpMaps& over, const WarpPlace<T>& place,
                                                   const WarpPoint<T>& at, const T* plane) {
  const std::int64_t step = over.maps.step(), next_row = over.width * step;
  const WarpAxis<T> along_rows(place.down), along_columns(place.right);
  const auto across = [&](std::int64_t row) {
    return along_columns.slope(plane + row * next_row, over.width, step, over.fades);
  };
  const auto downwards = [&](std::int64_t column) {
    return along_rows.slope(plane + column * step, over.height, next_row, over.fades);
  };
  WarpPlace<T> slopes{at.left * downwards(at.column), at.above * across(at.row)};
  if (at.down > T(0)) slopes.right += at.down * across(at.row + 1);
  if (at.right > T(0)) slopes.down += at.right * downwards(at.column + 1);
  return slopes;
}

template <class T>
struct WarpForward {
  WarpMaps over;
  const T *x, *flow;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const PlanePosition to = over.maps.locate(i, over.rows, over.columns);
    const WarpPoint<T> at = over.point(flow, to.sample, to.row, to.column);
    y[i] = at.row < 0 ? T(0)
                      : warped_value(at, x + over.maps.base(to, over.pixels()), over.width, over.maps.step());
  }
};

/// One row of one plane.
template <class T>
struct WarpBackward {
  WarpMaps over;
  const T *dy, *flow;
  const std::int32_t* rows;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const PlanePosition to = over.maps.locate(i, over.height, std::int64_t{1});
    const std::int64_t plane = over.maps.base(to, over.pixels()), step = over.maps.step();
    T* const row = dx + plane + to.row * over.width * step;
    for (std::int64_t column = 0; column < over.width; ++column) row[column * step] = T(0);
    const std::int64_t result = over.maps.base(to, over.points());
    for (std::int64_t from = 0; from < over.rows; ++from) {
      const std::int32_t* const range = rows + 2 * (to.sample * over.rows + from);
      if (range[0] > to.row || range[1] + 1 < to.row) continue;
      const T* const gradient = dy + result + from * over.columns * step;
      for (std::int64_t column = 0; column < over.columns; ++column) {
        const WarpPoint<T> at = over.point(flow, to.sample, from, column);
        if (at.row < 0) continue;
        const T share = at.row == to.row ? at.above : at.row + 1 == to.row ? at.down : T(0);
        const T part = share * gradient[column * step];
        if (share > T(0)) row[at.column * step] += at.left * part;
        if (share > T(0) && at.right > T(0)) row[(at.column + 1) * step] += at.right * part;
      }
    }
  }
};

/// One pixel of the flow.
template <class T>
struct WarpFlowBackward {
  WarpMaps over;
  const T *x, *flow, *dy;
  T* dflow;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t points = over.points(), image = i / points, point = i % points;
    const WarpPlace<T> place = over.place(flow, image, point / over.columns, point % over.columns);
    const WarpPoint<T> at = over.point(place);
    const T* const planes = x + over.maps.base({image, 0, 0, 0}, over.pixels());
    const T* const gradient = dy + over.maps.base({image, 0, 0, 0}, points) + point * over.maps.step();
    T right = 0, down = 0;
    for (std::int64_t channel = 0; channel < over.maps.channels && at.row >= 0; ++channel) {
      const WarpPlace<T> slopes =
          warp_slopes(over, place, at, planes + channel * over.maps.next(over.pixels()));
      right += slopes.right * gradient[channel * over.maps.next(points)];
      down += slopes.down * gradient[channel * over.maps.next(points)];
    }
    T* const to = dflow + over.flow.base({image, 0, 0, 0}, points) + point * over.flow.step();
    to[0] = right;
    to[over.flow.next(points)] = down;
  }
};

/// One number of one pixel.
template <class T>
struct WarpGrid {
  Planes planes;
  std::int64_t height, width;
  T* flow;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const PlanePosition at = planes.locate(i, height, width);
    flow[i] = static_cast<T>(at.channel == 0 ? at.column : at.row);
  }
};

/// Checks what is read and written through raw pointers. `result`: like x, but of the size of the flow, which
/// only places may have for themselves.
inline WarpMaps warp_maps(const char* op, const Tensor& x, const Tensor& flow, const Tensor& result,
                          const WarpRules& rules) {
  const Shape &maps = x.shape(), &moves = flow.shape(), &results = result.shape();
  const bool channels_last = !x.is_contiguous() || !flow.is_contiguous() || !result.is_contiguous();
  const auto fits = [&] {
    if (maps.axes() != 4 || moves.axes() != 4 || moves[0] != maps[0] || moves[1] != 2) return false;
    if (results != Shape{maps[0], maps[1], moves[2], moves[3]}) return false;
    if (rules.coordinates) return maps.count(2) > 0 || moves.count(2) == 0;
    return results == maps;
  };
  if (!fits() ||
      (channels_last && (fixed_contiguous(x) || fixed_contiguous(flow) || fixed_contiguous(result))))
    runtime_failure(op, ": ", maps.to_string(), " ", name_of(x.layout()), ", flow ", moves.to_string(), " ",
                    name_of(flow.layout()), " and ", results.to_string(), " ", name_of(result.layout()),
                    " do not match");
  return {maps[0],
          maps[2],
          maps[3],
          moves[2],
          moves[3],
          {maps[1], channels_last},
          {2, channels_last},
          rules.border == WarpBorder::fades,
          rules.coordinates};
}

}  // namespace detail

template <class Backend>
void warp_forward_on(Context& context, const Tensor& x, const Tensor& flow, const WarpRules& rules,
                     Tensor& y) {
  const detail::WarpMaps over = detail::warp_maps("warp_forward", x, flow, y, rules);
  dispatch_float(x.dtype(), "warp_forward", [&]<class T>() {
    Backend::for_each(context, y.count(),
                      detail::WarpForward<T>{over, x.data<T>(), flow.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void warp_backward_on(Context& context, const Tensor& dy, const Tensor& flow, const WarpRules& rules,
                      Tensor& rows, Tensor& dx) {
  const detail::WarpMaps over = detail::warp_maps("warp_backward", dx, flow, dy, rules);
  require_count("warp_backward, rows", rows, 2 * over.images * over.rows);
  dispatch_float(dy.dtype(), "warp_backward", [&]<class T>() {
    const T* const moves = flow.data<T>();
    Backend::for_each_long(context, over.images * over.rows, over.columns,
                           detail::SeenRows<T, detail::WarpMaps>{over, over.height, over.rows, over.columns,
                                                                 moves, rows.data<std::int32_t>()});
    Backend::for_each_long(
        context, over.images * over.maps.channels * over.height, over.columns,
        detail::WarpBackward<T>{over, dy.data<T>(), moves, rows.data<std::int32_t>(), dx.data<T>()});
  });
}

template <class Backend>
void warp_flow_backward_on(Context& context, const Tensor& x, const Tensor& flow, const WarpRules& rules,
                           const Tensor& dy, Tensor& dflow) {
  const detail::WarpMaps over = detail::warp_maps("warp_flow_backward", x, flow, dy, rules);
  require_alike("warp_flow_backward", flow, dflow);
  dispatch_float(x.dtype(), "warp_flow_backward", [&]<class T>() {
    Backend::for_each_long(
        context, over.images * over.points(), over.maps.channels,
        detail::WarpFlowBackward<T>{over, x.data<T>(), flow.data<T>(), dy.data<T>(), dflow.data<T>()});
  });
}

template <class Backend>
void warp_grid_on(Context& context, Tensor& flow) {
  const detail::Planes planes = detail::planes_of("warp_grid", flow, flow);
  if (planes.channels != 2) runtime_failure("warp_grid: ", flow.shape().to_string(), " has no two channels");
  dispatch_float(flow.dtype(), "warp_grid", [&]<class T>() {
    Backend::for_each(context, flow.count(),
                      detail::WarpGrid<T>{planes, flow.shape()[2], flow.shape()[3], flow.data<T>()});
  });
}

template <class Backend>
struct DefineWarp {
  DefineWarp() {
    warp_grid.define(Backend::kind, &warp_grid_on<Backend>);
    warp_forward.define(Backend::kind, &warp_forward_on<Backend>);
    warp_backward.define(Backend::kind, &warp_backward_on<Backend>);
    warp_flow_backward.define(Backend::kind, &warp_flow_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
