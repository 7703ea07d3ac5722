// copy_grid: a patch of the two fastest indices per call on the CPU, one element on a GPU. Where they weave a
// few lines into one or take them apart (ShuffleChannel), a stretch of such patches.
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <type_traits>
#include <utility>

#include "banyan/ops/grid.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"

namespace banyan::ops {
namespace detail {

/// About so many elements are moved by a call on the CPU, so that finding its patch costs little.
inline constexpr std::int64_t kPatch = 512;
/// A loop that is shorter costs more than its elements.
inline constexpr std::int64_t kShortLoop = 16;

/// One of the indices within a patch.
struct PatchIndex {
  std::int64_t length, from_step, to_step;
};

/// Elements of any type are moved as unsigned integers of their size. A patch of `outer` (at most) times
/// `inner` elements per call; `patches` of them, the last one perhaps lower, are one value of the grid's
/// indices.
template <class Element>
struct MoveGrid {
  Grid grid;
  std::int64_t patches, height;
  PatchIndex outer, inner;  ///< outer.length: of all patches together
  const Element* from;
  Element* to;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t first = i % patches * height;
    std::int64_t at = grid.from_offset + first * outer.from_step,
                 target = grid.to_offset + first * outer.to_step;
    i /= patches;
    for (std::int64_t k = grid.axes; k-- > 0; i /= grid.length[k]) {
      const std::int64_t index = i % grid.length[k];
      at += index * grid.from_stride[k];
      target += index * grid.to_stride[k];
    }
    const std::int64_t left = outer.length - first, rows = left < height ? left : height;
    if (inner.length == 1) return move({rows, outer.from_step, outer.to_step}, from + at, to + target);
    for (std::int64_t row = 0; row < rows; ++row) {
      move(inner, from + at, to + target);
      at += outer.from_step;
      target += outer.to_step;
    }
  }

 private:
  BANYAN_HOST_DEVICE static void move(const PatchIndex& index, const Element* source, Element* place) {
    if (index.from_step == 1 && index.to_step == 1)
      for (std::int64_t j = 0; j < index.length; ++j) place[j] = source[j];
    else
      for (std::int64_t j = 0; j < index.length; ++j) place[j * index.to_step] = source[j * index.from_step];
  }
};

/// A few lines, whose elements are taken in turn, and the one that they make.
struct Weave {
  static constexpr std::int64_t kMost = 4;
  std::int64_t lines = 0, length = 0, line_step = 0;  ///< of one line; how far apart they begin
  bool apart = false;                                 ///< from the one line to the few
};

/// Are the last two indices such lines?
inline Weave weave_of(const Grid& grid) {
  if (grid.axes < 2) return {};
  const std::int64_t last = grid.axes - 1, other = last - 1;
  const auto length = [&](std::int64_t k) { return grid.length[k]; };
  if (grid.to_stride[last] != 1) return {};
  if (length(last) <= Weave::kMost && grid.to_stride[other] == length(last) && grid.from_stride[other] == 1)
    return {length(last), length(other), grid.from_stride[last], false};
  if (length(other) <= Weave::kMost && grid.from_stride[last] == length(other) &&
      grid.from_stride[other] == 1)
    return {length(other), length(last), grid.to_stride[other], true};
  return {};
}

/// A stretch of the grid's last index per call, its other indices being equal; with the number of lines known
/// to the compiler, elements are exchanged within vectors.
template <class Element, int kLines, bool kApart>
struct MoveWoven {
  static constexpr std::int64_t kStretch = 16;
  /// Longer lines are cut, so that threads share a few long ones too.
  static constexpr std::int64_t kPiece = 2048;
  Grid grid;
  std::int64_t stretches, stretch, pieces, length, line_step;
  const Element* from;
  Element* to;

  void operator()(std::int64_t i) const {
    const std::int64_t start = i % pieces * kPiece, count = std::min(kPiece, length - start);
    i /= pieces;
    const std::int64_t along = grid.axes - 1, first = i % stretches * stretch;
    const std::int64_t end = std::min(grid.length[along], first + stretch);
    i /= stretches;
    const Element* source = from + grid.from_offset + start * (kApart ? kLines : 1);
    Element* place = to + grid.to_offset + start * (kApart ? 1 : kLines);
    for (std::int64_t k = along; k-- > 0; i /= grid.length[k]) {
      source += i % grid.length[k] * grid.from_stride[k];
      place += i % grid.length[k] * grid.to_stride[k];
    }
    for (std::int64_t at = first; at < end; ++at)
      move(count, source + at * grid.from_stride[along], place + at * grid.to_stride[along]);
  }

