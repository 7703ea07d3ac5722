// Boxes of the cells of YOLO's maps, for every back end (see backend.hpp).
#pragma once

#include "banyan/ops/cell_boxes.hpp"
#include "ops/common/activations.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"

namespace banyan::ops {
namespace detail {

/// Of element i.
BANYAN_HOST_DEVICE inline bool is_sigmoid(const CellBoxes& over, std::int64_t i) {
  const std::int64_t channel = i / over.cells % (5 + over.classes);
  return channel < 2 || channel == 4 || (channel > 4 && !over.exclusive);
}

template <class T>
struct CellBoxesForward {
  CellBoxes over;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    y[i] = is_sigmoid(over, i) ? Sigmoid<T>{}(x[i]) : x[i];
  }
};

template <class T>
struct CellBoxesSlopes {
  CellBoxes over;
  const T *y, *dy;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    dx[i] = is_sigmoid(over, i) ? SigmoidGradient<T>{}(y[i], dy[i]) : dy[i];
  }
};

/// The classes of one box, in place.
template <class T>
struct ExclusiveClasses {
  CellBoxes over;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t position) const {
    const std::int64_t box = position / over.cells, cell = position % over.cells;
    const std::int64_t begin = (box * (5 + over.classes) + 5) * over.cells + cell,
                       end = begin + over.classes * over.cells;
    T most = y[begin];
    for (std::int64_t i = begin; i < end; i += over.cells) most = y[i] > most ? y[i] : most;
    double sum = 0;
    for (std::int64_t i = begin; i < end; i += over.cells) {
      y[i] = std::exp(y[i] - most);
      sum += static_cast<double>(y[i]);
    }
    const T scale = static_cast<T>(1 / sum);
    for (std::int64_t i = begin; i < end; i += over.cells) y[i] *= scale;
  }
};

}  // namespace detail

template <class Backend>
void cell_boxes_forward_on(Context& context, const Tensor& x, const CellBoxes& over, Tensor& y) {
  require_count("cell_boxes_forward", x, over.boxes * over.channels() * over.cells);
  require_alike("cell_boxes_forward", x, y);
  if (x.count() == 0) return;
  dispatch_float(x.dtype(), "cell_boxes_forward", [&]<class T>() {
    Backend::for_each(context, x.count(), detail::CellBoxesForward<T>{over, x.data<T>(), y.data<T>()});
    if (over.exclusive && over.classes > 0)
      Backend::for_each_long(context, over.boxes * over.cells, over.classes,
                             detail::ExclusiveClasses<T>{over, y.data<T>()});
  });
}

template <class Backend>
void cell_boxes_slopes_on(Context& context, const Tensor& y, const Tensor& dy, const CellBoxes& over,
                          Tensor& dx) {
  require_count("cell_boxes_slopes", y, over.boxes * over.channels() * over.cells);
  require_alike("cell_boxes_slopes", y, dy);
  require_alike("cell_boxes_slopes", y, dx);
  dispatch_float(y.dtype(), "cell_boxes_slopes", [&]<class T>() {
    Backend::for_each(context, y.count(),
                      detail::CellBoxesSlopes<T>{over, y.data<T>(), dy.data<T>(), dx.data<T>()});
  });
}

}  // namespace banyan::ops
