// Windows with moved points: one element of the columns per index forward, one row of a plane, or one point
// of a window, backward.
#pragma once

#include "banyan/ops/deform.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/seen_rows.hpp"

namespace banyan::ops {
namespace detail {

/// Where a point lies: fractions of the way from (row, column) down and to the right.
template <class T>
struct MovedPoint {
  std::int32_t row, column;  ///< row -1: outside
  T down, right;
};

struct MovedWindows {
  std::int64_t images, channels, height, width, rows, columns;  ///< of x, and of the windows
  std::int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  std::int64_t groups;

  BANYAN_HOST_DEVICE std::int64_t kernel() const { return kernel_h * kernel_w; }
  BANYAN_HOST_DEVICE std::int64_t pixels() const { return height * width; }
  BANYAN_HOST_DEVICE std::int64_t windows() const { return rows * columns; }
  BANYAN_HOST_DEVICE std::int64_t per_group() const { return channels / groups; }
  /// `set`: image, group and point of the window as one number.
  template <class T>
  BANYAN_HOST_DEVICE MovedPoint<T> point(const T* offsets, std::int64_t set, std::int64_t row,
                                         std::int64_t column) const {
    const std::int64_t element = set % kernel();
    const T* const moved = offsets + 2 * set * windows() + row * columns + column;
    const T y = static_cast<T>(row * stride_h - pad_h + element / kernel_w * dilation_h) + moved[0];
    const T x =
        static_cast<T>(column * stride_w - pad_w + element % kernel_w * dilation_w) + moved[windows()];
    const bool inside = y >= T(0) && y < static_cast<T>(height) && x >= T(0) && x < static_cast<T>(width);
    if (!inside) return {-1, -1, T(0), T(0)};
    const auto whole_row = static_cast<std::int32_t>(y), whole_column = static_cast<std::int32_t>(x);
    return {whole_row, whole_column, whole_row + 1 < height ? y - static_cast<T>(whole_row) : T(0),
            whole_column + 1 < width ? x - static_cast<T>(whole_column) : T(0)};
  }
};

/// The corners around a point in a plane; those that are not there are the ones before.
template <class T>
struct MovedCorners {
  T above_left, above_right, below_left, below_right;
};
template <class T>
BANYAN_HOST_DEVICE inline MovedCorners<T> moved_corners(const MovedWindows& over, const MovedPoint<T>& at,
                                                        const T* plane) {
  const T* const corner = plane + at.row * over.width + at.column;
  const std::int64_t right = at.column + 1 < over.width ? 1 : 0;
  const std::int64_t down = at.row + 1 < over.height ? over.width : 0;
  return {corner[0], corner[right], corner[down], corner[down + right]};
}

template <class T>
BANYAN_HOST_DEVICE inline T moved_value(const MovedWindows& over, const MovedPoint<T>& at, const T* plane) {
  const MovedCorners<T> see = moved_corners(over, at, plane);
  const T above = (T(1) - at.right) * see.above_left + at.right * see.above_right;
  const T below = (T(1) - at.right) * see.below_left + at.right * see.below_right;
  return (T(1) - at.down) * above + at.down * below;
}

template <class T>
struct MovedSlopes {
  T down, right;
};
template <class T>
BANYAN_HOST_DEVICE inline MovedSlopes<T> moved_slopes(const MovedWindows& over, const MovedPoint<T>& at,
                                                      const T* plane) {
  const MovedCorners<T> see = moved_corners(over, at, plane);
  return {
      (T(1) - at.right) * (see.below_left - see.above_left) + at.right * (see.below_right - see.above_right),
      (T(1) - at.down) * (see.above_right - see.above_left) + at.down * (see.below_right - see.below_left)};
}

template <class T>
struct DeformForward {
  MovedWindows over;
  const T *x, *offsets;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t window = i % over.windows(), element = i / over.windows() % over.kernel();
    const std::int64_t plane = i / over.windows() / over.kernel();
    const std::int64_t set = plane / over.per_group() * over.kernel() + element;
    const MovedPoint<T> at = over.point(offsets, set, window / over.columns, window % over.columns);
    y[i] = at.row < 0 ? T(0) : moved_value(over, at, x + plane * over.pixels());
  }
};

/// One row of one plane.
template <class T>
struct DeformBackward {
  MovedWindows over;
  const T *dy, *offsets;
  const std::int32_t* rows;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t plane = i / over.height, to_row = i % over.height;
    T* const row = dx + i * over.width;
    for (std::int64_t column = 0; column < over.width; ++column) row[column] = T(0);
    for (std::int64_t element = 0; element < over.kernel(); ++element) {
      const std::int64_t set = plane / over.per_group() * over.kernel() + element;
      const T* const gradients = dy + (plane * over.kernel() + element) * over.windows();
      for (std::int64_t from = 0; from < over.rows; ++from) {
        const std::int32_t* const range = rows + 2 * (set * over.rows + from);
        if (range[0] > to_row || range[1] + 1 < to_row) continue;
        for (std::int64_t column = 0; column < over.columns; ++column) {
          const MovedPoint<T> at = over.point(offsets, set, from, column);
          if (at.row < 0) continue;
          const T share = at.row == to_row ? T(1) - at.down : at.row + 1 == to_row ? at.down : T(0);
          if (!(share > T(0))) continue;
          const T part = share * gradients[from * over.columns + column];
          row[at.column] += (T(1) - at.right) * part;
          if (at.right > T(0)) row[at.column + 1] += at.right * part;
        }
      }
    }
  }
};

