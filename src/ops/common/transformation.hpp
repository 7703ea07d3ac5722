// Sampling on a transformed grid: one pixel of one map per index forward, one plane of the input backward,
// one image's numbers for the gradient of the transformation.
#pragma once

#include <cmath>

#include "banyan/ops/transformation.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/planes.hpp"

namespace banyan::ops {
namespace detail {

/// Between rows `row` and row + 1, and likewise for columns; those outside of the map count as 0.
template <class T>
struct GridPoint {
  std::int64_t row, column;
  T down, right;
};

struct TransformedGrid {
  Transformation how;
  std::int64_t images, height, width;        ///< of x
  std::int64_t rows, columns;                ///< of y
  std::int64_t theta_channels, theta_inner;  ///< where theta is channels-last; else 1 and 1
  Planes maps;

  BANYAN_HOST_DEVICE std::int64_t pixels() const { return height * width; }
  BANYAN_HOST_DEVICE std::int64_t points() const { return rows * columns; }
  /// Of number k, which theta holds.
  BANYAN_HOST_DEVICE std::int64_t place_of(std::int64_t image, int k) const {
    const std::int64_t at = how.places[k];
    return image * how.given + at % theta_inner * theta_channels + at / theta_inner;
  }
  template <class T>
  BANYAN_HOST_DEVICE T number(const T* theta, std::int64_t image, int k) const {
    return how.places[k] < 0 ? static_cast<T>(how.numbers[k]) : theta[place_of(image, k)];
  }
  /// From -1 to 1.
  template <class T>
  BANYAN_HOST_DEVICE static T part(std::int64_t at, std::int64_t of) {
    return static_cast<T>(2 * at - of) / static_cast<T>(of);
  }
  template <class T>
  BANYAN_HOST_DEVICE T place(const T* theta, std::int64_t image, int first, T down, T right,
                             std::int64_t length) const {
    const T at = number(theta, image, first) * down + number(theta, image, first + 1) * right +
                 number(theta, image, first + 2);
    const T where = (at + T(1)) / T(2) * static_cast<T>(length);
    // Far outside, or no number: where no pixel is near.
    const auto last = static_cast<T>(length + 1);
    return where > T(-2) ? where < last ? where : last : T(-2);
  }
  template <class T>
  BANYAN_HOST_DEVICE GridPoint<T> point(const T* theta, std::int64_t image, std::int64_t point) const {
    const T down = part<T>(point / columns, rows), right = part<T>(point % columns, columns);
    const T y = place(theta, image, 0, down, right, height), x = place(theta, image, 3, down, right, width);
    const T row = std::floor(y), column = std::floor(x);
    return {static_cast<std::int64_t>(row), static_cast<std::int64_t>(column), y - row, x - column};
  }
  /// visit(pixel, weight) for those of the four pixels that are there.
  template <class T, class Visit>
  BANYAN_HOST_DEVICE void visit(const GridPoint<T>& at, const Visit& visit) const {
    for (int i = 0; i < 4; ++i) {
      const std::int64_t row = at.row + i / 2, column = at.column + i % 2;
      if (row < 0 || row >= height || column < 0 || column >= width) continue;
      visit(row * width + column,
            (i / 2 == 0 ? T(1) - at.down : at.down) * (i % 2 == 0 ? T(1) - at.right : at.right));
    }
  }
};

/// One point, all channels.
template <class T>
struct TransformForward {
  TransformedGrid over;
  const T *x, *theta;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t image = i / over.points(), number = i % over.points(), step = over.maps.step();
    const std::int64_t next_in = over.maps.next(over.pixels()), next_out = over.maps.next(over.points());
    const T* const from = x + over.maps.base({image, 0, 0, 0}, over.pixels());
    T* const to = y + over.maps.base({image, 0, 0, 0}, over.points()) + number * step;
    std::int64_t pixels[4] = {0, 0, 0, 0};
    T weights[4] = {0, 0, 0, 0};
    int count = 0;
    over.visit(over.point(theta, image, number), [&](std::int64_t pixel, T weight) {
      pixels[count] = pixel * step;
      weights[count++] = weight;
    });
    if (count == 0) {
      for (std::int64_t c = 0; c < over.maps.channels; ++c) to[c * next_out] = T(0);
      return;
    }
    // A pixel that is not there has the weight 0, and the place of one that is.
    for (int k = count; k < 4; ++k) pixels[k] = pixels[0];
    for (std::int64_t c = 0; c < over.maps.channels; ++c) {
      const T* const map = from + c * next_in;
      T value = weights[0] * map[pixels[0]];
      for (int k = 1; k < 4; ++k)
        if (k < count) value += weights[k] * map[pixels[k]];
      to[c * next_out] = value;
    }
  }
};

/// The planes of `block` channels of one image.
template <class T>
struct TransformBackward {
  TransformedGrid over;
  std::int64_t block;
  const T *dy, *theta;
  T* dx;
  BANYAN_HOST_DEVICE std::int64_t blocks() const { return (over.maps.channels + block - 1) / block; }
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t image = i / blocks(), first = i % blocks() * block, step = over.maps.step();
    const std::int64_t rest = over.maps.channels - first, channels = rest < block ? rest : block;
    const std::int64_t next_in = over.maps.next(over.pixels()), next_out = over.maps.next(over.points());
    T* const planes = dx + over.maps.base({image, first, 0, 0}, over.pixels());
    const T* const gradients = dy + over.maps.base({image, first, 0, 0}, over.points());
    for (std::int64_t pixel = 0; pixel < over.pixels(); ++pixel)
      for (std::int64_t c = 0; c < channels; ++c) planes[pixel * step + c * next_in] = T(0);
    for (std::int64_t point = 0; point < over.points(); ++point)
      over.visit(over.point(theta, image, point), [&](std::int64_t pixel, T weight) {
        for (std::int64_t c = 0; c < channels; ++c)
          planes[pixel * step + c * next_in] += weight * gradients[point * step + c * next_out];
      });
  }
};

