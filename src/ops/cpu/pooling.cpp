// Pooling on CPU devices. Channels-last tensors have vector loops over the channels, with rows of pixels
// divided among the threads; contiguous ones go plane by plane. Additions and comparisons are those of the
// shared functors, in the same order for each result, so results are bit-identical.
#include "ops/common/pooling.hpp"

#include <algorithm>

#include "ops/cpu/channel_blocks.hpp"
#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

using detail::PoolingPlanes;
using detail::Window;

/// The window of one output pixel; `image`: the input's pixels.
template <class T, class M>
void maximum_pixel(const PoolingPlanes& p, const Window& h, const Window& w, const T* image, T* y, M* mask) {
  for_channel_blocks<T>(p.channels, [&]<class Block>(std::int64_t first, Block) {
    typename Block::Values x, best = typename Block::Values{} + detail::lowest<T>();
    typename Block::Places where = typename Block::Places{} - 1;
    for (std::int64_t row = h.begin; row < h.end; ++row)
      for (std::int64_t column = w.begin; column < w.end; ++column) {
        Block::load(image + (row * p.w.input + column) * p.channels + first, x);
        const auto greater = x > best;
        best = greater ? x : best;
        where =
            greater ? typename Block::Places{} + detail::mark<M>(p, h.start, w.start, row, column) : where;
      }
    Block::store(best, y + first);
    Block::store_places(where, mask + first);
  });
}

template <class T>
void average_pixel(const PoolingPlanes& p, const Window& h, const Window& w, const T* image, T* y) {
  const bool empty = h.end <= h.begin || w.end <= w.begin;
  using A = Arithmetic<T>;
  const A area = empty ? A(1) : static_cast<A>(h.length * w.length);
  for_channel_blocks<T>(p.channels, [&]<class Block>(std::int64_t first, Block) {
    typename Block::Values x, sum{};
    for (std::int64_t row = h.begin; row < h.end; ++row)
      for (std::int64_t column = w.begin; column < w.end; ++column) {
        Block::load(image + (row * p.w.input + column) * p.channels + first, x);
        sum += x;
      }
    sum /= area;
    Block::store(sum, y + first);
  });
}

/// Channels of channels-last pixels that a thread takes at a time, so that their sums stay in its L1 cache.
constexpr std::int64_t kChannelsTogether = 512;

/// Calls `action(item, first, count)` for all channels of `items` windows or maps, fewer at a time where
/// there are not enough items for the threads.
template <class Action>
void for_channels_together(int threads, const PoolingPlanes& p, std::int64_t items, const Action& action) {
  constexpr std::int64_t kLine = 16;
  const std::int64_t share = (p.channels + kLine * threads - 1) / (kLine * threads) * kLine;
  const std::int64_t together = items < threads ? std::min(share, kChannelsTogether) : kChannelsTogether;
  const std::int64_t parts = (p.channels + together - 1) / together;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t task = 0; task < items * parts; ++task) {
    const std::int64_t first = task % parts * together;
    action(task / parts, first, std::min(together, p.channels - first));
  }
}

/// Is there one window, the whole axis?
bool covers(const detail::PoolingAxis& axis) {
  return axis.output == 1 && axis.pad == 0 && axis.input > 0 && axis.kernel >= axis.input;
}

bool is_global(const PoolingPlanes& p) { return covers(p.h) && covers(p.w); }

std::int64_t area_of(const PoolingPlanes& p) { return p.h.window(0).length * p.w.window(0).length; }

