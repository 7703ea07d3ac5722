// Sampling along a flow on CPU devices: where the pixels come from is worked out once for all channels;
// channels-last tensors have loops over the channels. Each pixel gets its terms in the order of the shared
// functors.
#include "ops/common/warp.hpp"

#include <algorithm>
#include <vector>

#include "ops/cpu/channel_blocks.hpp"
#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

using detail::WarpMaps;
using detail::WarpPoint;

template <class T>
void points_of_row(const WarpMaps& over, const T* flow, std::int64_t row, WarpPoint<T>* points) {
  for (std::int64_t column = 0; column < over.columns; ++column)
    points[column] = over.point(flow, row / over.rows, row % over.rows, column);
}

/// body(row of all images, its points) for all rows, in any order.
template <class T, class Body>
void for_warped_rows(int threads, const WarpMaps& over, const T* flow, const Body& body) {
#pragma omp parallel num_threads(threads)
  {
    std::vector<WarpPoint<T>> points(static_cast<std::size_t>(over.columns));
#pragma omp for schedule(static)
    for (std::int64_t row = 0; row < over.images * over.rows; ++row) {
      points_of_row(over, flow, row, points.data());
      body(row, points);
    }
  }
}

/// All channels of one channels-last pixel.
template <class T>
void warp_pixel(const WarpMaps& over, const WarpPoint<T>& at, const T* image, T* y) {
  const std::int64_t channels = over.maps.channels;
  if (at.row < 0) {
    std::fill_n(y, channels, T(0));
    return;
  }
  const T* const corner = image + (at.row * over.width + at.column) * channels;
  const std::int64_t right = at.right > T(0) ? channels : 0;
  const std::int64_t down = at.down > T(0) ? over.width * channels : 0;
  for_channel_blocks<T>(channels, [&]<class Block>(std::int64_t first, Block) {
    typename Block::Values from, to, above, below;
    Block::load(corner + first, from);
    Block::load(corner + right + first, to);
    above = at.left * from + at.right * to;
    Block::load(corner + down + first, from);
    Block::load(corner + down + right + first, to);
    below = at.left * from + at.right * to;
    above = at.above * above + at.down * below;
    Block::store(above, y + first);
  });
}

template <class T>
void warp_rows(int threads, const WarpMaps& over, const T* x, const T* flow, T* y) {
  const std::int64_t channels = over.maps.channels, pixels = over.pixels();
  for_warped_rows(threads, over, flow, [&](std::int64_t row, const std::vector<WarpPoint<T>>& points) {
    const std::int64_t image = row / over.rows, first = row % over.rows * over.columns;
    const T* const maps = x + image * channels * pixels;
    T* const results = y + image * channels * over.points();
    if (over.maps.channels_last) {
      for (std::int64_t column = 0; column < over.columns; ++column)
        warp_pixel(over, points[column], maps, results + (first + column) * channels);
      return;
    }
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      const T* const plane = maps + channel * pixels;
      T* const to = results + channel * over.points() + first;
      for (std::int64_t column = 0; column < over.columns; ++column)
        to[column] =
            points[column].row < 0 ? T(0) : detail::warped_value(points[column], plane, over.width, 1);
    }
  });
}

/// Adds a pixel's gradient, channels `first` to `end` with `step` elements from one pixel to the next.
template <class T>
void scatter_pixel(const WarpMaps& over, const WarpPoint<T>& at, std::int64_t step, std::int64_t first,
                   std::int64_t end, const T* dy, T* dx) {
  T* const corner = dx + (at.row * over.width + at.column) * step;
  const auto add = [&](T share, T* to) {
    T* const left = to;
#pragma omp simd
    for (std::int64_t c = first; c < end; ++c) left[c] += at.left * (share * dy[c]);
    if (!(at.right > T(0))) return;
    T* const right = to + step;
#pragma omp simd
    for (std::int64_t c = first; c < end; ++c) right[c] += at.right * (share * dy[c]);
  };
  add(at.above, corner);
  if (at.down > T(0)) add(at.down, corner + over.width * step);
}

