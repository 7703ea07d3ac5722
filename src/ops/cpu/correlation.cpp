// Correlation on CPU devices. Patches of one pixel at every place, those of FlowNet and PWC-Net, have loops
// over vectors of neighbouring columns: both maps are copied, one image at a time, into rows of channels of
// columns with zeros around them. Everything else runs the shared functors.
#include "ops/common/correlation.hpp"

#include <algorithm>
#include <vector>

#include "ops/cpu/channel_blocks.hpp"
#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

using detail::CorrelationMaps;
using detail::Planes;

template <class T>
using ColumnBlock = ChannelBlock<T, block_lanes<T>()>;

/// Displacements, and channels, that are summed at once.
constexpr std::int64_t kDisplacementsAtOnce = 9, kChannelsAtOnce = 8;

constexpr std::int64_t whole_blocks(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}

/// Rows of channels of columns. Row and column 0 belong to the result's; others may be negative.
template <class T>
struct PaddedRows {
  std::int64_t first_row, rows, channels, first_column, columns;
  std::vector<T> values{};

  void allocate() { values.assign(static_cast<std::size_t>(rows * channels * columns), T(0)); }
  const T* at(std::int64_t row, std::int64_t channel, std::int64_t column) const {
    return values.data() + place(row, channel, column);
  }
  T* at(std::int64_t row, std::int64_t channel, std::int64_t column) {
    return values.data() + place(row, channel, column);
  }

 private:
  std::int64_t place(std::int64_t row, std::int64_t channel, std::int64_t column) const {
    return ((row - first_row) * channels + channel) * columns + column - first_column;
  }
};

/// Copies one image, height x width, whose pixel (0, 0) is at (-offset, -offset), times `factor`; called by
/// every thread of a region.
template <class T>
void copy_rows(const Planes& planes, std::int64_t height, std::int64_t width, std::int64_t offset, T factor,
               const T* image, PaddedRows<T>& to) {
  const std::int64_t first = std::max(to.first_column, -offset);
  const std::int64_t last = std::min(to.first_column + to.columns, width - offset);
#pragma omp for schedule(static)
  for (std::int64_t row = to.first_row; row < to.first_row + to.rows; ++row) {
    if (row + offset < 0 || row + offset >= height) continue;
    const T* const from = image + (row + offset) * width * planes.step();
    // Of channels-last images a few columns at a time, while their pixels are in the cache.
    const std::int64_t some = planes.step() == 1 ? std::max<std::int64_t>(last - first, 1) : 16;
    for (std::int64_t begin = first; begin < last; begin += some)
      for (std::int64_t c = 0; c < planes.channels; ++c) {
        T* const of_channel = to.at(row, c, 0);
        const T* const plane = from + c * planes.next(height * width);
        const std::int64_t end = std::min(begin + some, last);
        for (std::int64_t column = begin; column < end; ++column)
          of_channel[column] = factor * plane[(column + offset) * planes.step()];
      }
  }
}

template <bool kSubtract, class Values>
void add_compared(const Values& a, const Values& b, Values& sum) {
  if constexpr (kSubtract) {
    const Values d = a - b;
    sum += d < 0 ? -d : d;
  } else {
    sum += a * b;
  }
}

/// sums: kCount displacements to the right of each other, for a block of columns.
template <class T, std::int64_t kCount, bool kSubtract>
void compare_columns(std::int64_t channels, std::int64_t between, const T* a, std::int64_t next_a, const T* b,
                     std::int64_t next_b, T* sums) {
  using Block = ColumnBlock<T>;
  typename Block::Values sum[kCount] = {}, left, right;
  for (std::int64_t c = 0; c < channels; ++c) {
    Block::load(a + c * next_a, left);
#pragma GCC unroll 16
    for (std::int64_t d = 0; d < kCount; ++d) {
      Block::load(b + c * next_b + d * between, right);
      add_compared<kSubtract>(left, right, sum[d]);
    }
  }
  for (std::int64_t d = 0; d < kCount; ++d) Block::store(sum[d], sums + d * block_lanes<T>());
}