/// Averages of whole maps, which are read in the order of their memory.
template <class T>
void average_maps(int threads, const PoolingPlanes& p, std::int64_t batch, const T* x, T* y) {
  using A = Arithmetic<T>;
  const std::int64_t pixels = p.h.input * p.w.input, step = p.channels;
  const auto area = static_cast<A>(area_of(p));
  for_channels_together(threads, p, batch, [=](std::int64_t map, std::int64_t first, std::int64_t count) {
    A sums[kChannelsTogether] = {};
    const T* from = x + map * pixels * step + first;
    std::int64_t pixel = 0;
    for (; pixel + 4 <= pixels; pixel += 4, from += 4 * step)
      for (std::int64_t c = 0; c < count; ++c)
        sums[c] = sums[c] + from[c] + from[step + c] + from[2 * step + c] + from[3 * step + c];
    for (; pixel < pixels; ++pixel, from += step)
      for (std::int64_t c = 0; c < count; ++c) sums[c] += from[c];
    for (std::int64_t c = 0; c < count; ++c) y[map * step + first + c] = static_cast<T>(sums[c] / area);
  });
}

/// mask == nullptr: average.
template <class T, class M>
void forward_rows(int threads, const PoolingPlanes& p, std::int64_t batch, const T* x, T* y, M* mask) {
  const std::int64_t rows = batch * p.h.output, image = p.h.input * p.w.input * p.channels;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const Window h = p.h.window(r % p.h.output);
    const T* from = x + r / p.h.output * image;
    for (std::int64_t column = 0; column < p.w.output; ++column) {
      const std::int64_t to = (r * p.w.output + column) * p.channels;
      const Window w = p.w.window(column);
      if (mask != nullptr)
        maximum_pixel(p, h, w, from, y + to, mask + to);
      else
        average_pixel(p, h, w, from, y + to);
    }
  }
}

/// A run of outputs along one axis.
struct Outputs {
  std::int64_t first, last;
};

/// The outputs whose windows contain input i, for each i of an axis: computed once to avoid divisions per
/// pixel.
std::vector<Outputs> readers_of(const detail::PoolingAxis& axis) {
  std::vector<Outputs> readers;
  for (std::int64_t i = 0; i < axis.input; ++i)
    readers.push_back({axis.first_output(i), axis.last_output(i)});
  return readers;
}

/// The gradient of one input pixel at `from_row` and `from_column`; `dy` and `mask`: of its image.
template <class T, class M>
void backward_maximum_pixel(const PoolingPlanes& p, const Outputs& rows, const Outputs& columns,
                            std::int64_t from_row, std::int64_t from_column, const T* dy, const M* mask,
                            T* dx) {
  for_channel_blocks<T>(p.channels, [&]<class Block>(std::int64_t first, Block) {
    typename Block::Values g, sum{};
    typename Block::Places where;
    for (std::int64_t row = rows.first; row < rows.last; ++row)
      for (std::int64_t column = columns.first; column < columns.last; ++column) {
        const std::int64_t at = (row * p.w.output + column) * p.channels + first;
        const std::int32_t here =
            detail::mark<M>(p, p.h.start(row), p.w.start(column), from_row, from_column);
        Block::load(dy + at, g);
        Block::load_places(mask + at, where);
        sum += where == here ? g : typename Block::Values{};
      }
    Block::store(sum, dx + first);
  });
}

template <class T>
void backward_average_pixel(const PoolingPlanes& p, const Outputs& rows, const Outputs& columns, const T* dy,
                            T* dx) {
  for_channel_blocks<T>(p.channels, [&]<class Block>(std::int64_t first, Block) {
    typename Block::Values g, sum{};
    for (std::int64_t row = rows.first; row < rows.last; ++row)
      for (std::int64_t column = columns.first; column < columns.last; ++column) {
        const auto area = static_cast<Arithmetic<T>>(p.h.window(row).length * p.w.window(column).length);
        Block::load(dy + (row * p.w.output + column) * p.channels + first, g);
        sum += g / area;
      }
    Block::store(sum, dx + first);
  });
}

/// Does each input belong to exactly one window?
bool tiles(const detail::PoolingAxis& axis) {
  return axis.kernel == axis.stride && axis.pad == 0 && axis.output * axis.stride >= axis.input;
}

