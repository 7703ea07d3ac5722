// Pooling over regions on CPU devices, channels-last: where a bin lies is worked out once for all channels,
// and loops go over the channels. Each result gets its terms in the order of the shared functors, which are
// for contiguous tensors.
//
// Backward, regions may overlap: threads share out what no two of them write, pieces of the channels or,
// where a bin's channels are no neighbours (R-FCN), rows of pixels.
#include "ops/common/regions.hpp"

#include <algorithm>
#include <vector>

#include "ops/cpu/channel_blocks.hpp"
#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

using detail::BinPixels;
using detail::Regions;

/// One bin of one region.
struct Bin {
  std::int64_t region, row, column;
};

/// body(bin, its number) for all bins of a region.
template <class Body>
void for_bins(const Regions& over, std::int64_t region, const Body& body) {
  for (std::int64_t row = 0; row < over.pooled_h; ++row)
    for (std::int64_t column = 0; column < over.pooled_w; ++column)
      body(Bin{region, row, column}, row * over.pooled_w + column);
}

/// body(bin, image or -1, the bin's first element of y) for all bins, in any order; each thread has a copy of
/// `body`. Their costs differ, so threads take one region after the other.
template <class T, class Body>
void for_each_bin(int threads, const Regions& over, const T* rois, const Body& body) {
#pragma omp parallel num_threads(threads)
  {
    Body own(body);
#pragma omp for schedule(dynamic)
    for (std::int64_t region = 0; region < over.count; ++region) {
      const std::int64_t image = over.image_of(rois + region * 5), y = over.output_base(region, 0);
      for_bins(over, region,
               [&](const Bin& bin, std::int64_t number) { own(bin, image, y + number * over.out.step()); });
    }
  }
}

/// body(bin, dx of its image, its first element of dy, channels first to end) for all bins of regions in the
/// batch, in ascending order for each piece of the channels; dx is 0 before. Each piece has a copy of `body`.
template <class T, class Body>
void for_each_piece(int threads, const Regions& over, const T* rois, T* dx, const Body& body) {
  constexpr std::int64_t kUnit = 16;  // no two pieces share a cache line
  const std::int64_t channels = over.in.channels, pixels = over.images * over.height * over.width;
  const std::int64_t units = (channels + kUnit - 1) / kUnit, pieces = std::min<std::int64_t>(threads, units);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    Body own(body);
    const std::int64_t first = units * piece / pieces * kUnit;
    const std::int64_t end = std::min(units * (piece + 1) / pieces * kUnit, channels);
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel)
      std::fill(dx + pixel * channels + first, dx + pixel * channels + end, T(0));
    for (std::int64_t region = 0; region < over.count; ++region) {
      const std::int64_t image = over.image_of(rois + region * 5);
      if (image < 0) continue;
      T* const to = dx + over.input_base(image, 0);
      for_bins(over, region, [&](const Bin& bin, std::int64_t number) {
        own(bin, to, over.output_base(region, 0) + number * channels, first, end);
      });
    }
  }
}

template <class T>
void maximum(int threads, const Regions& over, const T* x, const T* rois, T* y, std::int32_t* mask) {
  const std::int64_t channels = over.in.channels;
  for_each_bin(threads, over, rois, [&](const Bin& bin, std::int64_t image, std::int64_t at) {
    const BinPixels pixels = detail::rounded_pixels(over, rois + bin.region * 5, bin.row, bin.column);
    if (image < 0 || pixels.empty()) {
      std::fill_n(y + at, channels, T(0));
      std::fill_n(mask + at, channels, -1);
      return;
    }
    const T* const from = x + over.input_base(image, 0);
    for_channel_blocks<T>(channels, [&]<class Block>(std::int64_t first, Block) {
      typename Block::Values seen, best = typename Block::Values{} + T(-FLT_MAX);
      typename Block::Places where = typename Block::Places{} - 1;
      pixels.visit(over.width, [&](std::int64_t pixel) {
        Block::load(from + pixel * channels + first, seen);
        const auto greater = seen > best;
        best = greater ? seen : best;
        where = greater ? typename Block::Places{} + static_cast<std::int32_t>(pixel) : where;
      });
      Block::store(best, y + at + first);
      Block::store_places(where, mask + at + first);
    });
  });
}

template <class T>
void maximum_backward(int threads, const Regions& over, const T* dy, const T* rois, const std::int32_t* mask,
                      T* dx) {
  const std::int64_t channels = over.in.channels;
  for_each_piece(threads, over, rois, dx,
                 [&](const Bin&, T* image, std::int64_t from, std::int64_t first, std::int64_t end) {
                   for (std::int64_t c = first; c < end; ++c)
                     if (mask[from + c] >= 0) image[mask[from + c] * channels + c] += dy[from + c];
                 });
}

/// A pixel that a bin's points are near, and what it counts for one of them.
template <class T>
struct Share {
  std::int64_t pixel;
  T weight;
};

