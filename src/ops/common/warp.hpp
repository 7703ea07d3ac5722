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

/// Where a pixel of the result comes from: fractions of the way from (row, column) down and to the right.
template <class T>
struct WarpPoint {
  std::int32_t row, column;  ///< row -1: outside
  T down, right;
};

struct WarpMaps {
  std::int64_t images, height, width;
  Planes maps, flow;

  BANYAN_HOST_DEVICE std::int64_t pixels() const { return height * width; }
  template <class T>
  BANYAN_HOST_DEVICE WarpPoint<T> point(const T* flows, std::int64_t image, std::int64_t row,
                                        std::int64_t column) const {
    const T* const here =
        flows + flow.base({image, 0, 0, 0}, pixels()) + (row * width + column) * flow.step();
    const T x = static_cast<T>(column) + here[0], y = static_cast<T>(row) + here[flow.next(pixels())];
    const bool inside =
        y >= T(0) && y <= static_cast<T>(height - 1) && x >= T(0) && x <= static_cast<T>(width - 1);
    if (!inside) return {-1, -1, T(0), T(0)};
    const auto whole_row = static_cast<std::int32_t>(y), whole_column = static_cast<std::int32_t>(x);
    return {whole_row, whole_column, y - static_cast<T>(whole_row), x - static_cast<T>(whole_column)};
  }
};

/// `plane` at the point, its pixels being `step` apart.
template <class T>
BANYAN_HOST_DEVICE inline T warped_value(const WarpPoint<T>& at, const T* plane, std::int64_t width,
                                         std::int64_t step) {
  const T* const corner = plane + (at.row * width + at.column) * step;
  const std::int64_t right = at.right > T(0) ? step : 0, down = at.down > T(0) ? width * step : 0;
  const T above = (T(1) - at.right) * corner[0] + at.right * corner[right];
  const T below = (T(1) - at.right) * corner[down] + at.right * corner[down + right];
  return (T(1) - at.down) * above + at.down * below;
}

/// From `low`, `fraction` of the way to the next of `length` values `step` apart.
template <class T>
BANYAN_HOST_DEVICE inline T slope_between(const T* value, T fraction, std::int64_t low, std::int64_t length,
                                          std::int64_t step) {
  if (fraction > T(0)) return value[step] - value[0];
  const T after = low + 1 < length ? value[step] - value[0] : T(0);
  const T before = low > 0 ? value[0] - value[-step] : T(0);
  return (after + before) / T(2);
}

template <class T>
struct WarpSlopes {
  T right, down;
};
template <class T>
BANYAN_HOST_DEVICE inline WarpSlopes<T> warp_slopes(const WarpPoint<T>& at, const T* plane,
                                                    std::int64_t height, std::int64_t width,
                                                    std::int64_t step) {
  const T* const corner = plane + (at.row * width + at.column) * step;
  const std::int64_t next_row = width * step;
  WarpSlopes<T> slopes{(T(1) - at.down) * slope_between(corner, at.right, at.column, width, step),
                       (T(1) - at.right) * slope_between(corner, at.down, at.row, height, next_row)};
  if (at.down > T(0))
    slopes.right += at.down * slope_between(corner + next_row, at.right, at.column, width, step);
  if (at.right > T(0))
    slopes.down += at.right * slope_between(corner + step, at.down, at.row, height, next_row);
  return slopes;
}

