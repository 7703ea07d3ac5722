// Largest values along an axis (see backend.hpp); CPU devices have loops of their own for most of it.
// Selecting needs no memory: the next largest is the largest of those that come after the one before it.
#pragma once

#include "banyan/ops/selection.hpp"
#include "ops/common/labels.hpp"
#include "ops/common/optional_data.hpp"

namespace banyan::ops {
namespace detail {

/// Channels [first, end) at one position of outer x channels x inner memory.
template <class T>
struct Line {
  const T* x;  ///< channel 0
  std::int64_t inner, first, end;

  /// Whether channel a comes before channel b: larger, or equal and later. NaN comes first.
  BANYAN_HOST_DEVICE bool before(std::int64_t a, std::int64_t b) const {
    const T left = x[a * inner], right = x[b * inner];
    if (left > right) return true;
    if (left == right) return a > b;
    return left != left && (right == right || a > b);
  }
  /// The channel that follows `last` (-1: the first of all); -1 if none does.
  BANYAN_HOST_DEVICE std::int64_t next(std::int64_t last) const {
    std::int64_t best = -1;
    for (std::int64_t c = first; c < end; ++c)
      if ((last < 0 || before(last, c)) && (best < 0 || before(c, best))) best = c;
    return best;
  }
};

template <class T>
struct Largest {
  Channels over;
  int k;
  std::int64_t stride;
  const T* x;
  T *places, *values;
  BANYAN_HOST_DEVICE void operator()(std::int64_t position) const {
    const Line<T> line{x + first_class(over, position), over.inner, 0, over.channels};
    std::int64_t channel = -1;
    for (int rank = 0; rank < k; ++rank) {
      channel = line.next(channel);
      const std::int64_t to = position / over.inner * stride + rank * over.inner + position % over.inner;
      if (places != nullptr) places[to] = static_cast<T>(channel);
      if (values != nullptr) values[to] = line.x[channel * over.inner];
    }
  }
};

template <class T>
struct KeepPlaces {
  Channels over;
  int k;
  const T *x, *places;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t position) const {
    const std::int64_t first = first_class(over, position);
    for (std::int64_t c = 0; c < over.channels; ++c) y[first + c * over.inner] = T(0);
    const std::int64_t place = position / over.inner * k * over.inner + position % over.inner;
    for (int rank = 0; rank < k; ++rank) {
      const auto channel = static_cast<std::int64_t>(places[place + rank * over.inner]);
      y[first + channel * over.inner] = x[first + channel * over.inner];
    }
  }
};

/// The k of a PartReduction, and 1 / k.
struct PartShare {
  std::int64_t count;
  double each;
};
inline PartShare share_of(const PartReduction& what) {
  const std::int64_t count =
      what.kind == PartReduction::Kind::largest && what.k < what.count ? what.k : what.count;
  return {count,
          what.kind == PartReduction::Kind::sum || count == 0 ? 1.0 : 1.0 / static_cast<double>(count)};
}

template <class T>
struct ReducePart {
  Channels over;
  PartReduction what;
  PartShare share;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t position) const {
    const Line<T> line{x + first_class(over, position) + what.first * over.inner, over.inner * what.step, 0,
                       what.count};
    double sum = 0;
    if (share.count == what.count) {
      for (std::int64_t c = 0; c < line.end; ++c) sum += static_cast<double>(line.x[c * line.inner]);
    } else {
      std::int64_t channel = -1;
      for (std::int64_t rank = 0; rank < share.count; ++rank) {
        channel = line.next(channel);
        sum += static_cast<double>(line.x[channel * line.inner]);
      }
    }
    const std::int64_t outer = position / over.inner, inside = position % over.inner;
    y[(outer * what.parts + what.part) * over.inner + inside] = static_cast<T>(sum * share.each);
  }
};

