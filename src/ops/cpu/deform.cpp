// On CPU devices where a point lies is worked out once for many channels. Each pixel gets its terms in the
// order of the shared functors.
#include "ops/common/deform.hpp"

#include <algorithm>
#include <vector>

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

using detail::MovedPoint;
using detail::MovedWindows;

std::int64_t moved_sets(const MovedWindows& over) { return over.images * over.groups * over.kernel(); }

/// Of one point of the windows of one row.
template <class T>
void moved_row(const MovedWindows& over, const T* offsets, std::int64_t set, std::int64_t row,
               MovedPoint<T>* points) {
  for (std::int64_t column = 0; column < over.columns; ++column)
    points[column] = over.point(offsets, set, row, column);
}
template <class T>
void moved_set(const MovedWindows& over, const T* offsets, std::int64_t set, MovedPoint<T>* points) {
  for (std::int64_t row = 0; row < over.rows; ++row)
    moved_row(over, offsets, set, row, points + row * over.columns);
}

template <class T>
void see_moved(int threads, const MovedWindows& over, const T* x, const T* offsets, T* y) {
  constexpr std::int64_t kTogether = 16;
  const std::int64_t pieces = (over.per_group() + kTogether - 1) / kTogether, windows = over.windows();
#pragma omp parallel num_threads(threads)
  {
    std::vector<MovedPoint<T>> points(static_cast<std::size_t>(windows));
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < moved_sets(over) * pieces; ++task) {
      const std::int64_t set = task / pieces, group = set / over.kernel() * over.per_group();
      const std::int64_t first = task % pieces * kTogether,
                         end = std::min(first + kTogether, over.per_group());
      moved_set(over, offsets, set, points.data());
      for (std::int64_t plane = group + first; plane < group + end; ++plane) {
        T* const to = y + (plane * over.kernel() + set % over.kernel()) * windows;
        const T* const from = x + plane * over.pixels();
        for (std::int64_t window = 0; window < windows; ++window)
          to[window] = points[window].row < 0 ? T(0) : detail::moved_value(over, points[window], from);
      }
    }
  }
}

template <class T>
void scatter_moved(const MovedWindows& over, const MovedPoint<T>& at, T gradient, T* plane) {
  const auto add = [&](T share, T* row) {
    const T part = share * gradient;
    row[at.column] += (T(1) - at.right) * part;
    if (at.right > T(0)) row[at.column + 1] += at.right * part;
  };
  T* const row = plane + at.row * over.width;
  add(T(1) - at.down, row);
  if (at.down > T(0)) add(at.down, row + over.width);
}

template <class T>
void scatter_planes(int threads, const MovedWindows& over, const T* dy, const T* offsets, T* dx) {
  const std::int64_t windows = over.windows();
  std::vector<MovedPoint<T>> points(static_cast<std::size_t>(moved_sets(over) * windows));
#pragma omp parallel num_threads(threads)
  {
#pragma omp for schedule(static)
    for (std::int64_t set = 0; set < moved_sets(over); ++set)
      moved_set(over, offsets, set, points.data() + set * windows);
#pragma omp for schedule(static)
    for (std::int64_t plane = 0; plane < over.images * over.channels; ++plane) {
      T* const to = dx + plane * over.pixels();
      std::fill_n(to, over.pixels(), T(0));
      for (std::int64_t element = 0; element < over.kernel(); ++element) {
        const auto* const at = points.data() + (plane / over.per_group() * over.kernel() + element) * windows;
        const T* const gradients = dy + (plane * over.kernel() + element) * windows;
        for (std::int64_t window = 0; window < windows; ++window)
          if (at[window].row >= 0) scatter_moved(over, at[window], gradients[window], to);
      }
    }
  }
}

template <class T>
void move_points(int threads, const MovedWindows& over, const T* x, const T* offsets, const T* dy,
                 T* doffsets) {
#pragma omp parallel num_threads(threads)
  {
    std::vector<MovedPoint<T>> points(static_cast<std::size_t>(over.columns));
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < moved_sets(over) * over.rows; ++task) {
      const std::int64_t set = task / over.rows, row = task % over.rows;
      const std::int64_t first = set / over.kernel() * over.per_group();
      moved_row(over, offsets, set, row, points.data());
      T* const down = doffsets + 2 * set * over.windows() + row * over.columns;
      T* const right = down + over.windows();
      std::fill_n(down, over.columns, T(0));
      std::fill_n(right, over.columns, T(0));
      for (std::int64_t plane = first; plane < first + over.per_group(); ++plane) {
        const T* const gradients =
            dy + (plane * over.kernel() + set % over.kernel()) * over.windows() + row * over.columns;
        for (std::int64_t column = 0; column < over.columns; ++column) {
          if (points[column].row < 0) continue;
          const auto slopes = detail::moved_slopes(over, points[column], x + plane * over.pixels());
          down[column] += gradients[column] * slopes.down;
          right[column] += gradients[column] * slopes.right;
        }
      }
    }
  }
}

void deform_forward_on_cpu(Context& context, const Deformation& how, const Tensor& x, const Tensor& offsets,
                           Tensor& columns) {
  const MovedWindows over = detail::moved_windows("deform_forward", how, x, offsets, columns);
  const int threads = CpuBackend::threads_for(context, columns.count());
  dispatch_float(x.dtype(), "deform_forward", [&]<class T>() {
    context.run([=, from = x.data<T>(), moves = offsets.data<T>(), to = columns.data<T>()] {
      see_moved(threads, over, from, moves, to);
    });
  });
}

void deform_backward_on_cpu(Context& context, const Deformation& how, const Tensor& dcolumns,
                            const Tensor& offsets, Tensor&, Tensor& dx) {
  const MovedWindows over = detail::moved_windows("deform_backward", how, dx, offsets, dcolumns);
  const int threads = CpuBackend::threads_for(context, dcolumns.count());
  dispatch_float(dcolumns.dtype(), "deform_backward", [&]<class T>() {
    context.run([=, from = dcolumns.data<T>(), moves = offsets.data<T>(), to = dx.data<T>()] {
      scatter_planes(threads, over, from, moves, to);
    });
  });
}

void deform_offsets_backward_on_cpu(Context& context, const Deformation& how, const Tensor& x,
                                    const Tensor& offsets, const Tensor& dcolumns, Tensor& doffsets) {
  const MovedWindows over = detail::moved_windows("deform_offsets_backward", how, x, offsets, dcolumns);
  require_alike("deform_offsets_backward", offsets, doffsets);
  const int threads = CpuBackend::threads_for(context, dcolumns.count());
  dispatch_float(x.dtype(), "deform_offsets_backward", [&]<class T>() {
    context.run([=, from = x.data<T>(), moves = offsets.data<T>(), dy = dcolumns.data<T>(),
                 to = doffsets.data<T>()] { move_points(threads, over, from, moves, dy, to); });
  });
}

const Define define_deform_forward(deform_forward, DeviceKind::cpu, &deform_forward_on_cpu);
const Define define_deform_backward(deform_backward, DeviceKind::cpu, &deform_backward_on_cpu);
const Define define_deform_offsets_backward(deform_offsets_backward, DeviceKind::cpu,
                                            &deform_offsets_backward_on_cpu);

}  // namespace
}  // namespace banyan::ops