/// The same for `count` displacements, at most kDisplacementsAtOnce.
template <class T, bool kSubtract, std::int64_t kCount = kDisplacementsAtOnce>
void compare_some(std::int64_t count, std::int64_t channels, std::int64_t between, const T* a,
                  std::int64_t next_a, const T* b, std::int64_t next_b, T* sums) {
  if (count == kCount)
    return compare_columns<T, kCount, kSubtract>(channels, between, a, next_a, b, next_b, sums);
  if constexpr (kCount > 1)
    compare_some<T, kSubtract, kCount - 1>(count, channels, between, a, next_a, b, next_b, sums);
}

/// The buffers of one image.
template <class T>
struct CorrelationRows {
  PaddedRows<T> a, b, gradient;
};

/// A block of columns of one row of the result.
template <class T, bool kSubtract>
void correlate_columns(const CorrelationMaps& over, const CorrelationRows<T>& rows, std::int64_t row,
                       std::int64_t column, T share, T* image) {
  constexpr std::int64_t kLanes = block_lanes<T>();
  const std::int64_t stride = over.how.stride_2, step = over.out.step();
  const std::int64_t next = over.out.next(over.out_height * over.out_width);
  const std::int64_t lanes = std::min(kLanes, over.out_width - column);
  T* const to = image + (row * over.out_width + column) * step;
  T sums[kDisplacementsAtOnce * kLanes];
  for (std::int64_t down = 0; down < over.side; ++down)
    for (std::int64_t first = 0; first < over.side; first += kDisplacementsAtOnce) {
      const std::int64_t count = std::min(kDisplacementsAtOnce, over.side - first);
      compare_some<T, kSubtract>(
          count, over.in.channels, stride, rows.a.at(row, 0, column), rows.a.columns,
          rows.b.at(row + (down - over.reach) * stride, 0, column + (first - over.reach) * stride),
          rows.b.columns, sums);
      T* const of_first = to + (down * over.side + first) * next;
      if (step == 1) {
        for (std::int64_t d = 0; d < count; ++d)
          for (std::int64_t lane = 0; lane < lanes; ++lane)
            of_first[d * next + lane] = share * sums[d * kLanes + lane];
      } else {
        for (std::int64_t lane = 0; lane < lanes; ++lane)
          for (std::int64_t d = 0; d < count; ++d)
            of_first[lane * step + d] = share * sums[d * kLanes + lane];
      }
    }
}

/// Buffers that hold a map for all displacements from the places [0, h) x [0, w) of the result.
template <class T>
PaddedRows<T> rows_around(const CorrelationMaps& over) {
  const std::int64_t reach = over.reach * over.how.stride_2;
  return {-reach, over.out_height + 2 * reach, whole_blocks(over.in.channels, kChannelsAtOnce), -reach,
          whole_blocks(over.out_width, block_lanes<T>()) + 2 * reach};
}

template <class T, bool kSubtract>
void correlate(int threads, const CorrelationMaps& over, const T* a, const T* b, T* y) {
  CorrelationRows<T> rows{
      {0, over.out_height, over.in.channels, 0, whole_blocks(over.out_width, block_lanes<T>())},
      rows_around<T>(over),
      {}};
  rows.a.allocate();
  rows.b.allocate();
  const std::int64_t elements = over.in.channels * over.height * over.width;
  const std::int64_t out_elements = over.out.channels * over.out_height * over.out_width;
  const T share = static_cast<T>(over.share());
  const std::int64_t blocks = (over.out_width + block_lanes<T>() - 1) / block_lanes<T>();
#pragma omp parallel num_threads(threads)
  for (std::int64_t image = 0; image < over.images; ++image) {
    copy_rows(over.in, over.height, over.width, over.offset, T(1), a + image * elements, rows.a);
    copy_rows(over.in, over.height, over.width, over.offset, T(1), b + image * elements, rows.b);
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < over.out_height * blocks; ++task)
      correlate_columns<T, kSubtract>(over, rows, task / blocks, task % blocks * block_lanes<T>(), share,
                                      y + image * out_elements);
  }
}