 private:
  void move(std::int64_t count, const Element* __restrict source, Element* __restrict place) const {
    for (std::int64_t i = 0; i < count; ++i)
      for (int line = 0; line < kLines; ++line)
        if constexpr (kApart)
          place[line * line_step + i] = source[i * kLines + line];
        else
          place[i * kLines + line] = source[line * line_step + i];
  }
};

template <class Backend, class Element, int kLines, bool kApart>
void copy_woven(Context& context, const Element* from, Element* to, Grid grid, const Weave& weave) {
  grid.axes -= 2;
  if (grid.axes == 0) grid.add(1, 0, 0);
  using Move = MoveWoven<Element, kLines, kApart>;
  const std::int64_t length = grid.length[grid.axes - 1];
  const std::int64_t pieces = (weave.length + Move::kPiece - 1) / Move::kPiece;
  const std::int64_t each = weave.lines * std::min(weave.length, Move::kPiece);
  const std::int64_t stretch = std::clamp<std::int64_t>(kPatch * 16 / each, 1, Move::kStretch);
  const std::int64_t stretches = (length + stretch - 1) / stretch;
  Backend::for_each_long(context, grid.count() / length * stretches * pieces,
                         each * std::min(length, stretch),
                         Move{grid, stretches, stretch, pieces, weave.length, weave.line_step, from, to});
}

/// The same copy in the order of the target's memory, with as few indices as possible: two whose elements
/// follow each other in both memories are one.
inline Grid ordered(const Grid& grid) {
  std::array<int, Grid::kMostAxes> order{};
  std::iota(order.begin(), order.begin() + grid.axes, 0);
  std::stable_sort(order.begin(), order.begin() + grid.axes,
                   [&](int a, int b) { return std::abs(grid.to_stride[a]) > std::abs(grid.to_stride[b]); });
  Grid result;
  result.from_offset = grid.from_offset;
  result.to_offset = grid.to_offset;
  for (int axis = 0; axis < grid.axes; ++axis) {
    const int k = order[static_cast<std::size_t>(axis)];
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

/// False: the last two indices are no such lines.
template <class Backend, class Element>
bool try_woven(Context& context, const Element* from, Element* to, const Grid& grid, const Weave& weave) {
  const auto run = [&]<int kLines>(std::integral_constant<int, kLines>) {
    if (weave.apart)
      copy_woven<Backend, Element, kLines, true>(context, from, to, grid, weave);
    else
      copy_woven<Backend, Element, kLines, false>(context, from, to, grid, weave);
  };
  if (weave.length < kShortLoop) return false;
  if (weave.lines == 2) run(std::integral_constant<int, 2>());
  if (weave.lines == 3) run(std::integral_constant<int, 3>());
  if (weave.lines == 4) run(std::integral_constant<int, 4>());
  return weave.lines >= 2 && weave.lines <= Weave::kMost;
}

/// In the order of the target's memory, or where the source's is one line made of a few, in that order.
template <class Backend, class Element>
bool try_both_orders(Context& context, const Element* from, Element* to, const Grid& grid) {
  if (try_woven<Backend>(context, from, to, grid, weave_of(grid))) return true;
  const Grid back = ordered(grid.reversed());
  Weave weave = weave_of(back);
  if (weave.apart) return false;
  weave.apart = true;
  return try_woven<Backend>(context, from, to, back.reversed(), weave);
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
  MoveGrid<Element> functor{{},
                            1,
                            1,
                            {1, 0, 0},
                            {1, 0, 0},
                            static_cast<const Element*>(from.raw()),
                            static_cast<Element*>(to.raw())};
  if constexpr (Backend::kind == DeviceKind::cpu) {
    if (try_both_orders<Backend>(context, functor.from, functor.to, grid)) return;
    const auto take_last = [&grid] {
      const std::int64_t last = --grid.axes;
      return PatchIndex{grid.length[last], grid.from_stride[last], grid.to_stride[last]};
    };
    functor.inner = take_last();
    if (functor.inner.length >= kPatch)
      std::swap(functor.outer, functor.inner);  // a long line is shared out among threads
    else if (grid.axes > 0)
      functor.outer = take_last();
    // Not a few groups of channels.
    if (functor.inner.length < std::min(kShortLoop, functor.outer.length) && functor.outer.length < kPatch)
      std::swap(functor.outer, functor.inner);
    functor.height = std::clamp<std::int64_t>(kPatch / functor.inner.length, 1, functor.outer.length);
    functor.patches = (functor.outer.length + functor.height - 1) / functor.height;
  }
  functor.grid = grid;
  Backend::for_each_long(context, grid.count() * functor.patches, functor.height * functor.inner.length,
                         functor);
}

}  // namespace detail

template <class Backend>
void copy_grid_on(Context& context, const Tensor& from, Tensor& to, const Grid& wanted) {
  require_type("copy_grid", to, from.dtype());
  if (wanted.count() <= 0) return;
  const Grid grid = detail::ordered(wanted);
  detail::require_grid("source", from.count(), grid, grid.from_offset, grid.from_stride);
  detail::require_grid("target", to.count(), grid, grid.to_offset, grid.to_stride);
  dispatch_size(from.dtype(),
                [&]<class Element>() { detail::copy_grid_of<Backend, Element>(context, from, to, grid); });
}

}  // namespace banyan::ops