/// Threads share out what no two of them write: planes, or pieces of the channels.
template <class T>
void scatter_gradients(int threads, const WarpMaps& over, const T* dy, const T* flow, T* dx) {
  const std::int64_t channels = over.maps.channels, pixels = over.pixels(), results = over.points();
  std::vector<WarpPoint<T>> points(static_cast<std::size_t>(over.images * results));
#pragma omp parallel num_threads(threads)
  {
#pragma omp for schedule(static)
    for (std::int64_t row = 0; row < over.images * over.rows; ++row)
      points_of_row(over, flow, row, points.data() + row * over.columns);
    if (over.maps.channels_last) {
      constexpr std::int64_t kUnit = 16;  // no two pieces share a cache line
      const std::int64_t units = (channels + kUnit - 1) / kUnit;
#pragma omp for schedule(static)
      for (std::int64_t task = 0; task < over.images * units; ++task) {
        const std::int64_t image = task / units, first = task % units * kUnit;
        const std::int64_t end = std::min(first + kUnit, channels);
        const T* const from = dy + image * results * channels;
        T* const to = dx + image * pixels * channels;
        for (std::int64_t pixel = 0; pixel < pixels; ++pixel)
          std::fill(to + pixel * channels + first, to + pixel * channels + end, T(0));
        for (std::int64_t point = 0; point < results; ++point)
          if (const WarpPoint<T>& at = points[image * results + point]; at.row >= 0)
            scatter_pixel(over, at, channels, first, end, from + point * channels, to);
      }
    } else {
#pragma omp for schedule(static)
      for (std::int64_t plane = 0; plane < over.images * channels; ++plane) {
        std::fill_n(dx + plane * pixels, pixels, T(0));
        for (std::int64_t point = 0; point < results; ++point)
          if (const WarpPoint<T>& at = points[plane / channels * results + point]; at.row >= 0)
            scatter_pixel(over, at, 1, 0, 1, dy + plane * results + point, dx + plane * pixels);
      }
    }
  }
}

void warp_forward_on_cpu(Context& context, const Tensor& x, const Tensor& flow, const WarpRules& rules,
                         Tensor& y) {
  const WarpMaps over = detail::warp_maps("warp_forward", x, flow, y, rules);
  const int threads = CpuBackend::threads_for(context, y.count());
  dispatch_float(x.dtype(), "warp_forward", [&]<class T>() {
    context.run([=, from = x.data<T>(), moves = flow.data<T>(), to = y.data<T>()] {
      warp_rows(threads, over, from, moves, to);
    });
  });
}

void warp_backward_on_cpu(Context& context, const Tensor& dy, const Tensor& flow, const WarpRules& rules,
                          Tensor&, Tensor& dx) {
  const WarpMaps over = detail::warp_maps("warp_backward", dx, flow, dy, rules);
  const int threads = CpuBackend::threads_for(context, std::max(dx.count(), dy.count()));
  dispatch_float(dy.dtype(), "warp_backward", [&]<class T>() {
    context.run([=, from = dy.data<T>(), moves = flow.data<T>(), to = dx.data<T>()] {
      scatter_gradients(threads, over, from, moves, to);
    });
  });
}

const Define define_warp_grid(warp_grid, DeviceKind::cpu, &warp_grid_on<CpuBackend>);
const Define define_warp_forward(warp_forward, DeviceKind::cpu, &warp_forward_on_cpu);
const Define define_warp_backward(warp_backward, DeviceKind::cpu, &warp_backward_on_cpu);
const Define define_warp_flow_backward(warp_flow_backward, DeviceKind::cpu,
                                       &warp_flow_backward_on<CpuBackend>);

}  // namespace
}  // namespace banyan::ops
