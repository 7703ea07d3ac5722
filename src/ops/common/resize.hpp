// Bilinear resizing: one output pixel per index forward, one input pixel per index backward. Points are
// fractions of integers, so none is rounded to the wrong side of a pixel.
#pragma once

#include "banyan/ops/resize.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/planes.hpp"

namespace banyan::ops {
namespace detail {

/// A point between two neighbours: `fraction` of the way from `low` to low + 1, which is not there if 0.
template <class A>
struct Between {
  std::int64_t low;
  A fraction;
};

struct ResizeAxis {
  std::int64_t begin, length;  ///< the part of the input
  std::int64_t input, output;

  template <class A>
  BANYAN_HOST_DEVICE Between<A> point(std::int64_t o) const {
    if (output == 1) return {0, A(0)};
    const std::int64_t numerator = o * (length - 1), low = numerator / (output - 1);
    return {low, static_cast<A>(numerator - low * (output - 1)) / static_cast<A>(output - 1)};
  }
  /// The number in the part of a pixel of the input; -1 outside.
  BANYAN_HOST_DEVICE std::int64_t in_part(std::int64_t pixel) const {
    return pixel >= begin && pixel < begin + length ? pixel - begin : -1;
  }
  /// First and one past the last output whose point lies less than 1 from pixel i of the part.
  BANYAN_HOST_DEVICE std::int64_t first_output(std::int64_t i) const {
    return length == 1 || i < 1 ? 0 : (i - 1) * (output - 1) / (length - 1) + 1;
  }
  BANYAN_HOST_DEVICE std::int64_t last_output(std::int64_t i) const {
    if (length == 1) return output;
    if (output == 1) return i == 0 ? 1 : 0;
    const std::int64_t last = ((i + 1) * (output - 1) + length - 2) / (length - 1);
    // A point at the very end of the part is less than 1 away from its last pixel.
    return i + 1 < length && last < output ? last : output;
  }
  /// What pixel i of the part contributes to output o.
  template <class A>
  BANYAN_HOST_DEVICE A weight(std::int64_t i, std::int64_t o) const {
    const Between<A> at = point<A>(o);
    return at.low == i ? 1 - at.fraction : at.low + 1 == i ? at.fraction : A(0);
  }
};

struct ResizePlanes : Planes {
  ResizeAxis h, w;
};

template <class T>
struct ResizeForward {
  using A = Arithmetic<T>;
  ResizePlanes planes;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const ResizeAxis &h = planes.h, &w = planes.w;
    const PlanePosition at = planes.locate(i, h.output, w.output);
    const auto row = h.point<A>(at.row), column = w.point<A>(at.column);
    const std::int64_t corner = (h.begin + row.low) * w.input + w.begin + column.low;
    const T* const from = x + planes.base(at, h.input * w.input) + corner * planes.step();
    const std::int64_t right = column.fraction > 0 ? planes.step() : 0;
    const std::int64_t down = row.fraction > 0 ? w.input * planes.step() : 0;
    const A above = (1 - column.fraction) * from[0] + column.fraction * from[right];
    const A below = (1 - column.fraction) * from[down] + column.fraction * from[down + right];
    y[i] = static_cast<T>((1 - row.fraction) * above + row.fraction * below);
  }
};

/// Over: planes with two axes such as ResizeAxis.
template <class T, class Over>
struct ResizeBackward {
  using A = Arithmetic<T>;
  Over planes;
  const T* dy;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const auto &h = planes.h, &w = planes.w;
    const PlanePosition at = planes.locate(i, h.input, w.input);
    const std::int64_t row = h.in_part(at.row), column = w.in_part(at.column);
    A sum = 0;
    if (row >= 0 && column >= 0) {
      const T* const plane = dy + planes.base(at, h.output * w.output);
      const std::int64_t end = w.last_output(column);
      for (std::int64_t r = h.first_output(row); r < h.last_output(row); ++r) {
        const A share = h.template weight<A>(row, r);
        for (std::int64_t c = w.first_output(column); c < end; ++c) {
          // An output that the pixel has no part in may be infinite.
          const A weight = share * w.template weight<A>(column, c);
          if (weight != A(0)) sum += weight * plane[(r * w.output + c) * planes.step()];
        }
      }
    }
    dx[i] = static_cast<T>(sum);
  }
};

inline ResizePlanes resize_planes(const ImagePart& part, const Tensor& input, const Tensor& output) {
  const Planes planes = planes_of("resize", input, output);
  const Shape &in = input.shape(), &out = output.shape();
  if (part.top < 0 || part.left < 0 || part.height < 1 || part.width < 1 || part.top + part.height > in[2] ||
      part.left + part.width > in[3])
    runtime_failure("resize: a part of ", part.height, " x ", part.width, " from row ", part.top, ", column ",
                    part.left, " of ", in.to_string());
  return {planes, {part.top, part.height, in[2], out[2]}, {part.left, part.width, in[3], out[3]}};
}

}  // namespace detail

template <class Backend>
void resize_forward_on(Context& context, const ImagePart& part, const Tensor& x, Tensor& y) {
  const detail::ResizePlanes planes = detail::resize_planes(part, x, y);
  dispatch_storage(x.dtype(), "resize_forward", [&]<class T>() {
    Backend::for_each(context, y.count(), detail::ResizeForward<T>{planes, x.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void resize_backward_on(Context& context, const ImagePart& part, const Tensor& dy, Tensor& dx) {
  const detail::ResizePlanes planes = detail::resize_planes(part, dx, dy);
  dispatch_storage(dy.dtype(), "resize_backward", [&]<class T>() {
    Backend::for_each(context, dx.count(),
                      detail::ResizeBackward<T, detail::ResizePlanes>{planes, dy.data<T>(), dx.data<T>()});
  });
}

}  // namespace banyan::ops