/// Maximum over windows that tile the input: each output determines all gradients of its window.
template <class T, class M>
void backward_tiles(int threads, const PoolingPlanes& p, std::int64_t batch, const T* dy, const M* mask,
                    T* dx) {
  const std::int64_t rows = batch * p.h.output, image = p.h.input * p.w.input * p.channels;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const Window h = p.h.window(r % p.h.output);
    T* const to = dx + r / p.h.output * image;
    for (std::int64_t o = 0; o < p.w.output; ++o) {
      const Window w = p.w.window(o);
      const std::int64_t at = (r * p.w.output + o) * p.channels;
      for_channel_blocks<T>(p.channels, [&]<class Block>(std::int64_t first, Block) {
        typename Block::Values g, given;
        const typename Block::Values zero{};
        typename Block::Places where;
        Block::load(dy + at + first, g);
        Block::load_places(mask + at + first, where);
        for (std::int64_t row = h.begin; row < h.end; ++row)
          for (std::int64_t column = w.begin; column < w.end; ++column) {
            // Added to 0, as with overlapping windows, so -0 becomes 0.
            given = zero + (where == detail::mark<M>(p, h.start, w.start, row, column) ? g : zero);
            Block::store(given, to + (row * p.w.input + column) * p.channels + first);
          }
      });
    }
  }
}

/// Averages over windows that tile the input.
template <class T>
void spread_tiles(int threads, const PoolingPlanes& p, std::int64_t batch, const T* dy, T* dx) {
  using A = Arithmetic<T>;
  const std::int64_t windows = batch * p.h.output * p.w.output, step = p.channels;
  for_channels_together(threads, p, windows, [=](std::int64_t o, std::int64_t first, std::int64_t count) {
    const std::int64_t row = o / p.w.output;
    const Window h = p.h.window(row % p.h.output), w = p.w.window(o % p.w.output);
    const auto area = static_cast<A>(h.length * w.length);
    T shares[kChannelsTogether];
    for (std::int64_t c = 0; c < count; ++c)  // added to 0, as with overlapping windows, so -0 becomes 0
      shares[c] = static_cast<T>(A(0) + dy[o * step + first + c] / area);
    T* const map = dx + row / p.h.output * p.h.input * p.w.input * step + first;
    for (std::int64_t r = h.begin; r < h.end; ++r)
      for (std::int64_t c = w.begin; c < w.end; ++c)
        std::copy_n(shares, count, map + (r * p.w.input + c) * step);
  });
}

/// mask == nullptr: average.
template <class T, class M>
void backward_rows(int threads, const PoolingPlanes& p, std::int64_t batch, const T* dy, const M* mask,
                   T* dx) {
  const std::int64_t rows = batch * p.h.input, image = p.h.output * p.w.output * p.channels;
  const std::vector<Outputs> columns = readers_of(p.w);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t from = r / p.h.input * image, row = r % p.h.input;
    const Outputs readers{p.h.first_output(row), p.h.last_output(row)};
    for (std::int64_t column = 0; column < p.w.input; ++column) {
      const Outputs& across = columns[column];
      T* to = dx + (r * p.w.input + column) * p.channels;
      if (mask != nullptr)
        backward_maximum_pixel(p, readers, across, row, column, dy + from, mask + from, to);
      else
        backward_average_pixel(p, readers, across, dy + from, to);
    }
  }
}

template <class T>
void maximum_of_plane(const PoolingPlanes& p, const Window& h, const Window& w, const T* plane, T& y,
                      std::int32_t& mask) {
  Arithmetic<T> best = detail::lowest<T>();
  std::int64_t where = -1;
  for (std::int64_t row = h.begin; row < h.end; ++row)
    for (std::int64_t pixel = row * p.w.input + w.begin; pixel < row * p.w.input + w.end; ++pixel)
      if (plane[pixel] > best) {
        best = plane[pixel];
        where = pixel;
      }
  y = static_cast<T>(best);
  mask = static_cast<std::int32_t>(where);
}

