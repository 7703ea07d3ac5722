// copy_grid: one run of the fastest index per call on the CPU, one element on a GPU.
#pragma once

#include "banyan/ops/grid.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"

namespace banyan::ops {
namespace detail {

/// Elements of any type are moved as unsigned integers of their size. `run` of the fastest index per call.
template <class Element>
struct MoveGrid {
  Grid grid;
  std::int64_t run, from_step, to_step;
  const Element* from;
  Element* to;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t at = grid.from_offset, target = grid.to_offset;
    for (std::int64_t k = grid.axes; k-- > 0; i /= grid.length[k]) {
      const std::int64_t index = i % grid.length[k];
      at += index * grid.from_stride[k];
      target += index * grid.to_stride[k];
    }
    for (std::int64_t j = 0; j < run; ++j) to[target + j * to_step] = from[at + j * from_step];
  }
};

/// The same copy with as few indices as possible: two whose elements follow each other in both memories are
/// one.
inline Grid joined(const Grid& grid) {
  Grid result;
  result.from_offset = grid.from_offset;
  result.to_offset = grid.to_offset;
  for (int k = 0; k < grid.axes; ++k) {
    const std::int64_t length = grid.length[k], from = grid.from_stride[k], to = grid.to_stride[k];
    if (length == 1) continue;
    const std::int64_t last = result.axes - 1;
    if (last >= 0 && result.from_stride[last] == length * from && result.to_stride[last] == length * to) {
      result.length[last] *= length;
      result.from_stride[last] = from;
      result.to_stride[last] = to;
    } else {
      result.add(length, from, to);
    }
  }
  if (result.axes == 0) result.add(1, 1, 1);
  return result;
}

/// All places must lie within `count` elements.
inline void require_grid(const char* side, std::int64_t count, const Grid& grid, std::int64_t offset,
                         const std::int64_t* strides) {
  std::int64_t first = offset, last = offset;
  for (int k = 0; k < grid.axes; ++k) (strides[k] < 0 ? first : last) += (grid.length[k] - 1) * strides[k];
  if (first < 0 || last >= count)
    runtime_failure("copy_grid: the elements ", first, " to ", last, " are not in the ", count,
                    " elements of the ", side);
}

template <class Backend, class Element>
void copy_grid_of(Context& context, const Tensor& from, Tensor& to, Grid grid) {
  MoveGrid<Element> functor{
      grid, 1, 0, 0, static_cast<const Element*>(from.raw()), static_cast<Element*>(to.raw())};
  if constexpr (Backend::kind == DeviceKind::cpu) {
    const std::int64_t last = functor.grid.axes - 1;
    functor.run = functor.grid.length[last];
    functor.from_step = functor.grid.from_stride[last];
    functor.to_step = functor.grid.to_stride[last];
    functor.grid.axes = last;
  }
  Backend::for_each_long(context, grid.count() / functor.run, functor.run, functor);
}

}  // namespace detail

template <class Backend>
void copy_grid_on(Context& context, const Tensor& from, Tensor& to, const Grid& wanted) {
  require_type("copy_grid", to, from.dtype());
  if (wanted.count() <= 0) return;
  const Grid grid = detail::joined(wanted);
  detail::require_grid("source", from.count(), grid, grid.from_offset, grid.from_stride);
  detail::require_grid("target", to.count(), grid, grid.to_offset, grid.to_stride);
  switch (size_of(from.dtype())) {
    case 8:
      return detail::copy_grid_of<Backend, std::uint64_t>(context, from, to, grid);
    case 4:
      return detail::copy_grid_of<Backend, std::uint32_t>(context, from, to, grid);
    case 2:
      return detail::copy_grid_of<Backend, std::uint16_t>(context, from, to, grid);
    default:
      return detail::copy_grid_of<Backend, std::uint8_t>(context, from, to, grid);
  }
}

}  // namespace banyan::ops
