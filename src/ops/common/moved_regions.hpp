// Votes of regions with bins that are moved: one output element per index forward, one plane of the input
// backward, one pair of offsets for their gradient.
#pragma once

#include "banyan/ops/moved_regions.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/optional_data.hpp"
#include "ops/common/region_bins.hpp"

namespace banyan::ops {
namespace detail {

/// The points of one bin along one axis.
template <class T>
struct MovedAxis {
  T side, first, distance;  ///< of the region; of the points

  BANYAN_HOST_DEVICE MovedAxis(const Regions& over, T from, T to, T offset, std::int64_t bin,
                               std::int64_t bins) {
    const T scale = static_cast<T>(over.scale);
    const T begin = std::round(bounded(from)) * scale - T(0.5);
    const T end = (std::round(bounded(to)) + T(1)) * scale - T(0.5);
    side = end - begin > T(0.1) ? end - begin : T(0.1);
    const T length = side / static_cast<T>(bins);
    first = begin + static_cast<T>(bin) * length + offset * side;
    distance = length / static_cast<T>(over.points);
  }
  BANYAN_HOST_DEVICE PointBetween<T> at(std::int64_t point, std::int64_t length) const {
    const T where = place(point);
    return {where, !(where >= T(-0.5) && where <= static_cast<T>(length) - T(0.5)), length};
  }
  BANYAN_HOST_DEVICE T place(std::int64_t point) const { return first + static_cast<T>(point) * distance; }
  /// Whether moving the bin moves the value.
  BANYAN_HOST_DEVICE bool slides(std::int64_t point, std::int64_t length) const {
    const T where = place(point);
    return where >= T(0) && where < static_cast<T>(length - 1);
  }
};

template <class T>
struct MovedBin {
  MovedAxis<T> down, right;
};

struct MovedRegions {
  Regions over;
  Planes moves;  ///< of the offsets
  std::int64_t group, part, classes;
  double reach;

  BANYAN_HOST_DEVICE std::int64_t part_of(std::int64_t bin, std::int64_t bins) const {
    return bin * part / bins;
  }
  /// Of a channel of y.
  BANYAN_HOST_DEVICE std::int64_t class_of(std::int64_t channel) const {
    return channel / (over.out.channels / classes);
  }
  /// Of the offset to the right.
  BANYAN_HOST_DEVICE std::int64_t offset_at(std::int64_t region, std::int64_t of_class, std::int64_t row,
                                            std::int64_t column) const {
    return moves.base({region, 2 * of_class, 0, 0}, part * part) + (row * part + column) * moves.step();
  }
  /// From there to the one down.
  BANYAN_HOST_DEVICE std::int64_t next_offset() const { return moves.next(part * part); }
  /// Of x, for the bin.
  BANYAN_HOST_DEVICE std::int64_t channel_of(const PlanePosition& bin) const {
    return (bin.channel * group + bin.row * group / over.pooled_h) * group +
           bin.column * group / over.pooled_w;
  }
  /// The rows of bins, or the columns, that have the channels of row `of` of the groups.
  BANYAN_HOST_DEVICE Span bins_of(std::int64_t of, std::int64_t bins) const {
    return {(of * bins + group - 1) / group, ((of + 1) * bins + group - 1) / group};
  }
  template <class T>
  BANYAN_HOST_DEVICE MovedBin<T> bin(const T* rois, const T* offsets, const PlanePosition& at) const {
    const T* const roi = rois + at.sample * 5;
    T right = 0, down = 0;
    if (offsets != nullptr) {
      const T* const offset =
          offsets + offset_at(at.sample, class_of(at.channel), part_of(at.row, over.pooled_h),
                              part_of(at.column, over.pooled_w));
      right = offset[0] * static_cast<T>(reach);
      down = offset[next_offset()] * static_cast<T>(reach);
    }
    return {{over, roi[2], roi[4], down, at.row, over.pooled_h},
            {over, roi[1], roi[3], right, at.column, over.pooled_w}};
  }
  /// visit(y, x, row of points, column of points) for the points that count; how many there are.
  template <class T, class Visit>
  BANYAN_HOST_DEVICE std::int64_t visit(const MovedBin<T>& bin, const Visit& visit) const {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < over.points; ++i) {
      const PointBetween<T> y = bin.down.at(i, over.height);
      for (std::int64_t j = 0; j < over.points && !y.outside; ++j) {
        const PointBetween<T> x = bin.right.at(j, over.width);
        if (x.outside) continue;
        ++count;
        visit(y, x, i, j);
      }
    }
    return count;
  }
  template <class T>
  BANYAN_HOST_DEVICE std::int64_t count(const MovedBin<T>& bin) const {
    return visit(bin, [](const auto&, const auto&, std::int64_t, std::int64_t) {});
  }
};

template <class T>
struct MovedVotes {
  MovedRegions how;
  const T *x, *rois, *offsets;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const Regions& over = how.over;
    const PlanePosition at = over.bin(i);
    const std::int64_t image = over.image_of(rois + at.sample * 5), step = over.in.step(), width = over.width;
    y[i] = T(0);
    if (image < 0 || over.height < 1 || width < 1) return;
    const T* const plane = x + over.input_base(image, how.channel_of(at));
    T sum = 0;
    const std::int64_t count =
        how.visit(how.bin(rois, offsets, at),
                  [&](const PointBetween<T>& down, const PointBetween<T>& right, std::int64_t, std::int64_t) {
                    visit_between(down, right, width,
                                  [&](std::int64_t pixel, T weight) { sum += weight * plane[pixel * step]; });
                  });
    if (count > 0) y[i] = sum / static_cast<T>(count);
  }
};

