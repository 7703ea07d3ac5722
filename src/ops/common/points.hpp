// Maps read at points of an image: some channels at one point per index forward, of one image backward.
#pragma once

#include "banyan/ops/points.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/found.hpp"
#include "ops/common/index_below.hpp"
#include "ops/common/planes.hpp"

namespace banyan::ops {
namespace detail {

/// Between the pixels (row, column), below it and to the right of it.
template <class T>
struct PointPlace {
  std::int64_t image, row, column;  ///< image -1: outside
  T down, right;                    ///< of the way to the next ones
};

/// Some channels of a point or of an image.
struct ChannelRun {
  std::int64_t number, begin, end;
};

template <class T>
struct PointMaps {
  std::int64_t images, height, width;
  Planes planes;
  T rate, padding;

  /// The i-th of all runs of `length` channels.
  BANYAN_HOST_DEVICE ChannelRun channels(std::int64_t i, std::int64_t length) const {
    const std::int64_t all = planes.channels, runs = (all + length - 1) / length, begin = i % runs * length;
    return {i / runs, begin, begin + length < all ? begin + length : all};
  }
  BANYAN_HOST_DEVICE std::int64_t pixels() const { return height * width; }
  BANYAN_HOST_DEVICE PointPlace<T> place(const T* point) const {
    const auto scaled = [this](T at) {
      const T place = (at - padding) / rate;
      return place < T(0) ? T(0) : place;
    };
    const T down = scaled(point[1]), right = scaled(point[2]);
    const bool inside = down <= static_cast<T>(height - 1) && right <= static_cast<T>(width - 1);
    if (!inside) return {-1, 0, 0, T(0), T(0)};
    const auto row = static_cast<std::int64_t>(down), column = static_cast<std::int64_t>(right);
    return {index_below(point[0], images), row, column, down - static_cast<T>(row),
            right - static_cast<T>(column)};
  }
};

/// `run` channels at one point.
template <class T>
struct ReadPoints {
  PointMaps<T> over;
  std::int64_t first, length, run;  ///< length: of a row of y
  const T *x, *points;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const auto [point, begin, end] = over.channels(i, run);
    const PointPlace<T> at = over.place(points + 3 * point);
    T* const to = y + point * length + first;
    if (at.image < 0) {
      for (std::int64_t c = begin; c < end; ++c) to[c] = T(0);
      return;
    }
    const std::int64_t step = over.planes.step(), next = over.planes.next(over.pixels());
    const T* const corner =
        x + over.planes.base({at.image, 0, 0, 0}, over.pixels()) + (at.row * over.width + at.column) * step;
    const std::int64_t right = at.right > T(0) ? step : 0, down = at.down > T(0) ? over.width * step : 0;
    for (std::int64_t c = begin; c < end; ++c) {
      const T* const here = corner + c * next;
      const T above = (T(1) - at.right) * here[0] + at.right * here[right];
      const T below = (T(1) - at.right) * here[down] + at.right * here[down + right];
      to[c] = (T(1) - at.down) * above + at.down * below;
    }
  }
};

/// `run` channels of one image.
template <class T>
struct AddAtPoints {
  PointMaps<T> over;
  std::int64_t first, length, count, run;
  const T *dy, *points;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const ChannelRun of = over.channels(i, run);
    const std::int64_t image = of.number;
    const std::int64_t step = over.planes.step(), next = over.planes.next(over.pixels());
    for (std::int64_t point = 0; point < count; ++point) {
      const PointPlace<T> at = over.place(points + 3 * point);
      if (at.image != image) continue;
      const T* const gradient = dy + point * length + first;
      T* const corner =
          dx + over.planes.base({image, 0, 0, 0}, over.pixels()) + (at.row * over.width + at.column) * step;
      const auto add = [&](std::int64_t offset, T share) {
        for (std::int64_t c = of.begin; c < of.end; ++c) corner[offset + c * next] += share * gradient[c];
      };
      add(0, (T(1) - at.down) * (T(1) - at.right));
      if (at.right > T(0)) add(step, (T(1) - at.down) * at.right);
      if (at.down > T(0)) add(over.width * step, at.down * (T(1) - at.right));
      if (at.down > T(0) && at.right > T(0)) add((over.width + 1) * step, at.down * at.right);
    }
  }
};

