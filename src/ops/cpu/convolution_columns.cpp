// For images x (H x W x C) and y (h x w x O) and their columns, one row of kernel x C values per output
// pixel:
//   columns       = im2col(x)
//   grad weight   = grad y^T (O x h w) * columns (h w x kernel C)
//   grad columns  = grad y (h w x O) * weight (O x kernel C); grad x gathers from them
// Images are divided statically among the threads. Each has columns of its own, of as many images as stay in
// its cache, and partial gradients of weight and bias, which are added in the order of the threads.
#include "ops/cpu/convolution_columns.hpp"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <atomic>
#include <span>

#include "ops/cpu/channel_blocks.hpp"
#include "ops/cpu/openmp_threads.hpp"

namespace banyan::ops {
namespace {

#ifdef __AVX512F__
constexpr std::int64_t kVector = 16;
#else
constexpr std::int64_t kVector = 8;
#endif
constexpr std::int64_t kCachedValues = 1 << 17;  ///< of columns that a thread makes at a time: 512 KiB
constexpr std::int64_t kLargestImage = 1 << 18;  ///< in values of columns; beyond it they leave the cache

struct Axis {
  std::int64_t input, output, kernel, stride, pad, dilation;
  std::int64_t position(std::int64_t o, std::int64_t k) const { return o * stride - pad + k * dilation; }
};

/// One call's sizes; plain values, copied into the enqueued work.
struct Columns {
  Axis h, w;
  std::int64_t batch, channels, outputs;
  int threads;

  Columns(const ConvolutionGeometry& g, const Tensor& input, const Tensor& output, int team)
      : h(axis(g, input, output, 0)),
        w(axis(g, input, output, 1)),
        batch(input.shape()[0]),
        channels(g.in_channels),
        outputs(g.out_channels),
        threads(team) {}
  static Axis axis(const ConvolutionGeometry& g, const Tensor& input, const Tensor& output, int a) {
    const auto at = static_cast<std::size_t>(a);
    return {input.shape()[a + 2], output.shape()[a + 2], g.kernel[at], g.stride[at], g.pad[at],
            g.dilation[at]};
  }

  std::int64_t taps() const { return h.kernel * w.kernel; }
  std::int64_t depth() const { return taps() * channels; }
  std::int64_t pixels() const { return h.output * w.output; }
  std::int64_t image() const { return h.input * w.input * channels; }
  std::int64_t weights() const { return outputs * depth(); }
  std::int64_t images_at_a_time() const {
    return std::clamp<std::int64_t>(kCachedValues / (pixels() * depth()), 1, batch);
  }
  std::int64_t columns() const { return images_at_a_time() * pixels() * depth(); }

  /// body(first image, number of images) for a share, of as many as there are threads.
  template <class Body>
  void for_share(int share, const Body& body) const {
    const std::int64_t last = batch * (share + 1) / threads;
    for (std::int64_t first = batch * share / threads; first < last; first += images_at_a_time())
      body(first, std::min(images_at_a_time(), last - first));
  }
};

void copy(std::int64_t count, const float* from, float* to) {
  for_channel_blocks<float>(count, [&]<class Block>(std::int64_t first, Block) {
    typename Block::Values values;
    Block::load(from + first, values);
    Block::store(values, to + first);
  });
}

/// im2col of one image, without padding: the taps of a row of the kernel are neighbours in the image.
void spread(const Columns& s, const float* image, float* columns) {
  const std::int64_t taps = s.w.kernel * s.channels;
  for (std::int64_t row = 0; row < s.h.output; ++row)
    for (std::int64_t column = 0; column < s.w.output; ++column)
      for (std::int64_t k = 0; k < s.h.kernel; ++k, columns += taps)
        copy(taps, image + (s.h.position(row, k) * s.w.input + s.w.position(column, 0)) * s.channels,
             columns);
}

/// Where in the columns the values for an input position lie, along one axis: an output's by the tap that
/// reads the position there.
class Places {
 public:
  Places(const Axis& axis, std::int64_t output_stride, std::int64_t tap_stride) : begin_(1, 0) {
    for (std::int64_t i = 0; i < axis.input; ++i) {
      for (std::int64_t tap = 0; tap < axis.kernel; ++tap) {
        const std::int64_t distance = i + axis.pad - tap * axis.dilation, output = distance / axis.stride;
        if (distance >= 0 && distance % axis.stride == 0 && output < axis.output)
          offsets_.push_back(output * output_stride + tap * tap_stride);
      }
      begin_.push_back(offsets_.size());
    }
  }
  std::span<const std::int64_t> of(std::int64_t input) const {
    const auto i = static_cast<std::size_t>(input);
    return {offsets_.data() + begin_[i], begin_[i + 1] - begin_[i]};
  }