template <class T>
struct MovedVotesBackward {
  MovedRegions how;
  const T *dy, *rois, *offsets;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const Regions& over = how.over;
    const std::int64_t step = over.in.step(), width = over.width, groups = how.group * how.group;
    gather_regions(over, rois, i, dx, [&](std::int64_t region, std::int64_t channel, T* plane) {
      const std::int64_t own = channel / groups;
      const Span rows = how.bins_of(channel % groups / how.group, over.pooled_h);
      const Span columns = how.bins_of(channel % how.group, over.pooled_w);
      const std::int64_t bins = (rows.end - rows.begin) * (columns.end - columns.begin);
      for (std::int64_t n = 0; n < bins; ++n) {
        const PlanePosition at{region, own, rows.begin + n / (columns.end - columns.begin),
                               columns.begin + n % (columns.end - columns.begin)};
        const std::int64_t number = at.row * over.pooled_w + at.column;
        const MovedBin<T> bin = how.bin(rois, offsets, at);
        const std::int64_t count = how.count(bin);
        if (count == 0) continue;
        const T share = dy[over.output_base(region, own) + number * over.out.step()] / static_cast<T>(count);
        how.visit(
            bin, [&](const PointBetween<T>& down, const PointBetween<T>& right, std::int64_t, std::int64_t) {
              visit_between(down, right, width,
                            [&](std::int64_t pixel, T weight) { plane[pixel * step] += weight * share; });
            });
      }
    });
  }
};

/// Index: (region, class, row, column) of the offsets.
template <class T>
struct MovedVotesOffsetsBackward {
  MovedRegions how;
  const T *x, *dy, *rois, *offsets;
  T* doffsets;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const Regions& over = how.over;
    const std::int64_t part = how.part, column = i % part, row = i / part % part;
    const std::int64_t of_class = i / (part * part) % how.classes, region = i / (part * part) / how.classes;
    const std::int64_t image = over.image_of(rois + region * 5), each = over.out.channels / how.classes;
    T to_right = 0, to_below = 0;
    if (image >= 0 && over.height > 0 && over.width > 0)
      for (std::int64_t number = 0; number < over.pooled_h * over.pooled_w; ++number) {
        PlanePosition at{region, of_class * each, number / over.pooled_w, number % over.pooled_w};
        if (how.part_of(at.row, over.pooled_h) != row || how.part_of(at.column, over.pooled_w) != column)
          continue;
        const MovedBin<T> bin = how.bin(rois, offsets, at);
        const std::int64_t count = how.count(bin);
        if (count == 0) continue;
        for (std::int64_t c = 0; c < each; ++c, ++at.channel)
          add_channel(
              bin, x + over.input_base(image, how.channel_of(at)),
              dy[over.output_base(region, at.channel) + number * over.out.step()] / static_cast<T>(count),
              to_right, to_below);
      }
    T* const to = doffsets + how.offset_at(region, of_class, row, column);
    to[0] = to_right * static_cast<T>(how.reach);
    to[how.next_offset()] = to_below * static_cast<T>(how.reach);
  }

 private:
  BANYAN_HOST_DEVICE void add_channel(const MovedBin<T>& bin, const T* plane, T share, T& to_right,
                                      T& to_below) const {
    const Regions& over = how.over;
    const std::int64_t step = over.in.step();
    how.visit(bin, [&](const PointBetween<T>& down, const PointBetween<T>& right, std::int64_t i,
                       std::int64_t j) {
      const auto value = [&](std::int64_t row, std::int64_t column) {
        return plane[(row * over.width + column) * step];
      };
      const T above_left = value(down.low, right.low), above_right = value(down.low, right.high);
      const T below_left = value(down.high, right.low), below_right = value(down.high, right.high);
      if (bin.right.slides(j, over.width))
        to_right +=
            share * bin.right.side *
            ((1 - down.fraction) * (above_right - above_left) + down.fraction * (below_right - below_left));
      if (bin.down.slides(i, over.height))
        to_below +=
            share * bin.down.side *
            ((1 - right.fraction) * (below_left - above_left) + right.fraction * (below_right - above_right));
    });
  }
};

