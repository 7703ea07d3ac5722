// Correlation of two maps: one element of the result, or of a gradient, per index.
#pragma once

#include <cmath>

#include "banyan/ops/correlation.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/planes.hpp"

namespace banyan::ops {
namespace detail {

/// Places of the result [first, last] along an axis.
struct CorrelationRange {
  std::int64_t first, last;
};

struct CorrelationMaps {
  Correlation how;
  std::int64_t images, height, width, out_height, out_width;
  Planes in, out;
  std::int64_t reach, side;  ///< side: displacements along an axis
  std::int64_t offset;       ///< of the middle of patch 0 in a map
  std::int64_t radius;       ///< of a patch

  BANYAN_HOST_DEVICE std::int64_t down(std::int64_t d) const { return (d / side - reach) * how.stride_2; }
  BANYAN_HOST_DEVICE std::int64_t right(std::int64_t d) const { return (d % side - reach) * how.stride_2; }
  BANYAN_HOST_DEVICE bool inside(std::int64_t row, std::int64_t column) const {
    return row >= 0 && row < height && column >= 0 && column < width;
  }
  /// Those whose patches hold a map's pixel.
  BANYAN_HOST_DEVICE CorrelationRange patches(std::int64_t pixel, std::int64_t length) const {
    const std::int64_t low = pixel - offset - radius, high = pixel - offset + radius;
    const std::int64_t first = low <= 0 ? 0 : (low + how.stride_1 - 1) / how.stride_1;
    const std::int64_t last = high < 0 ? -1 : high / how.stride_1;
    return {first, last < length ? last : length - 1};
  }
  double share() const {
    const std::int64_t products = how.kernel * how.kernel * in.channels;
    return products == 0 ? 0 : 1.0 / static_cast<double>(products);
  }
};

template <class T>
struct CorrelationForward {
  CorrelationMaps over;
  const T *a, *b;
  T* y;
  T share;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const PlanePosition at = over.out.locate(i, over.out_height, over.out_width);
    const std::int64_t pixels = over.height * over.width, image = over.in.base({at.sample, 0, 0, 0}, pixels);
    const std::int64_t down = over.down(at.channel), right = over.right(at.channel);
    const std::int64_t top = at.row * over.how.stride_1 + over.offset - over.radius;
    const std::int64_t left = at.column * over.how.stride_1 + over.offset - over.radius;
    T sum = 0;
    for (std::int64_t row = top; row < top + over.how.kernel; ++row)
      for (std::int64_t column = left; column < left + over.how.kernel; ++column)
        sum += of_pixels(image, over.inside(row, column), row * over.width + column,
                         over.inside(row + down, column + right), (row + down) * over.width + column + right);
    y[i] = sum * share;
  }

 private:
  BANYAN_HOST_DEVICE T of_pixels(std::int64_t image, bool has_a, std::int64_t pixel_a, bool has_b,
                                 std::int64_t pixel_b) const {
    const std::int64_t next = over.in.next(over.height * over.width), step = over.in.step();
    const T *from_a = a + image + pixel_a * step, *from_b = b + image + pixel_b * step;
    T sum = 0;
    if (!over.how.subtract) {
      if (!has_a || !has_b) return sum;
      for (std::int64_t c = 0; c < over.in.channels; ++c) sum += from_a[c * next] * from_b[c * next];
      return sum;
    }
    if (!has_a && !has_b) return sum;
    for (std::int64_t c = 0; c < over.in.channels; ++c)
      sum += std::fabs((has_a ? from_a[c * next] : T(0)) - (has_b ? from_b[c * next] : T(0)));
    return sum;
  }
};

template <class T>
struct CorrelationBackward {
  CorrelationMaps over;
  bool second;
  const T *a, *b, *dy;
  T* dx;
  T share;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const PlanePosition at = over.in.locate(i, over.height, over.width);
    const std::int64_t plane = over.in.base(at, over.height * over.width), step = over.in.step();
    const std::int64_t out_pixels = over.out_height * over.out_width;
    const T *own = second ? b : a, *others = second ? a : b;
    const std::int64_t sign = second ? -1 : 1;
    T sum = 0;
    for (std::int64_t d = 0; d < over.side * over.side; ++d) {
      // Where the other map's pixel is, and that of the first map, whose patches they are.
      const std::int64_t row = at.row + sign * over.down(d), column = at.column + sign * over.right(d);
      const bool there = over.inside(row, column);
      if (!there && !over.how.subtract) continue;
      const CorrelationRange rows = over.patches(second ? row : at.row, over.out_height);
      const CorrelationRange columns = over.patches(second ? column : at.column, over.out_width);
      const T* const gradient = dy + over.out.base({at.sample, d, 0, 0}, out_pixels);
      T of_patches = 0;
      for (std::int64_t r = rows.first; r <= rows.last; ++r)
        for (std::int64_t c = columns.first; c <= columns.last; ++c)
          of_patches += gradient[(r * over.out_width + c) * over.out.step()];
      const T other = there ? others[plane + (row * over.width + column) * step] : T(0);
      sum += of_patches * slope(own[i], other);
    }
    dx[i] = sum * share;
  }