/// What a pixel `away` from a point's pixel along an axis counts there, and how that changes with the point,
/// which lies `fraction` of the way to the next pixel.
template <class T>
struct AxisShare {
  T weight, slope;
  BANYAN_HOST_DEVICE AxisShare(T fraction, int away)
      : weight(away < 0    ? T(0)
               : away == 0 ? T(1) - fraction
                           : fraction),
        slope(fraction > T(0) ? (away < 0    ? T(0)
                                 : away == 0 ? T(-1)
                                             : T(1))
                              : static_cast<T>(away) / T(2)) {}
  BANYAN_HOST_DEVICE bool none() const { return weight == T(0) && slope == T(0); }
};

/// One image's numbers: a reducer (see backend.hpp) over the grid's points, images x points.
template <class T>
struct TransformThetaBackward {
  struct State {
    double sums[6];
  };
  TransformedGrid over;
  const T *x, *theta, *dy;
  T* dtheta;
  BANYAN_HOST_DEVICE State identity() const { return {{0, 0, 0, 0, 0, 0}}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t index, std::int64_t image) const {
    const std::int64_t number = index - image * over.points(), step = over.maps.step();
    const GridPoint<T> at = over.point(theta, image, number);
    const T* const plane = x + over.maps.base({image, 0, 0, 0}, over.pixels());
    const T* const gradient = dy + over.maps.base({image, 0, 0, 0}, over.points()) + number * step;
    const std::int64_t next_in = over.maps.next(over.pixels()), next_out = over.maps.next(over.points());
    T down = 0, right = 0;
    for (int i = 0; i < 9; ++i) {
      const std::int64_t row = at.row + i / 3 - 1, column = at.column + i % 3 - 1;
      if (row < 0 || row >= over.height || column < 0 || column >= over.width) continue;
      const AxisShare<T> of_row(at.down, i / 3 - 1), of_column(at.right, i % 3 - 1);
      if (of_row.none() || of_column.none()) continue;
      const T* const pixel = plane + (row * over.width + column) * step;
      T product = 0;
      for (std::int64_t channel = 0; channel < over.maps.channels; ++channel)
        product += pixel[channel * next_in] * gradient[channel * next_out];
      down += of_row.slope * of_column.weight * product;
      right += of_row.weight * of_column.slope * product;
    }
    const double rows = static_cast<double>(over.height) / 2 * static_cast<double>(down);
    const double columns = static_cast<double>(over.width) / 2 * static_cast<double>(right);
    const double below = TransformedGrid::part<double>(number / over.columns, over.rows);
    const double along = TransformedGrid::part<double>(number % over.columns, over.columns);
    const double terms[6] = {rows * below, rows * along, rows, columns * below, columns * along, columns};
    for (int k = 0; k < 6; ++k) s.sums[k] += terms[k];
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const {
    for (int k = 0; k < 6; ++k) into.sums[k] += later.sums[k];
  }
  BANYAN_HOST_DEVICE void store(std::int64_t image, const State& s) const {
    for (int k = 0; k < 6; ++k)
      if (over.how.places[k] >= 0) dtheta[over.place_of(image, k)] = static_cast<T>(s.sums[k]);
  }
};

inline TransformedGrid transformed_grid(const char* op, const Transformation& how, const Tensor& x,
                                        const Tensor& theta, const Tensor& y) {
  const Planes maps = planes_of(op, x, y);
  const Shape &in = x.shape(), &out = y.shape();
  if (theta.count() != in[0] * how.given)
    runtime_failure(op, ": theta ", theta.shape().to_string(), " does not fit ", in[0], " images of ",
                    how.given, " numbers");
  const ChannelView view = channel_view(theta);
  const bool last = !theta.is_contiguous();
  return {how, in[0], in[2], in[3], out[2], out[3], last ? view.channels : 1, last ? view.inner : 1, maps};
}

}  // namespace detail