inline MovedRegions moved_regions(const char* op, const MovedBins& how, const Tensor& x, const Tensor& rois,
                                  const Tensor& offsets, const Tensor& y) {
  const Regions over = regions_of(how.bins, x, rois, y, how.group * how.group);
  Planes moves{2 * how.classes, false};
  if (offsets.defined()) {
    if (offsets.shape() != Shape{over.count, moves.channels, how.part, how.part})
      runtime_failure(op, ": the offsets ", offsets.shape().to_string(), " do not match ", over.count,
                      " regions");
    moves.channels_last = !offsets.is_contiguous();
  }
  return {over, moves, how.group, how.part, how.classes, how.reach};
}

}  // namespace detail

template <class Backend>
void moved_votes_on(Context& context, const MovedBins& how, const Tensor& x, const Tensor& rois,
                    const Tensor& offsets, Tensor& y) {
  const detail::MovedRegions moved = detail::moved_regions("moved_votes", how, x, rois, offsets, y);
  dispatch_float(x.dtype(), "moved_votes", [&]<class T>() {
    Backend::for_each_long(context, y.count(), how.bins.points * how.bins.points,
                           detail::MovedVotes<T>{moved, x.data<T>(), rois.data<T>(),
                                                 detail::optional_data<T>(offsets), y.data<T>()});
  });
}

template <class Backend>
void moved_votes_backward_on(Context& context, const MovedBins& how, const Tensor& dy, const Tensor& rois,
                             const Tensor& offsets, Tensor& dx) {
  const detail::MovedRegions moved =
      detail::moved_regions("moved_votes_backward", how, dx, rois, offsets, dy);
  dispatch_float(dy.dtype(), "moved_votes_backward", [&]<class T>() {
    Backend::for_each_long(context, dx.shape().count(0, 2),
                           moved.over.count * how.bins.pooled_h * how.bins.pooled_w,
                           detail::MovedVotesBackward<T>{moved, dy.data<T>(), rois.data<T>(),
                                                         detail::optional_data<T>(offsets), dx.data<T>()});
  });
}

template <class Backend>
void moved_votes_offsets_backward_on(Context& context, const MovedBins& how, const Tensor& x,
                                     const Tensor& dy, const Tensor& rois, const Tensor& offsets,
                                     Tensor& doffsets) {
  const detail::MovedRegions moved =
      detail::moved_regions("moved_votes_offsets_backward", how, x, rois, offsets, dy);
  require_alike("moved_votes_offsets_backward", offsets, doffsets);
  dispatch_float(x.dtype(), "moved_votes_offsets_backward", [&]<class T>() {
    Backend::for_each_long(
        context, doffsets.count() / 2, moved.over.out.channels * how.bins.points * how.bins.points,
        detail::MovedVotesOffsetsBackward<T>{moved, x.data<T>(), dy.data<T>(), rois.data<T>(),
                                             offsets.data<T>(), doffsets.data<T>()});
  });
}

template <class Backend>
struct DefineMovedRegions {
  DefineMovedRegions() {
    moved_votes.define(Backend::kind, &moved_votes_on<Backend>);
    moved_votes_backward.define(Backend::kind, &moved_votes_backward_on<Backend>);
    moved_votes_offsets_backward.define(Backend::kind, &moved_votes_offsets_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