/// One point of one window.
template <class T>
struct DeformOffsetsBackward {
  MovedWindows over;
  const T *x, *offsets, *dy;
  T* doffsets;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t set = i / over.windows(), window = i % over.windows();
    const MovedPoint<T> at = over.point(offsets, set, window / over.columns, window % over.columns);
    const std::int64_t first = set / over.kernel() * over.per_group(), element = set % over.kernel();
    T down = 0, right = 0;
    for (std::int64_t plane = first; plane < first + over.per_group() && at.row >= 0; ++plane) {
      const MovedSlopes<T> slopes = moved_slopes(over, at, x + plane * over.pixels());
      const T gradient = dy[(plane * over.kernel() + element) * over.windows() + window];
      down += gradient * slopes.down;
      right += gradient * slopes.right;
    }
    T* const to = doffsets + 2 * set * over.windows() + window;
    to[0] = down;
    to[over.windows()] = right;
  }
};

/// Checks what is read and written through raw pointers.
inline MovedWindows moved_windows(const char* op, const Deformation& how, const Tensor& x,
                                  const Tensor& offsets, const Tensor& columns) {
  const ConvolutionGeometry& g = how.geometry;
  const Shape &in = x.shape(), &moves = offsets.shape(), &out = columns.shape();
  const bool images = g.spatial_axes() == 2 && in.axes() == 4 && moves.axes() == 4 && out.axes() == 4 &&
                      how.groups > 0 && x.is_contiguous() && offsets.is_contiguous() &&
                      columns.is_contiguous();
  const std::int64_t kernel = images ? g.kernel[0] * g.kernel[1] : 0;
  const bool fits = images && in[1] % how.groups == 0 && moves[0] == in[0] && out[0] == in[0] &&
                    moves[1] == 2 * how.groups * kernel && out[1] == in[1] * kernel &&
                    out[2] == g.output_length(0, in[2]) && out[3] == g.output_length(1, in[3]) &&
                    moves[2] == out[2] && moves[3] == out[3] && out[2] > 0 && out[3] > 0;
  if (!fits)
    runtime_failure(op, ": ", in.to_string(), ", offsets ", moves.to_string(), " and ", out.to_string(),
                    " do not match");
  return {in[0],    in[1],       in[2],         in[3],         out[2],
          out[3],   g.kernel[0], g.kernel[1],   g.stride[0],   g.stride[1],
          g.pad[0], g.pad[1],    g.dilation[0], g.dilation[1], how.groups};
}

}  // namespace detail

template <class Backend>
void deform_forward_on(Context& context, const Deformation& how, const Tensor& x, const Tensor& offsets,
                       Tensor& columns) {
  const detail::MovedWindows over = detail::moved_windows("deform_forward", how, x, offsets, columns);
  dispatch_float(x.dtype(), "deform_forward", [&]<class T>() {
    Backend::for_each(context, columns.count(),
                      detail::DeformForward<T>{over, x.data<T>(), offsets.data<T>(), columns.data<T>()});
  });
}

template <class Backend>
void deform_backward_on(Context& context, const Deformation& how, const Tensor& dcolumns,
                        const Tensor& offsets, Tensor& rows, Tensor& dx) {
  const detail::MovedWindows over = detail::moved_windows("deform_backward", how, dx, offsets, dcolumns);
  const std::int64_t sets = over.images * over.groups * over.kernel();
  require_count("deform_backward, rows", rows, 2 * sets * over.rows);
  dispatch_float(dcolumns.dtype(), "deform_backward", [&]<class T>() {
    const T* const moves = offsets.data<T>();
    Backend::for_each_long(context, sets * over.rows, over.columns,
                           detail::SeenRows<T, detail::MovedWindows>{
                               over, over.height, over.rows, over.columns, moves, rows.data<std::int32_t>()});
    Backend::for_each_long(
        context, over.images * over.channels * over.height, over.kernel() * over.columns,
        detail::DeformBackward<T>{over, dcolumns.data<T>(), moves, rows.data<std::int32_t>(), dx.data<T>()});
  });
}

template <class Backend>
void deform_offsets_backward_on(Context& context, const Deformation& how, const Tensor& x,
                                const Tensor& offsets, const Tensor& dcolumns, Tensor& doffsets) {
  const detail::MovedWindows over =
      detail::moved_windows("deform_offsets_backward", how, x, offsets, dcolumns);
  require_alike("deform_offsets_backward", offsets, doffsets);
  dispatch_float(x.dtype(), "deform_offsets_backward", [&]<class T>() {
    Backend::for_each_long(context, offsets.count() / 2, over.per_group(),
                           detail::DeformOffsetsBackward<T>{over, x.data<T>(), offsets.data<T>(),
                                                            dcolumns.data<T>(), doffsets.data<T>()});
  });
}

template <class Backend>
struct DefineDeform {
  DefineDeform() {
    deform_forward.define(Backend::kind, &deform_forward_on<Backend>);
    deform_backward.define(Backend::kind, &deform_backward_on<Backend>);
    deform_offsets_backward.define(Backend::kind, &deform_offsets_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