template <class T>
T average_of_plane(const PoolingPlanes& p, const Window& h, const Window& w, const T* plane) {
  if (h.end <= h.begin || w.end <= w.begin) return T(0);
  Arithmetic<T> sum = 0;
  for (std::int64_t row = h.begin; row < h.end; ++row)
    for (std::int64_t pixel = row * p.w.input + w.begin; pixel < row * p.w.input + w.end; ++pixel)
      sum += plane[pixel];
  return static_cast<T>(sum / static_cast<Arithmetic<T>>(h.length * w.length));
}

/// Averages of whole planes. Each sum waits for its additions, so several are made side by side.
template <class T>
void average_planes(int threads, const PoolingPlanes& p, std::int64_t planes, const T* x, T* y) {
  using A = Arithmetic<T>;
  constexpr std::int64_t kTogether = 8;
  const std::int64_t pixels = p.h.input * p.w.input, groups = planes / kTogether;
  const auto area = static_cast<A>(area_of(p));
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t group = 0; group < groups; ++group) {
    const T* from = x + group * kTogether * pixels;
    A sums[kTogether] = {};
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel)
      for (std::int64_t k = 0; k < kTogether; ++k) sums[k] += from[k * pixels + pixel];
    for (std::int64_t k = 0; k < kTogether; ++k) y[group * kTogether + k] = static_cast<T>(sums[k] / area);
  }
  for (std::int64_t plane = groups * kTogether; plane < planes; ++plane)
    y[plane] = average_of_plane(p, p.h.window(0), p.w.window(0), x + plane * pixels);
}

/// Contiguous. mask == nullptr: average.
template <class T>
void forward_planes(int threads, const PoolingPlanes& p, std::int64_t planes, const T* x, T* y,
                    std::int32_t* mask) {
  const std::int64_t in = p.h.input * p.w.input, out = p.h.output * p.w.output;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t plane = 0; plane < planes; ++plane)
    for (std::int64_t row = 0, to = plane * out; row < p.h.output; ++row) {
      const Window h = p.h.window(row);
      for (std::int64_t column = 0; column < p.w.output; ++column, ++to) {
        if (mask != nullptr)
          maximum_of_plane(p, h, p.w.window(column), x + plane * in, y[to], mask[to]);
        else
          y[to] = average_of_plane(p, h, p.w.window(column), x + plane * in);
      }
    }
}

template <class T>
void spread_average(const PoolingPlanes& p, std::int64_t row, std::int64_t column, T gradient, T* plane) {
  const Window h = p.h.window(row), w = p.w.window(column);
  const T share = gradient / static_cast<T>(h.length * w.length);
  for (std::int64_t r = h.begin; r < h.end; ++r)
    for (std::int64_t c = w.begin; c < w.end; ++c) plane[r * p.w.input + c] += share;
}

/// Contiguous. Outputs in ascending order: each pixel gets its terms in the order of the gathering functor.
/// Terms add up in dx itself, so this is not for bf16.
template <class T>
void backward_planes(int threads, const PoolingPlanes& p, std::int64_t planes, const T* dy,
                     const std::int32_t* mask, T* dx) {
  const std::int64_t in = p.h.input * p.w.input, out = p.h.output * p.w.output;
  const bool whole = mask == nullptr && is_global(p);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t plane = 0; plane < planes; ++plane) {
    T* to = dx + plane * in;
    if (whole) {
      std::fill_n(to, in, T(0) + dy[plane] / static_cast<T>(area_of(p)));
      continue;
    }
    std::fill_n(to, in, T(0));
    for (std::int64_t o = 0; o < out; ++o) {
      const T gradient = dy[plane * out + o];
      if (mask == nullptr)
        spread_average(p, o / p.w.output, o % p.w.output, gradient, to);
      else if (const std::int32_t pixel = mask[plane * out + o]; pixel >= 0 && pixel < in)
        to[pixel] += gradient;
    }
  }
}