template <class Backend>
void transform_forward_on(Context& context, const Transformation& how, const Tensor& x, const Tensor& theta,
                          Tensor& y) {
  const detail::TransformedGrid over = detail::transformed_grid("transform_forward", how, x, theta, y);
  dispatch_float(x.dtype(), "transform_forward", [&]<class T>() {
    Backend::for_each_long(context, over.images * over.points(), over.maps.channels,
                           detail::TransformForward<T>{over, x.data<T>(), theta.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void transform_backward_on(Context& context, const Transformation& how, const Tensor& dy, const Tensor& theta,
                           Tensor& dx) {
  const detail::TransformedGrid over = detail::transformed_grid("transform_backward", how, dx, theta, dy);
  dispatch_float(dy.dtype(), "transform_backward", [&]<class T>() {
    // A point is worked out once for the channels of a block; GPUs need many threads instead.
    constexpr std::int64_t kBlock = Backend::kind == DeviceKind::cpu ? 16 : 1;
    const detail::TransformBackward<T> planes{over, kBlock, dy.data<T>(), theta.data<T>(), dx.data<T>()};
    Backend::for_each_long(context, over.images * planes.blocks(), kBlock * (over.pixels() + over.points()),
                           planes);
  });
}

template <class Backend>
void transform_theta_backward_on(Context& context, const Transformation& how, const Tensor& x,
                                 const Tensor& theta, const Tensor& dy, Tensor& dtheta) {
  const detail::TransformedGrid over =
      detail::transformed_grid("transform_theta_backward", how, x, theta, dy);
  require_alike("transform_theta_backward", theta, dtheta);
  dispatch_float(x.dtype(), "transform_theta_backward", [&]<class T>() {
    Backend::reduce_channels(context, Broadcast{1, over.images, over.points()},
                             detail::TransformThetaBackward<T>{over, x.data<T>(), theta.data<T>(),
                                                               dy.data<T>(), dtheta.data<T>()});
  });
}

template <class Backend>
struct DefineTransformation {
  DefineTransformation() {
    transform_forward.define(Backend::kind, &transform_forward_on<Backend>);
    transform_backward.define(Backend::kind, &transform_backward_on<Backend>);
    transform_theta_backward.define(Backend::kind, &transform_theta_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
