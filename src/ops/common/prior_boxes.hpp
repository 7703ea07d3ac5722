// Default boxes of SSD: one coordinate or variance per index.
#pragma once

#include "banyan/ops/prior_boxes.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"

namespace banyan::ops {
namespace detail {

template <class T>
struct WritePriorBoxes {
  PriorBoxes boxes;
  std::int64_t each, half;  ///< boxes per position; numbers before the variances
  std::int64_t numbers;     ///< of each box in `sizes`
  const double* sizes;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t corner = i % 4, box = i / 4 % each, position = i / 4 / each;
    if (i >= half) {
      y[i] = static_cast<T>(boxes.variance[corner]);
      return;
    }
    const bool vertical = corner % 2 == 1;
    const auto index = static_cast<double>(vertical ? position / boxes.columns : position % boxes.columns);
    const std::int64_t size = boxes.denser ? box / 2 : box;
    const bool copy = boxes.denser && box % 2 == 1;
    const double offset = copy && vertical ? 1 : boxes.offset;
    const double* const of_box = sizes + numbers * size + (vertical ? 1 : 0);
    const double shift = numbers > 2 ? of_box[2] : 0;
    const double centre = (index + offset) * (vertical ? boxes.step_h : boxes.step_w) + shift;
    const double reach = of_box[0] / 2;
    double value =
        (corner < 2 ? centre - reach : centre + reach) / (vertical ? boxes.image_h : boxes.image_w);
    if (boxes.clip) value = value < 0 ? 0 : value > 1 ? 1 : value;
    y[i] = static_cast<T>(value);
  }
};

}  // namespace detail

template <class Backend>
void prior_boxes_on(Context& context, const PriorBoxes& boxes, const Tensor& sizes, Tensor& y) {
  require_type("prior_boxes", sizes, DType::f64);
  const Shape& shape = sizes.shape();
  if (shape.axes() != 2 || (shape[1] != 2 && shape[1] != 4))
    runtime_failure("prior_boxes: expected 2 or 4 numbers of each box, found ", shape.to_string());
  const std::int64_t each = boxes.denser ? 2 * shape[0] : shape[0],
                     half = boxes.rows * boxes.columns * each * 4;
  require_count("prior_boxes", y, 2 * half);
  dispatch_float(y.dtype(), "prior_boxes", [&]<class T>() {
    Backend::for_each(
        context, 2 * half,
        detail::WritePriorBoxes<T>{boxes, each, half, shape[1], sizes.data<double>(), y.data<T>()});
  });
}

}  // namespace banyan::ops