 private:
  std::vector<std::size_t> begin_;
  std::vector<std::int64_t> offsets_;
};

/// col2im of one image: each pixel gathers, so it is written once and has a fixed order of additions.
void gather(const Columns& s, const Places& rows, const Places& columns, const float* from, float* image) {
  for (std::int64_t y = 0; y < s.h.input; ++y)
    for (std::int64_t x = 0; x < s.w.input; ++x, image += s.channels)
      for_channel_blocks<float>(s.channels, [&]<class Block>(std::int64_t first, Block) {
        typename Block::Values value, sum{};
        for (const std::int64_t row : rows.of(y))
          for (const std::int64_t column : columns.of(x)) {
            Block::load(from + row + column + first, value);
            sum += value;
          }
        Block::store(sum, image + first);
      });
}

/// (C, taps) of one output channel to (taps, C).
void taps_first(const Columns& s, const float* weight, float* to) {
  for (std::int64_t tap = 0; tap < s.taps(); ++tap)
    for (std::int64_t c = 0; c < s.channels; ++c) to[tap * s.channels + c] = weight[c * s.taps() + tap];
}

void add_rows(std::int64_t rows, std::int64_t width, const float* from, float* sums) {
  for (std::int64_t row = 0; row < rows; ++row, from += width)
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) sums[j] += from[j];
}

void expect_success(dnnl_status_t status) {
  if (status != dnnl_success)
    runtime_failure("convolution: oneDNN's sgemm failed with status ", static_cast<int>(status));
}

void run_backward_data(const Columns& s, const float* dy, const float* weight, float* dx, float* workspace) {
  const Places rows(s.h, s.w.output * s.depth(), s.w.kernel * s.channels);
  const Places columns(s.w, s.depth(), s.channels);
  const OpenMpThreads single(1);  // of sgemm
  std::atomic<dnnl_status_t> status = dnnl_success;
  float* const order = workspace;
#pragma omp parallel num_threads(s.threads)
  {
#pragma omp for schedule(static)
    for (std::int64_t o = 0; o < s.outputs; ++o) taps_first(s, weight + o * s.depth(), order + o * s.depth());
#pragma omp for schedule(static)
    for (int share = 0; share < s.threads; ++share) {
      float* const own = workspace + s.weights() + share * s.columns();
      s.for_share(share, [&](std::int64_t first, std::int64_t count) {
        const dnnl_status_t done =
            dnnl_sgemm('N', 'N', count * s.pixels(), s.depth(), s.outputs, 1,
                       dy + first * s.pixels() * s.outputs, s.outputs, order, s.depth(), 0, own, s.depth());
        if (done != dnnl_success) status = done;
        for (std::int64_t i = 0; i < count; ++i)
          gather(s, rows, columns, own + i * s.pixels() * s.depth(), dx + (first + i) * s.image());
      });
    }
  }
  expect_success(status);
}

/// Adds the threads' partial gradients of output channel o.
void add_partials(const Columns& s, const float* partials, std::int64_t o, float* dw, float* db) {
  const std::int64_t stride = s.weights() + s.outputs;
  for (int share = 0; share < s.threads; ++share) {
    const float* of = partials + share * stride;
    for (std::int64_t c = 0; c < s.channels; ++c)
      for (std::int64_t tap = 0; tap < s.taps(); ++tap)
        dw[o * s.depth() + c * s.taps() + tap] += of[o * s.depth() + tap * s.channels + c];
    if (db != nullptr) db[o] += of[s.weights() + o];
  }
}

void run_backward_weight(const Columns& s, const float* x, const float* dy, float* dw, float* db,
                         float* workspace) {
  const OpenMpThreads single(1);  // of sgemm
  std::atomic<dnnl_status_t> status = dnnl_success;
  const std::int64_t stride = s.weights() + s.outputs;
  float* const partials = workspace;
#pragma omp parallel num_threads(s.threads)
  {
#pragma omp for schedule(static)
    for (int share = 0; share < s.threads; ++share) {
      float* const own = workspace + s.threads * stride + share * s.columns();
      float *const weights = partials + share * stride, *const bias = weights + s.weights();
      std::fill_n(bias, s.outputs, 0.0f);
      float keep = 0;
      s.for_share(share, [&](std::int64_t first, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i)
          spread(s, x + (first + i) * s.image(), own + i * s.pixels() * s.depth());
        const float* gradient = dy + first * s.pixels() * s.outputs;
        const dnnl_status_t done = dnnl_sgemm('T', 'N', s.outputs, s.depth(), count * s.pixels(), 1, gradient,
                                              s.outputs, own, s.depth(), keep, weights, s.depth());
        if (done != dnnl_success) status = done;
        keep = 1;
        if (db != nullptr) add_rows(count * s.pixels(), s.outputs, gradient, bias);
      });
    }
#pragma omp for schedule(static)
    for (std::int64_t o = 0; o < s.outputs; ++o) add_partials(s, partials, o, dw, db);
  }
  expect_success(status);
}