template <class From, class T>
void collect_shares(const Regions& over, const T* rois, const Bin& bin, std::vector<Share<T>>& shares) {
  shares.clear();
  From()(over, rois + bin.region * 5, bin.row, bin.column, [&](std::int64_t pixel, T weight) {
    shares.push_back({pixel, weight});
  });
}

template <class From, class T>
void average(int threads, const Regions& over, const T* x, const T* rois, T* y) {
  const std::int64_t channels = over.in.channels;
  for_each_bin(
      threads, over, rois,
      [&, shares = std::vector<Share<T>>()](const Bin& bin, std::int64_t image, std::int64_t at) mutable {
        shares.clear();
        if (image >= 0 && over.height > 0 && over.width > 0) collect_shares<From>(over, rois, bin, shares);
        const T* const from = x + (image >= 0 ? over.input_base(image, 0) : 0);
        for_channel_blocks<T>(channels, [&]<class Block>(std::int64_t first, Block) {
          typename Block::Values seen, sum{};
          for (const Share<T>& share : shares) {
            Block::load(from + share.pixel * channels + first, seen);
            sum += share.weight * seen;
          }
          Block::store(sum, y + at + first);
        });
      });
}

template <class From, class T>
void average_backward(int threads, const Regions& over, const T* dy, const T* rois, T* dx) {
  const std::int64_t channels = over.in.channels;
  if (over.height == 0 || over.width == 0) return;
  for_each_piece(threads, over, rois, dx,
                 [&, shares = std::vector<Share<T>>()](const Bin& bin, T* image, std::int64_t from,
                                                       std::int64_t first, std::int64_t end) mutable {
                   collect_shares<From>(over, rois, bin, shares);
                   const T* const gradient = dy + from;
                   for (const Share<T>& share : shares) {
                     T* const to = image + share.pixel * channels;
#pragma omp simd
                     for (std::int64_t c = first; c < end; ++c) to[c] += share.weight * gradient[c];
                   }
                 });
}

template <class T>
void votes(int threads, const Regions& over, const T* x, const T* rois, T* y) {
  const std::int64_t bins = over.pooled_h * over.pooled_w, channels = over.out.channels;
  for_each_bin(threads, over, rois, [&](const Bin& bin, std::int64_t image, std::int64_t at) {
    const BinPixels pixels = detail::vote_pixels(over, rois + bin.region * 5, bin.row, bin.column);
    std::fill_n(y + at, channels, T(0));
    if (image < 0 || pixels.empty()) return;
    const T* const from = x + over.input_base(image, bin.row * over.pooled_w + bin.column);
    pixels.visit(over.width, [&](std::int64_t pixel) {
      const T* const seen = from + pixel * over.in.channels;
      for (std::int64_t c = 0; c < channels; ++c) y[at + c] += seen[c * bins];
    });
    const T count = static_cast<T>(pixels.count());
    for (std::int64_t c = 0; c < channels; ++c) y[at + c] /= count;
  });
}

template <class T>
void votes_backward(int threads, const Regions& over, const T* dy, const T* rois, T* dx) {
  const std::int64_t bins = over.pooled_h * over.pooled_w, channels = over.out.channels;
  const std::int64_t rows = over.images * over.height, length = over.width * over.in.channels;
#pragma omp parallel num_threads(threads)
  {
    const std::int64_t thread = omp_get_thread_num(), team = omp_get_num_threads();
    const std::int64_t begin = rows * thread / team, end = rows * (thread + 1) / team;  // of all images
    std::fill(dx + begin * length, dx + end * length, T(0));
    std::vector<T> shares(static_cast<std::size_t>(channels));
    for (std::int64_t region = 0; region < over.count; ++region) {
      const std::int64_t image = over.image_of(rois + region * 5), top = image * over.height;
      if (image < 0 || top >= end || top + over.height <= begin) continue;
      for_bins(over, region, [&](const Bin& bin, std::int64_t number) {
        BinPixels pixels = detail::vote_pixels(over, rois + region * 5, bin.row, bin.column);
        if (pixels.empty()) return;
        const T count = static_cast<T>(pixels.count());
        const T* const gradient = dy + over.output_base(region, 0) + number * channels;
        for (std::int64_t c = 0; c < channels; ++c) shares[c] = gradient[c] / count;
        pixels.rows = {std::max(pixels.rows.begin, begin - top), std::min(pixels.rows.end, end - top)};
        T* const to = dx + over.input_base(image, number);
        pixels.visit(over.width, [&](std::int64_t pixel) {
          for (std::int64_t c = 0; c < channels; ++c) to[pixel * over.in.channels + c * bins] += shares[c];
        });
      });
    }
  }
}

/// `elements` that are read and written: with few of them, one thread.
template <class Run>
void run_on_channels_last(Context& context, DType dtype, std::int64_t elements, const Run& run) {
  dispatch_float(dtype, "pooling over regions",
                 [&]<class T>() { run.template operator()<T>(CpuBackend::threads_for(context, elements)); });
}