template <class T>
struct WarpForward {
  WarpMaps over;
  const T *x, *flow;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const PlanePosition to = over.maps.locate(i, over.height, over.width);
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
    for (std::int64_t from = 0; from < over.height; ++from) {
      const std::int32_t* const range = rows + 2 * (to.sample * over.height + from);
      if (range[0] > to.row || range[1] + 1 < to.row) continue;
      const T* const gradient = dy + plane + from * over.width * step;
      for (std::int64_t column = 0; column < over.width; ++column) {
        const WarpPoint<T> at = over.point(flow, to.sample, from, column);
        if (at.row < 0) continue;
        const T share = at.row == to.row ? T(1) - at.down : at.row + 1 == to.row ? at.down : T(0);
        const T part = share * gradient[column * step];
        if (share > T(0)) row[at.column * step] += (T(1) - at.right) * part;
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
    const std::int64_t image = i / over.pixels(), pixel = i % over.pixels();
    const WarpPoint<T> at = over.point(flow, image, pixel / over.width, pixel % over.width);
    const std::int64_t next = over.maps.next(over.pixels()), step = over.maps.step();
    const std::int64_t base = over.maps.base({image, 0, 0, 0}, over.pixels());
    T right = 0, down = 0;
    for (std::int64_t channel = 0; channel < over.maps.channels && at.row >= 0; ++channel) {
      const std::int64_t plane = base + channel * next;
      const WarpSlopes<T> slopes = warp_slopes(at, x + plane, over.height, over.width, step);
      right += slopes.right * dy[plane + pixel * step];
      down += slopes.down * dy[plane + pixel * step];
    }
    T* const to = dflow + over.flow.base({image, 0, 0, 0}, over.pixels()) + pixel * over.flow.step();
    to[0] = right;
    to[over.flow.next(over.pixels())] = down;
  }
};

/// Checks what is read and written through raw pointers. `other`: like x.
inline WarpMaps warp_maps(const char* op, const Tensor& x, const Tensor& flow, const Tensor& other) {
  const Shape &maps = x.shape(), &moves = flow.shape();
  const bool channels_last = !x.is_contiguous() || !flow.is_contiguous() || !other.is_contiguous();
  if (maps.axes() != 4 || moves.axes() != 4 || moves[0] != maps[0] || moves[1] != 2 || moves[2] != maps[2] ||
      moves[3] != maps[3] || other.shape() != maps ||
      (channels_last && (fixed_contiguous(x) || fixed_contiguous(flow) || fixed_contiguous(other))))
    runtime_failure(op, ": ", maps.to_string(), " ", name_of(x.layout()), ", flow ", moves.to_string(), " ",
                    name_of(flow.layout()), " and ", other.shape().to_string(), " ", name_of(other.layout()),
                    " do not match");
  return {maps[0], maps[2], maps[3], {maps[1], channels_last}, {2, channels_last}};
}

}  // namespace detail

template <class Backend>
void warp_forward_on(Context& context, const Tensor& x, const Tensor& flow, Tensor& y) {
  const detail::WarpMaps over = detail::warp_maps("warp_forward", x, flow, y);
  dispatch_float(x.dtype(), "warp_forward", [&]<class T>() {
    Backend::for_each(context, y.count(),
                      detail::WarpForward<T>{over, x.data<T>(), flow.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void warp_backward_on(Context& context, const Tensor& dy, const Tensor& flow, Tensor& rows, Tensor& dx) {
  const detail::WarpMaps over = detail::warp_maps("warp_backward", dx, flow, dy);
  require_count("warp_backward, rows", rows, 2 * over.images * over.height);
  dispatch_float(dy.dtype(), "warp_backward", [&]<class T>() {
    const T* const moves = flow.data<T>();
    Backend::for_each_long(context, over.images * over.height, over.width,
                           detail::SeenRows<T, detail::WarpMaps>{over, over.height, over.height, over.width,
                                                                 moves, rows.data<std::int32_t>()});
    Backend::for_each_long(
        context, over.images * over.maps.channels * over.height, over.width,
        detail::WarpBackward<T>{over, dy.data<T>(), moves, rows.data<std::int32_t>(), dx.data<T>()});
  });
}

template <class Backend>
void warp_flow_backward_on(Context& context, const Tensor& x, const Tensor& flow, const Tensor& dy,
                           Tensor& dflow) {
  const detail::WarpMaps over = detail::warp_maps("warp_flow_backward", x, flow, dy);
  require_alike("warp_flow_backward", flow, dflow);
  dispatch_float(x.dtype(), "warp_flow_backward", [&]<class T>() {
    Backend::for_each_long(
        context, over.images * over.pixels(), over.maps.channels,
        detail::WarpFlowBackward<T>{over, x.data<T>(), flow.data<T>(), dy.data<T>(), dflow.data<T>()});
  });
}

template <class Backend>
struct DefineWarp {
  DefineWarp() {
    warp_forward.define(Backend::kind, &warp_forward_on<Backend>);
    warp_backward.define(Backend::kind, &warp_backward_on<Backend>);
    warp_flow_backward.define(Backend::kind, &warp_flow_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