bool is_of_bytes(const Tensor& mask) { return mask.defined() && mask.dtype() == DType::u8; }

void pooling_forward_on_cpu(Context& context, const PoolingGeometry& geometry, const Tensor& input,
                            bool training, const PassKey& key, const SampleIndex& samples, Tensor& output,
                            Tensor& mask) {
  const PoolingPlanes planes = detail::pooling_planes(geometry, input, output);
  const bool maximum = geometry.method == PoolingMethod::maximum;
  if (geometry.method == PoolingMethod::stochastic || (!planes.channels_last && is_of_bytes(mask)))
    return pooling_forward_on<CpuBackend>(context, geometry, input, training, key, samples, output, mask);
  if (maximum) require_alike("pooling_forward", output, mask);
  const int threads = CpuBackend::threads_for(context, input.count());
  const std::int64_t batch = input.shape()[0];
  dispatch_storage(input.dtype(), "pooling_forward", [&]<class T>() {
    const T* x = input.data<T>();
    T* y = output.data<T>();
    if (geometry.method == PoolingMethod::average && is_global(planes)) {
      context.run([=] {
        if (planes.channels_last)
          average_maps(threads, planes, batch, x, y);
        else
          average_planes(threads, planes, batch * planes.channels, x, y);
      });
    } else if (!planes.channels_last) {
      auto* where = maximum ? mask.data<std::int32_t>() : nullptr;
      context.run([=] { forward_planes(threads, planes, batch * planes.channels, x, y, where); });
    } else {
      detail::dispatch_mask(geometry, mask, [&]<class M>() {
        M* where = maximum ? mask.data<M>() : nullptr;
        context.run([=] { forward_rows(threads, planes, batch, x, y, where); });
      });
    }
  });
}

void pooling_backward_on_cpu(Context& context, const PoolingGeometry& geometry, const Tensor& grad_output,
                             const Tensor& mask, Tensor& grad_input) {
  const PoolingPlanes planes = detail::pooling_planes(geometry, grad_input, grad_output);
  const PoolingMethod method = geometry.method;
  const bool chosen = method != PoolingMethod::average;
  if (!planes.channels_last && (grad_output.dtype() == DType::bf16 || is_of_bytes(mask)))
    return pooling_backward_on<CpuBackend>(context, geometry, grad_output, mask, grad_input);
  if (chosen) require_alike("pooling_backward", grad_output, mask);
  const int threads = CpuBackend::threads_for(context, grad_input.count());
  const std::int64_t batch = grad_input.shape()[0];
  dispatch_storage(grad_output.dtype(), "pooling_backward", [&]<class T>() {
    const T* dy = grad_output.data<T>();
    T* dx = grad_input.data<T>();
    if (!planes.channels_last) {
      const auto* where = chosen ? mask.data<std::int32_t>() : nullptr;
      if constexpr (!std::is_same_v<T, BFloat16>)
        context.run([=] { backward_planes(threads, planes, batch * planes.channels, dy, where, dx); });
      return;
    }
    const bool tiled = tiles(planes.h) && tiles(planes.w);
    if (!chosen && (tiled || is_global(planes))) {
      context.run([=] { spread_tiles(threads, planes, batch, dy, dx); });
      return;
    }
    detail::dispatch_mask(geometry, mask, [&]<class M>() {
      const M* where = chosen ? mask.data<M>() : nullptr;
      context.run([=] {
        if (tiled && method == PoolingMethod::maximum)
          backward_tiles(threads, planes, batch, dy, where, dx);
        else
          backward_rows(threads, planes, batch, dy, where, dx);
      });
    });
  });
}

const Define define_pooling_forward(pooling_forward, DeviceKind::cpu, &pooling_forward_on_cpu);
const Define define_pooling_backward(pooling_backward, DeviceKind::cpu, &pooling_backward_on_cpu);

}  // namespace
}  // namespace banyan::ops