/// kChannelsAtOnce channels of a block of columns of one row of a gradient. `sign`: -1 for that of the second
/// map.
template <class T, bool kSubtract>
void gradient_columns(const CorrelationMaps& over, const CorrelationRows<T>& rows, std::int64_t sign,
                      std::int64_t row, std::int64_t channel, std::int64_t column, T* sums) {
  using Block = ColumnBlock<T>;
  typename Block::Values sum[kChannelsAtOnce] = {}, share, other, own;
  const std::int64_t stride = over.how.stride_2;
  const PaddedRows<T>& others = sign > 0 ? rows.b : rows.a;
  const T* const mine = (sign > 0 ? rows.a : rows.b).at(row, channel, column);
  const std::int64_t next_own = (sign > 0 ? rows.a : rows.b).columns;
  for (std::int64_t d = 0; d < over.side; ++d) {
    const std::int64_t down = (d - over.reach) * stride;
    // Where the result's row is: that of the first map.
    const std::int64_t from = sign > 0 ? row : row - down;
    if (from < 0 || from >= over.out_height) continue;
    for (std::int64_t e = 0; e < over.side; ++e) {
      const std::int64_t right = (e - over.reach) * stride;
      const T* const there = others.at(row + sign * down, channel, column + sign * right);
      Block::load(rows.gradient.at(from, d * over.side + e, sign > 0 ? column : column - right), share);
#pragma GCC unroll 16
      for (std::int64_t c = 0; c < kChannelsAtOnce; ++c) {
        Block::load(there + c * others.columns, other);
        if constexpr (kSubtract) {
          Block::load(mine + c * next_own, own);
          sum[c] += own > other ? share : own < other ? -share : share - share;
        } else {
          sum[c] += share * other;
        }
      }
    }
  }
  for (std::int64_t c = 0; c < kChannelsAtOnce; ++c) Block::store(sum[c], sums + c * block_lanes<T>());
}

/// The places of the result's plane, and beyond it, where a gradient's row or column lies: [first, last).
struct GradientSpan {
  std::int64_t first, last;
  GradientSpan(std::int64_t length, std::int64_t offset, std::int64_t out_length, std::int64_t reach)
      : first(std::max(-offset, -reach)), last(std::min(length - offset, out_length + reach)) {}
};