 private:
  /// |a - b| falls with b as it rises with a where both are exchanged.
  BANYAN_HOST_DEVICE T slope(T mine, T other) const {
    if (!over.how.subtract) return other;
    return mine > other ? T(1) : mine < other ? T(-1) : T(0);
  }
};

/// Checks what is read and written through raw pointers.
inline CorrelationMaps correlation_maps(const Correlation& how, const Tensor& a, const Tensor& b,
                                        const Tensor& y) {
  const Planes in = planes_of("correlation", a, b);
  const Shape &maps = a.shape(), &out = y.shape();
  const bool channels_last = in.channels_last || !y.is_contiguous();
  if (b.shape() != maps || out.axes() != 4 || out[0] != maps[0] || out[1] != how.displacements() ||
      out[2] != how.output_length(maps[2]) || out[3] != how.output_length(maps[3]) ||
      (channels_last && (fixed_contiguous(a) || fixed_contiguous(b) || fixed_contiguous(y))))
    runtime_failure("correlation: ", maps.to_string(), " ", name_of(a.layout()), ", ", b.shape().to_string(),
                    " and ", out.to_string(), " ", name_of(y.layout()), " do not match");
  return {how,
          maps[0],
          maps[2],
          maps[3],
          out[2],
          out[3],
          {maps[1], channels_last},
          {out[1], channels_last},
          how.reach(),
          2 * how.reach() + 1,
          how.border() - how.pad,
          how.kernel / 2};
}

}  // namespace detail

template <class Backend>
void correlation_forward_on(Context& context, const Correlation& how, const Tensor& a, const Tensor& b,
                            Tensor& y) {
  const detail::CorrelationMaps over = detail::correlation_maps(how, a, b, y);
  dispatch_float(a.dtype(), "correlation_forward", [&]<class T>() {
    Backend::for_each_long(context, y.count(), over.in.channels * how.kernel * how.kernel,
                           detail::CorrelationForward<T>{over, a.data<T>(), b.data<T>(), y.data<T>(),
                                                         static_cast<T>(over.share())});
  });
}

template <class Backend>
void correlation_backward_on(Context& context, const Correlation& how, bool second, const Tensor& a,
                             const Tensor& b, const Tensor& dy, Tensor& dx) {
  const detail::CorrelationMaps over = detail::correlation_maps(how, a, b, dy);
  require_alike("correlation_backward", a, dx);
  dispatch_float(a.dtype(), "correlation_backward", [&]<class T>() {
    Backend::for_each_long(
        context, dx.count(), how.displacements(),
        detail::CorrelationBackward<T>{over, second, a.data<T>(), b.data<T>(), dy.data<T>(), dx.data<T>(),
                                       static_cast<T>(over.share())});
  });
}

}  // namespace banyan::ops