template <class T>
struct FindLostPoint : FindFirst {
  PointMaps<T> over;
  const T* points;
  FindLostPoint(double* noted, const PointMaps<T>& over, const T* points)
      : FindFirst{noted, 0}, over(over), points(points) {}
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t point, std::int64_t) const {
    if (over.place(points + 3 * point).image < 0) note(s, point, static_cast<double>(points[3 * point]));
  }
};

/// Checks what is read and written through raw pointers. `rows`: y or its gradient, undefined if there is
/// none.
template <class T>
PointMaps<T> point_maps(const char* op, const Tensor& x, const Tensor& points, const PointScale& scale,
                        std::int64_t first, const Tensor& rows) {
  const Shape &maps = x.shape(), &list = points.shape();
  const bool fits = maps.axes() == 4 && list.axes() == 2 && list[1] == 3 && points.is_contiguous() &&
                    (!rows.defined() || (rows.shape().axes() == 2 && rows.shape()[0] == list[0] &&
                                         first + maps[1] <= rows.shape()[1] && rows.is_contiguous()));
  if (!fits)
    runtime_failure(op, ": ", maps.to_string(), " and points ", list.to_string(), ", column ", first,
                    ", do not match");
  return {maps[0],
          maps[2],
          maps[3],
          {maps[1], !x.is_contiguous()},
          static_cast<T>(scale.rate),
          static_cast<T>(scale.padding)};
}

}  // namespace detail

/// How many channels one index has: neighbours on the CPU.
template <class Backend>
constexpr std::int64_t point_run() {
  return Backend::kind == DeviceKind::cpu ? 64 : 1;
}

template <class Backend>
void read_points_on(Context& context, const Tensor& x, const Tensor& points, const PointScale& scale,
                    std::int64_t first, Tensor& y) {
  constexpr std::int64_t run = point_run<Backend>();
  dispatch_float(x.dtype(), "read_points", [&]<class T>() {
    const auto over = detail::point_maps<T>("read_points", x, points, scale, first, y);
    Backend::for_each_long(
        context, points.shape()[0] * ((over.planes.channels + run - 1) / run), run,
        detail::ReadPoints<T>{over, first, y.shape()[1], run, x.data<T>(), points.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void add_at_points_on(Context& context, const Tensor& dy, const Tensor& points, const PointScale& scale,
                      std::int64_t first, Tensor& dx) {
  constexpr std::int64_t run = point_run<Backend>();
  const std::int64_t count = points.shape()[0];
  dispatch_float(dy.dtype(), "add_at_points", [&]<class T>() {
    const auto over = detail::point_maps<T>("add_at_points", dx, points, scale, first, dy);
    Backend::for_each_long(context, over.images * ((over.planes.channels + run - 1) / run), run * count,
                           detail::AddAtPoints<T>{over, first, dy.shape()[1], count, run, dy.data<T>(),
                                                  points.data<T>(), dx.data<T>()});
  });
}

template <class Backend>
void note_points_on(Context& context, const Tensor& x, const Tensor& points, const PointScale& scale,
                    Tensor& noted) {
  require_count("note_points", noted, 2);
  dispatch_float(x.dtype(), "note_points", [&]<class T>() {
    const auto over = detail::point_maps<T>("note_points", x, points, scale, 0, {});
    Backend::reduce_all(context, points.shape()[0],
                        detail::FindLostPoint<T>(noted.data<double>(), over, points.data<T>()));
  });
}

template <class Backend>
struct DefinePoints {
  DefinePoints() {
    read_points.define(Backend::kind, &read_points_on<Backend>);
    add_at_points.define(Backend::kind, &add_at_points_on<Backend>);
    note_points.define(Backend::kind, &note_points_on<Backend>);
  }
};

}  // namespace banyan::ops