/// One channel of the part at one position per index.
template <class T>
struct ReducePartGradient {
  Channels over;
  PartReduction what;
  PartShare share;
  const T *x, *dy;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t inside = i % over.inner, channel = i / over.inner % what.count,
                       outer = i / over.inner / what.count;
    const std::int64_t begin = (outer * over.channels + what.first) * over.inner + inside,
                       stride = over.inner * what.step;
    bool counts = true;
    if (share.count < what.count) {
      const Line<T> line{x + begin, stride, 0, what.count};
      std::int64_t ahead = 0;
      for (std::int64_t c = line.first; c < line.end; ++c) ahead += line.before(c, channel) ? 1 : 0;
      counts = ahead < share.count;
    }
    const T gradient = dy[(outer * what.parts + what.part) * over.inner + inside];
    dx[begin + channel * stride] = counts ? gradient * static_cast<T>(share.each) : T(0);
  }
};

inline void require_part(const char* op, const Tensor& x, const Tensor& y, const Channels& over,
                         const PartReduction& what) {
  require_count(op, x, over.outer * over.channels * over.inner);
  require_count(op, y, over.outer * what.parts * over.inner);
  const std::int64_t end = what.count > 0 ? what.first + (what.count - 1) * what.step + 1 : what.first;
  if (what.first < 0 || what.count < 0 || what.step < 1 || end > over.channels || what.part >= what.parts)
    runtime_failure(op, ": every ", what.step, "th of the channels [", what.first, ", ", end, ") of ",
                    over.channels, " for part ", what.part, " of ", what.parts);
}

inline void require_largest(const Tensor& x, const Channels& over, int k, std::int64_t stride,
                            const Tensor& places, const Tensor& values) {
  require_count("largest", x, over.outer * over.channels * over.inner);
  if (k < 1 || k > over.channels) runtime_failure("largest: ", k, " of ", over.channels, " channels");
  const std::int64_t needed = over.outer == 0 ? 0 : (over.outer - 1) * stride + k * over.inner;
  for (const Tensor* result : {&places, &values})
    if (result->defined() && (stride < k * over.inner || result->count() < needed))
      runtime_failure("largest: the result ", result->shape().to_string(), " is too small");
}

}  // namespace detail

template <class Backend>
void largest_on(Context& context, const Tensor& x, const Channels& over, int k, std::int64_t stride,
                Tensor& places, Tensor& values) {
  detail::require_largest(x, over, k, stride, places, values);
  dispatch_float(x.dtype(), "largest", [&]<class T>() {
    Backend::for_each_long(context, over.outer * over.inner, over.channels,
                           detail::Largest<T>{over, k, stride, x.data<T>(), detail::optional_data<T>(places),
                                              detail::optional_data<T>(values)});
  });
}

template <class Backend>
void keep_places_on(Context& context, const Tensor& x, const Tensor& places, const Channels& over, int k,
                    Tensor& y) {
  require_count("keep_places", x, over.outer * over.channels * over.inner);
  require_count("keep_places", places, over.outer * k * over.inner);
  require_alike("keep_places", x, y);
  dispatch_float(x.dtype(), "keep_places", [&]<class T>() {
    Backend::for_each_long(context, over.outer * over.inner, over.channels,
                           detail::KeepPlaces<T>{over, k, x.data<T>(), places.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void reduce_part_on(Context& context, const Tensor& x, const Channels& over, const PartReduction& what,
                    Tensor& y) {
  detail::require_part("reduce_part", x, y, over, what);
  dispatch_float(x.dtype(), "reduce_part", [&]<class T>() {
    Backend::for_each_long(
        context, over.outer * over.inner, over.channels,
        detail::ReducePart<T>{over, what, detail::share_of(what), x.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void reduce_part_backward_on(Context& context, const Tensor& x, const Tensor& dy, const Channels& over,
                             const PartReduction& what, Tensor& dx) {
  detail::require_part("reduce_part_backward", x, dy, over, what);
  require_alike("reduce_part_backward", x, dx);
  dispatch_float(x.dtype(), "reduce_part_backward", [&]<class T>() {
    Backend::for_each(context, over.outer * what.count * over.inner,
                      detail::ReducePartGradient<T>{over, what, detail::share_of(what), x.data<T>(),
                                                    dy.data<T>(), dx.data<T>()});
  });
}

}  // namespace banyan::ops
