#include "banyan/ops/grid.hpp"

#include "banyan/base/error.hpp"

namespace banyan::ops {

void Grid::add(std::int64_t length_of_axis, std::int64_t stride_in_source, std::int64_t stride_in_target) {
  if (axes == kMostAxes) runtime_failure("copy_grid: more than ", kMostAxes, " indices");
  length[axes] = length_of_axis;
  from_stride[axes] = stride_in_source;
  to_stride[axes] = stride_in_target;
  ++axes;
}

std::int64_t Grid::count() const {
  std::int64_t product = 1;
  for (int k = 0; k < axes; ++k) product *= length[k];
  return product;
}

Grid Grid::reversed() const {
  Grid back;
  for (int k = 0; k < axes; ++k) back.add(length[k], to_stride[k], from_stride[k]);
  back.from_offset = to_offset;
  back.to_offset = from_offset;
  return back;
}

std::vector<std::int64_t> strides_of(const Shape& shape, Layout layout) {
  const auto axes = static_cast<std::size_t>(shape.axes());
  const bool channels_last = layout == Layout::channels_last && axes >= 3;
  std::vector<std::int64_t> strides(axes);
  std::int64_t step = channels_last ? shape[1] : 1;
  for (std::size_t axis = axes; axis-- > 0;) {
    if (channels_last && axis == 1) continue;
    strides[axis] = step;
    step *= shape.dims()[axis];
  }
  if (channels_last) strides[1] = 1;
  return strides;
}

}  // namespace banyan::ops