void maximum_on_cpu(Context& context, const RegionBins& bins, const Tensor& x, const Tensor& rois, Tensor& y,
                    Tensor& mask) {
  const Regions over = detail::regions_of(bins, x, rois, y, 1);
  if (!over.in.channels_last) return region_maximum_on<CpuBackend>(context, bins, x, rois, y, mask);
  require_alike("region_maximum", y, mask);
  run_on_channels_last(context, x.dtype(), y.count(), [&]<class T>(int threads) {
    context.run([=, from = x.data<T>(), regions = rois.data<T>(), to = y.data<T>(),
                 where = mask.data<std::int32_t>()] { maximum(threads, over, from, regions, to, where); });
  });
}

void maximum_backward_on_cpu(Context& context, const RegionBins& bins, const Tensor& dy, const Tensor& rois,
                             const Tensor& mask, Tensor& dx) {
  const Regions over = detail::regions_of(bins, dx, rois, dy, 1);
  if (!over.in.channels_last)
    return region_maximum_backward_on<CpuBackend>(context, bins, dy, rois, mask, dx);
  require_alike("region_maximum_backward", dy, mask);
  run_on_channels_last(context, dx.dtype(), dx.count() + dy.count(), [&]<class T>(int threads) {
    context.run([=, from = dy.data<T>(), regions = rois.data<T>(), where = mask.data<std::int32_t>(),
                 to = dx.data<T>()] { maximum_backward(threads, over, from, regions, where, to); });
  });
}

/// region_average and region_grid, `contiguous` being what is done with tensors that are contiguous.
template <class From, auto contiguous>
void average_on_cpu(Context& context, const RegionBins& bins, const Tensor& x, const Tensor& rois,
                    Tensor& y) {
  const Regions over = detail::regions_of(bins, x, rois, y, 1);
  if (!over.in.channels_last) return contiguous(context, bins, x, rois, y);
  run_on_channels_last(context, x.dtype(), y.count(), [&]<class T>(int threads) {
    context.run([=, from = x.data<T>(), regions = rois.data<T>(), to = y.data<T>()] {
      average<From>(threads, over, from, regions, to);
    });
  });
}

template <class From, auto contiguous>
void average_backward_on_cpu(Context& context, const RegionBins& bins, const Tensor& dy, const Tensor& rois,
                             Tensor& dx) {
  const Regions over = detail::regions_of(bins, dx, rois, dy, 1);
  if (!over.in.channels_last) return contiguous(context, bins, dy, rois, dx);
  run_on_channels_last(context, dx.dtype(), dx.count() + dy.count(), [&]<class T>(int threads) {
    context.run([=, from = dy.data<T>(), regions = rois.data<T>(), to = dx.data<T>()] {
      average_backward<From>(threads, over, from, regions, to);
    });
  });
}

void votes_on_cpu(Context& context, const RegionBins& bins, const Tensor& x, const Tensor& rois, Tensor& y) {
  const Regions over = detail::regions_of(bins, x, rois, y, bins.pooled_h * bins.pooled_w);
  if (!over.in.channels_last) return region_votes_on<CpuBackend>(context, bins, x, rois, y);
  run_on_channels_last(context, x.dtype(), y.count(), [&]<class T>(int threads) {
    context.run([=, from = x.data<T>(), regions = rois.data<T>(), to = y.data<T>()] {
      votes(threads, over, from, regions, to);
    });
  });
}

void votes_backward_on_cpu(Context& context, const RegionBins& bins, const Tensor& dy, const Tensor& rois,
                           Tensor& dx) {
  const Regions over = detail::regions_of(bins, dx, rois, dy, bins.pooled_h * bins.pooled_w);
  if (!over.in.channels_last) return region_votes_backward_on<CpuBackend>(context, bins, dy, rois, dx);
  run_on_channels_last(context, dx.dtype(), dx.count() + dy.count(), [&]<class T>(int threads) {
    context.run([=, from = dy.data<T>(), regions = rois.data<T>(), to = dx.data<T>()] {
      votes_backward(threads, over, from, regions, to);
    });
  });
}

const Define define_maximum(region_maximum, DeviceKind::cpu, &maximum_on_cpu);
const Define define_maximum_backward(region_maximum_backward, DeviceKind::cpu, &maximum_backward_on_cpu);
using detail::FromBin, detail::FromGrid;
const Define define_average(region_average, DeviceKind::cpu,
                            &average_on_cpu<FromBin, &region_average_on<CpuBackend>>);
const Define define_average_backward(
    region_average_backward, DeviceKind::cpu,
    &average_backward_on_cpu<FromBin, &region_average_backward_on<CpuBackend>>);
const Define define_grid(region_grid, DeviceKind::cpu,
                         &average_on_cpu<FromGrid, &region_grid_on<CpuBackend>>);
const Define define_grid_backward(region_grid_backward, DeviceKind::cpu,
                                  &average_backward_on_cpu<FromGrid, &region_grid_backward_on<CpuBackend>>);
const Define define_votes(region_votes, DeviceKind::cpu, &votes_on_cpu);
const Define define_votes_backward(region_votes_backward, DeviceKind::cpu, &votes_backward_on_cpu);

}  // namespace
}  // namespace banyan::ops