template <class T, bool kSubtract>
void correlate_backward(int threads, const CorrelationMaps& over, bool second, const T* a, const T* b,
                        const T* dy, T* dx) {
  constexpr std::int64_t kLanes = block_lanes<T>();
  const std::int64_t reach = over.reach * over.how.stride_2, own_reach = second ? reach : 0;
  const GradientSpan down(over.height, over.offset, over.out_height, own_reach);
  const GradientSpan right(over.width, over.offset, over.out_width, own_reach);
  const std::int64_t columns = whole_blocks(std::max<std::int64_t>(right.last - right.first, 0), kLanes);
  // A block of columns is read beyond `last`, and both maps at all displacements from there.
  const std::int64_t first_column = right.first - reach, wide = columns + 2 * reach;
  const std::int64_t channels = whole_blocks(over.in.channels, kChannelsAtOnce);
  const PaddedRows<T> of_maps{down.first - reach,
                              std::max<std::int64_t>(down.last - down.first, 0) + 2 * reach, channels,
                              first_column, wide};
  CorrelationRows<T> rows{of_maps, of_maps, {0, over.out_height, over.side * over.side, first_column, wide}};
  rows.a.allocate();
  rows.b.allocate();
  rows.gradient.allocate();
  const std::int64_t pixels = over.height * over.width, elements = over.in.channels * pixels;
  const std::int64_t out_elements = over.out.channels * over.out_height * over.out_width;
  const std::int64_t blocks = channels / kChannelsAtOnce, step = over.in.step(), next = over.in.next(pixels);
#pragma omp parallel num_threads(threads)
  for (std::int64_t image = 0; image < over.images; ++image) {
    copy_rows(over.in, over.height, over.width, over.offset, T(1), a + image * elements, rows.a);
    copy_rows(over.in, over.height, over.width, over.offset, T(1), b + image * elements, rows.b);
    copy_rows(over.out, over.out_height, over.out_width, 0, static_cast<T>(over.share()),
              dy + image * out_elements, rows.gradient);
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < over.height * blocks; ++task) {
      const std::int64_t row = task / blocks - over.offset, channel = task % blocks * kChannelsAtOnce;
      const std::int64_t count = std::min(kChannelsAtOnce, over.in.channels - channel);
      T* const to = dx + image * elements + channel * next + task / blocks * over.width * step;
      const bool reached = row >= down.first && row < down.last;
      if (!reached || right.last - right.first < over.width)
        for (std::int64_t c = 0; c < count; ++c)
          for (std::int64_t column = 0; column < over.width; ++column) to[c * next + column * step] = T(0);
      if (!reached) continue;
      T sums[kChannelsAtOnce * kLanes];
      for (std::int64_t column = right.first; column < right.last; column += kLanes) {
        gradient_columns<T, kSubtract>(over, rows, second ? -1 : 1, row, channel, column, sums);
        const std::int64_t lanes = std::min(kLanes, right.last - column);
        for (std::int64_t lane = 0; lane < lanes; ++lane)
          for (std::int64_t c = 0; c < count; ++c)
            to[c * next + (column + over.offset + lane) * step] = sums[c * kLanes + lane];
      }
    }
  }
}

bool has_loops(const Correlation& how) { return how.kernel == 1 && how.stride_1 == 1; }

void correlation_forward_on_cpu(Context& context, const Correlation& how, const Tensor& a, const Tensor& b,
                                Tensor& y) {
  if (!has_loops(how)) return correlation_forward_on<CpuBackend>(context, how, a, b, y);
  const CorrelationMaps over = detail::correlation_maps(how, a, b, y);
  const int threads = CpuBackend::threads_for(context, y.count() * over.in.channels / 8);
  dispatch_float(a.dtype(), "correlation_forward", [&]<class T>() {
    context.run([=, of_a = a.data<T>(), of_b = b.data<T>(), to = y.data<T>()] {
      if (how.subtract)
        correlate<T, true>(threads, over, of_a, of_b, to);
      else
        correlate<T, false>(threads, over, of_a, of_b, to);
    });
  });
}

void correlation_backward_on_cpu(Context& context, const Correlation& how, bool second, const Tensor& a,
                                 const Tensor& b, const Tensor& dy, Tensor& dx) {
  if (!has_loops(how)) return correlation_backward_on<CpuBackend>(context, how, second, a, b, dy, dx);
  const CorrelationMaps over = detail::correlation_maps(how, a, b, dy);
  require_alike("correlation_backward", a, dx);
  const int threads = CpuBackend::threads_for(context, dy.count() * over.in.channels / 8);
  dispatch_float(a.dtype(), "correlation_backward", [&]<class T>() {
    context.run([=, of_a = a.data<T>(), of_b = b.data<T>(), from = dy.data<T>(), to = dx.data<T>()] {
      if (how.subtract)
        correlate_backward<T, true>(threads, over, second, of_a, of_b, from, to);
      else
        correlate_backward<T, false>(threads, over, second, of_a, of_b, from, to);
    });
  });
}

const Define define_correlation_forward(correlation_forward, DeviceKind::cpu, &correlation_forward_on_cpu);
const Define define_correlation_backward(correlation_backward, DeviceKind::cpu, &correlation_backward_on_cpu);

}  // namespace
}  // namespace banyan::ops