bool is_channels_last(const Tensor& tensor) {
  return tensor.layout() == Layout::channels_last && tensor.dtype() == DType::f32;
}

/// Is more than a fifth of the vectors over so many channels empty?
bool fills_badly(std::int64_t channels) {
  return 4 * ((channels + kVector - 1) / kVector * kVector) >= 5 * channels;
}

}  // namespace

ColumnsPay columns_pay(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output,
                       int threads) {
  if (geometry.spatial_axes() != 2 || geometry.group != 1 || !is_channels_last(input) ||
      !is_channels_last(output))
    return {};
  const Columns s(geometry, input, output, threads);
  const bool long_rows = s.taps() > 1 && s.w.kernel * s.channels >= 2 * kVector && s.outputs >= 2 * kVector;
  if (!long_rows || s.pixels() * s.depth() > kLargestImage || s.batch < threads) return {};
  // The direct kernel for weights has vectors of output channels.
  const bool plain_rows = s.w.pad == 0 && s.h.pad == 0 && s.w.dilation == 1;
  return {fills_badly(s.channels), fills_badly(s.outputs) && plain_rows};
}

void backward_data_by_columns(Context& context, const ConvolutionGeometry& geometry,
                              const Tensor& grad_output, const Tensor& weight, Tensor& grad_input) {
  const Columns sizes(geometry, grad_input, grad_output, context.device().threads());
  const std::int64_t floats = sizes.weights() + sizes.threads * sizes.columns();
  auto* workspace = static_cast<float*>(context.workspace(static_cast<std::size_t>(floats) * sizeof(float)));
  context.run([sizes, dy = grad_output.data<float>(), w = weight.data<float>(), dx = grad_input.data<float>(),
               workspace] { run_backward_data(sizes, dy, w, dx, workspace); });
}

void backward_weight_by_columns(Context& context, const ConvolutionGeometry& geometry, const Tensor& input,
                                const Tensor& grad_output, Tensor& grad_weight, Tensor& grad_bias) {
  const Columns sizes(geometry, input, grad_output, context.device().threads());
  const std::int64_t floats = sizes.threads * (sizes.weights() + sizes.outputs + sizes.columns());
  auto* workspace = static_cast<float*>(context.workspace(static_cast<std::size_t>(floats) * sizeof(float)));
  float* db = grad_bias.defined() ? grad_bias.data<float>() : nullptr;
  context.run([sizes, x = input.data<float>(), dy = grad_output.data<float>(), dw = grad_weight.data<float>(),
               db, workspace] { run_backward_weight(sizes, x, dy, dw, db, workspace); });
}

}  // namespace banyan::ops
