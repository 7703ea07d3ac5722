// For images x (H x W x C) and y (h x w x O) and their columns, one row of kernel x C values per output
// pixel:
//   grad columns = grad y (h w x O) * weight (O x kernel C); grad x gathers from them
// Each thread has its own columns, for as many images as fit in its cache.
#include "ops/cpu/convolution_columns.hpp"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <atomic>
#include <span>

#include "ops/cpu/channel_blocks.hpp"
#include "ops/cpu/convolution_choice.hpp"
#include "ops/cpu/openmp_threads.hpp"
#include "ops/cpu/shares.hpp"

namespace banyan::ops {
namespace {

constexpr std::int64_t kLargestImage = 1 << 18;  ///< in values of columns; larger ones leave the cache

struct Axis {
  std::int64_t input, output, kernel, stride, pad, dilation;
};

/// Sizes for one call; plain values, copied into the enqueued work.
struct Columns {
  Axis h, w;
  std::int64_t batch, channels, outputs;
  std::int64_t values;  ///< of columns at a time
  int threads;

  Columns(const ConvolutionGeometry& g, const Tensor& input, const Tensor& output, std::int64_t at_a_time,
          int team)
      : h(axis(g, input, output, 0)),
        w(axis(g, input, output, 1)),
        batch(input.shape()[0]),
        channels(g.in_channels),
        outputs(g.out_channels),
        values(at_a_time),
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
    return std::clamp<std::int64_t>(values / (pixels() * depth()), 1, (batch + threads - 1) / threads);
  }
  std::int64_t columns() const { return images_at_a_time() * pixels() * depth(); }
};

/// Positions in the columns of the values for an input position along one axis: for each output, by the tap
/// that reads the position.
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

/// col2im of one image: each pixel gathers, so it is written once, with a fixed order of additions.
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

/// Converts one output channel from (C, taps) to (taps, C).
void taps_first(const Columns& s, const float* weight, float* to) {
  for (std::int64_t tap = 0; tap < s.taps(); ++tap)
    for (std::int64_t c = 0; c < s.channels; ++c) to[tap * s.channels + c] = weight[c * s.taps() + tap];
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
  Shares shares(s.threads, s.batch, s.images_at_a_time());
#pragma omp parallel num_threads(s.threads)
  {
#pragma omp for schedule(static)
    for (std::int64_t o = 0; o < s.outputs; ++o) taps_first(s, weight + o * s.depth(), order + o * s.depth());
    float* const own = workspace + s.weights() + omp_get_thread_num() * s.columns();
    shares.run([&](std::int64_t first, std::int64_t last) {
      const dnnl_status_t done =
          dnnl_sgemm('N', 'N', (last - first) * s.pixels(), s.depth(), s.outputs, 1,
                     dy + first * s.pixels() * s.outputs, s.outputs, order, s.depth(), 0, own, s.depth());
      if (done != dnnl_success) status = done;
      for (std::int64_t i = first; i < last; ++i)
        gather(s, rows, columns, own + (i - first) * s.pixels() * s.depth(), dx + i * s.image());
    });
  }
  expect_success(status);
}

/// Is more than a fifth of the vectors of 16 channels empty?
bool fills_badly(std::int64_t channels) { return 4 * ((channels + 15) / 16 * 16) >= 5 * channels; }

void backward_data_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& grad_output,
                          const Tensor& weight, std::int64_t values, Tensor& grad_input) {
  const Columns sizes(geometry, grad_input, grad_output, values, context.device().threads());
  const std::int64_t floats = sizes.weights() + sizes.threads * sizes.columns();
  auto* workspace = context.workspace_of<float>(floats);
  context.run([sizes, dy = grad_output.data<float>(), w = weight.data<float>(), dx = grad_input.data<float>(),
               workspace] { run_backward_data(sizes, dy, w, dx, workspace); });
}

const Define define_backward_data(backward_data_by_columns, DeviceKind::cpu, &backward_data_on_cpu);

}  // namespace

std::int64_t column_values() { return l2_cache() / 2 / static_cast<std::int64_t>(sizeof(float)); }

bool columns_pay(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output,
                 int threads) {
  if (!is_plain_convolution(geometry, input, output)) return false;
  const Columns s(geometry, input, output, column_values(), threads);
  if (s.taps() == 1 || s.pixels() * s.depth() > kLargestImage || s.batch < threads) return false;
  // Additions of few channels are slow, but oneDNN's vectors are nearly empty.
  if (s.channels < 16) return s.outputs >= 16 * s.channels && instruction_set() != InstructionSet::baseline;
  if (s.outputs < 32 || !fills_badly(s.channels)) return false;
  return instruction_set() == InstructionSet::avx512 ||
         (instruction_set() == InstructionSet::avx2 && s.channels % 8 != 0);
}

}  // namespace banyan::ops
