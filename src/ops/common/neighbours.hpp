// The smaller ones of neighbouring pixels: one pixel of one plane per index, of the result or of the
// gradient.
#pragma once

#include "banyan/ops/neighbours.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"

namespace banyan::ops {
namespace detail {

struct NeighbourMaps {
  std::int64_t channels, height, width, channel;

  BANYAN_HOST_DEVICE std::int64_t pixels() const { return height * width; }
  /// Of the channel that is looked at.
  BANYAN_HOST_DEVICE std::int64_t plane(std::int64_t sample) const {
    return (sample * channels + channel) * pixels();
  }
  /// From a pixel to its neighbour of axis 0 (below) or 1 (to the right).
  BANYAN_HOST_DEVICE std::int64_t step(std::int64_t axis) const { return axis == 0 ? width : 1; }
  BANYAN_HOST_DEVICE bool has_neighbours(std::int64_t row, std::int64_t column) const {
    return row + 1 < height && column + 1 < width;
  }
};

template <class T>
struct SmallerNeighbours {
  NeighbourMaps over;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t pixel = i % over.pixels(), axis = i / over.pixels() % 2;
    const T* const at = x + over.plane(i / over.pixels() / 2) + pixel;
    if (!over.has_neighbours(pixel / over.width, pixel % over.width)) {
      y[i] = T(0);
      return;
    }
    const T here = at[0], next = at[over.step(axis)];
    y[i] = here < next ? here : next;
  }
};

template <class T>
struct SmallerNeighboursGradient {
  NeighbourMaps over;
  const T *x, *dy;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t pixel = i % over.pixels(), plane = i / over.pixels();
    if (plane % over.channels != over.channel) {
      dx[i] = T(0);
      return;
    }
    const std::int64_t row = pixel / over.width, column = pixel % over.width;
    T sum = 0;
    for (std::int64_t axis = 0; axis < 2; ++axis) {
      const std::int64_t step = over.step(axis);
      const T* const gradient = dy + (plane / over.channels * 2 + axis) * over.pixels() + pixel;
      if (over.has_neighbours(row, column) && x[i] < x[i + step]) sum += gradient[0];
      const std::int64_t before = axis == 0 ? row : column;
      if (before > 0 && over.has_neighbours(axis == 0 ? row - 1 : row, axis == 0 ? column : column - 1) &&
          !(x[i - step] < x[i]))
        sum += gradient[-step];
    }
    dx[i] = sum;
  }
};

/// Checks what is read and written through raw pointers.
inline NeighbourMaps neighbour_maps(const char* op, const Tensor& x, std::int64_t channel, const Tensor& y) {
  const Shape& maps = x.shape();
  if (maps.axes() != 4 || y.shape() != Shape{maps[0], 2, maps[2], maps[3]} || channel < 0 ||
      channel >= maps[1] || !x.is_contiguous() || !y.is_contiguous())
    runtime_failure(op, ": ", maps.to_string(), " ", name_of(x.layout()), ", channel ", channel, " and ",
                    y.shape().to_string(), " ", name_of(y.layout()), " do not match");
  return {maps[1], maps[2], maps[3], channel};
}

}  // namespace detail

template <class Backend>
void smaller_neighbours_on(Context& context, const Tensor& x, std::int64_t channel, Tensor& y) {
  const detail::NeighbourMaps over = detail::neighbour_maps("smaller_neighbours", x, channel, y);
  dispatch_float(x.dtype(), "smaller_neighbours", [&]<class T>() {
    Backend::for_each(context, y.count(), detail::SmallerNeighbours<T>{over, x.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void smaller_neighbours_backward_on(Context& context, const Tensor& x, std::int64_t channel, const Tensor& dy,
                                    Tensor& dx) {
  const detail::NeighbourMaps over = detail::neighbour_maps("smaller_neighbours_backward", x, channel, dy);
  require_alike("smaller_neighbours_backward", x, dx);
  dispatch_float(x.dtype(), "smaller_neighbours_backward", [&]<class T>() {
    Backend::for_each(context, dx.count(),
                      detail::SmallerNeighboursGradient<T>{over, x.data<T>(), dy.data<T>(), dx.data<T>()});
  });
}

template <class Backend>
struct DefineNeighbours {
  DefineNeighbours() {
    smaller_neighbours.define(Backend::kind, &smaller_neighbours_on<Backend>);
    smaller_neighbours_backward.define(Backend::kind, &smaller_neighbours_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
