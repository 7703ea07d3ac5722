// Terms: see depthwise_windows.hpp.
#include "ops/cpu/convolution_depthwise.hpp"

#include <algorithm>
#include <vector>

#include "ops/common/optional_data.hpp"
#include "ops/cpu/channel_blocks.hpp"
#include "ops/cpu/constant_numbers.hpp"
#include "ops/cpu/convolution_choice.hpp"
#include "ops/cpu/depthwise_windows.hpp"
#include "ops/cpu/shares.hpp"

namespace banyan::ops {
namespace {

using namespace depthwise;

/// Of the weights' gradient, whose sums and addresses are in registers.
constexpr int kMostTaps = 9;
/// Outputs whose products are added up in registers, and then added to a thread's sums.
constexpr std::int64_t kTileColumns = 16, kTilePixels = 32;

template <std::int64_t kLanes>
void run_windows(const Depthwise<kLanes>& s, const float* x, const float* weight, const float* bias,
                 const End& end, float* y, float* workspace) {
  float *const ordered_weight = workspace, *const ordered_bias = workspace + s.values();
  const std::int64_t strips = s.strips();
  Shares shares(s.threads, s.batch * strips, 1);
#pragma omp parallel num_threads(s.threads)
  {
#pragma omp for schedule(static)
    for (std::int64_t block = 0; block < s.blocks(); ++block)
      order_block(s, block, weight, bias, ordered_weight, ordered_bias);
    shares.run([&](std::int64_t first, std::int64_t last) {
      for (std::int64_t task = first; task < last; ++task) {
        const std::int64_t image = task / strips, strip = task % strips;
        write_rows(s, {0, s.blocks()}, {ordered_weight, ordered_bias}, end,
                   x + image * s.h.read * s.read_row(), s.h.written * strip / strips,
                   s.h.written * (strip + 1) / strips, y + image * s.h.written * s.written_row());
      }
    });
  }
}

// --- Gradient of the weights --------------------------------------------------------------------

/// Outputs in a rectangle of an image, which have the same taps inside.
struct Tile {
  std::int64_t row, rows, column, columns;
  Products taps;
};

/// Adds the products of a tile with K taps, and its gradients. `x` and `dy`: at its first pixel.
template <int K, std::int64_t kLanes>
void add_products(const Depthwise<kLanes>& s, const Tile& tile, const Product* taps, const float* x,
                  const float* dy, float* kept, float* bias) {
  using Block = typename Depthwise<kLanes>::Block;
  using Vector = typename Depthwise<kLanes>::Vector;
  const std::int64_t step = s.w.step * s.channels, end = tile.columns * step;
  Vector sums[K + 1] = {}, gradient, values;
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    const float* at[K + 1];
#pragma GCC unroll 9
    for (int k = 0; k < K; ++k) at[k] = x + taps[k].at;
    const float* from = dy;
    for (std::int64_t column = 0; column < end; column += step, from += s.channels) {
      Block::load_factor(from, gradient);
      sums[K] += gradient;
#pragma GCC unroll 9
      for (int k = 0; k < K; ++k) {
        Block::load(at[k] + column, values);
        sums[k] += values * gradient;
      }
    }
    x += s.h.step * s.read_row();
    dy += s.written_row();
  }
  const auto add = [&](const Vector& sum, float* to) {
    Block::load(to, values);
    values += sum;
    Block::store(values, to);
  };
#pragma GCC unroll 9
  for (int k = 0; k < K; ++k) add(sums[k], kept + taps[k].place);
  if (bias != nullptr) add(sums[K], bias);
}

/// A tile, all blocks; `x` and `dy`: the image.
template <std::int64_t kLanes>
void add_tile(const Depthwise<kLanes>& s, const Tile& tile, const float* x, const float* dy, float* kept) {
  x += (tile.row * s.h.step * s.w.read + tile.column * s.w.step) * s.channels;
  dy += (tile.row * s.w.written + tile.column) * s.channels;
  for (std::int64_t block = 0; block < s.blocks(); ++block, kept += s.block_sums()) {
    const std::int64_t channel = s.first_channel(block);
    float* bias = kept + s.block_values();
    if (tile.taps.empty()) add_products<0>(s, tile, nullptr, x, dy + channel, kept, bias);
    in_parts<kMostTaps>(static_cast<std::int64_t>(tile.taps.size()),
                        [&]<int K>(std::int64_t first, std::integral_constant<int, K>) {
                          add_products<K>(s, tile, tile.taps.data() + first, x + channel, dy + channel, kept,
                                          bias);
                          bias = nullptr;
                        });
  }
}

/// Rows [first, last) of the outputs of an image.
template <std::int64_t kLanes>
void add_rows(const Depthwise<kLanes>& s, std::int64_t first, std::int64_t last, const float* x,
              const float* dy, float* kept) {
  const std::int64_t whole = s.w.whole_last - s.w.whole_first;
  const std::int64_t parts = (whole + kTileColumns - 1) / kTileColumns;
  const std::int64_t most_rows = parts == 0 ? 1 : std::max<std::int64_t>(kTilePixels / (whole / parts), 1);
  Tile tile{};
  for (std::int64_t row = first, end; row < last; row = end) {
    const bool is_whole = row >= s.h.whole_first && row < s.h.whole_last;
    const Range in_rows = s.h.inside(0, row);
    end = is_whole ? std::min({row + kRowsAtATime, s.h.whole_last, last}) : row + 1;
    const auto add_ends = [&](std::int64_t from, std::int64_t to) {
      tile.row = row, tile.rows = end - row, tile.columns = 1;
      for (tile.column = from; tile.column < to; ++tile.column) {
        tile.taps = s.window(0, 0, tile.column).rows(in_rows);
        add_tile(s, tile, x, dy, kept);
      }
    };
    add_ends(0, s.w.whole_first);
    tile.taps = s.windows[0].rows(in_rows);
    for (tile.row = row; tile.row < end; tile.row += tile.rows) {
      tile.rows = std::min(most_rows, end - tile.row);
      for (std::int64_t part = 0; part < parts; ++part) {
        tile.column = s.w.whole_first + whole * part / parts;
        tile.columns = s.w.whole_first + whole * (part + 1) / parts - tile.column;
        add_tile(s, tile, x, dy, kept);
      }
    }
    add_ends(s.w.whole_last, s.w.written);
  }
}

/// The sums of a block over the shares, in their order, where the caller wants them.
template <std::int64_t kLanes>
void write_block(const Depthwise<kLanes>& s, std::int64_t block, const float* kept, bool adds, float* dw,
                 float* db) {
  const std::int64_t first = s.first_channel(block);
  const auto write = [&](const float* from, float& to) {
    float sum = *from;
    for (std::int64_t share = 1; share < s.shares(); ++share) sum += from[share * s.sums()];
    to = adds ? to + sum : sum;
  };
  // Channels already in the previous block are not added again.
  for (std::int64_t lane = block * kLanes - first; lane < kLanes; ++lane) {
    const float* from = kept + block * s.block_sums() + lane;
    for (std::int64_t tap = 0; tap < s.taps(); ++tap, from += kLanes)
      write(from, dw[(first + lane) * s.taps() + tap]);
    if (db != nullptr) write(from, db[first + lane]);
  }
}

template <std::int64_t kLanes>
void run_backward_weight(const Depthwise<kLanes>& s, const float* x, const float* dy, bool adds, float* dw,
                         float* db, float* kept) {
  const std::int64_t shares = s.shares();
#pragma omp parallel num_threads(s.threads)
  {
#pragma omp for schedule(static)
    for (std::int64_t share = 0; share < shares; ++share) {
      float* const sums = kept + share * s.sums();
      std::fill_n(sums, s.sums(), 0.0f);
      const std::int64_t rows = s.batch * s.h.written, end = rows * (share + 1) / shares;
      for (std::int64_t row = rows * share / shares; row < end;) {
        const std::int64_t image = row / s.h.written, first = row % s.h.written;
        const std::int64_t last = std::min(s.h.written, first + end - row);
        add_rows(s, first, last, x + image * s.h.read * s.read_row(),
                 dy + image * s.h.written * s.written_row(), sums);
        row += last - first;
      }
    }
#pragma omp for schedule(static)
    for (std::int64_t block = 0; block < s.blocks(); ++block) write_block(s, block, kept, adds, dw, db);
  }
}

// ------------------------------------------------------------------------------------------------

/// body(Depthwise) with vectors of the instruction set that the channels fill.
template <class Body>
void with_depthwise(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output,
                    bool gradients, int threads, const Body& body) {
  with_f32_lanes(geometry.in_channels,
                 [&]<std::int64_t kLanes>(std::integral_constant<std::int64_t, kLanes>) {
                   body(Depthwise<kLanes>(geometry, input.shape(), output.shape(), gradients, threads));
                 });
}

void forward_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& input,
                    const Tensor& weight, const Tensor& bias, const Activation& activation, Tensor& output) {
  with_depthwise(
      geometry, input, output, false, context.device().threads(),
      [&]<std::int64_t kLanes>(const Depthwise<kLanes>& sizes) {
        auto* workspace = context.workspace_of<float>(sizes.values() + sizes.blocks() * kLanes);
        context.run([sizes, x = input.data<float>(), w = weight.data<float>(),
                     b = detail::optional_data<float>(bias), end = End(activation), y = output.data<float>(),
                     workspace] { run_windows(sizes, x, w, b, end, y, workspace); });
      });
}

void backward_data_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& grad_output,
                          const Tensor& weight, Tensor& grad_input) {
  with_depthwise(geometry, grad_input, grad_output, true, context.device().threads(),
                 [&]<std::int64_t kLanes>(const Depthwise<kLanes>& sizes) {
                   auto* workspace = context.workspace_of<float>(sizes.values() + sizes.blocks() * kLanes);
                   context.run([sizes, dy = grad_output.data<float>(), w = weight.data<float>(),
                                dx = grad_input.data<float>(),
                                workspace] { run_windows(sizes, dy, w, nullptr, End({}), dx, workspace); });
                 });
}

void backward_weight_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& input,
                            const Tensor& grad_output, bool adds, Tensor& grad_weight, Tensor& grad_bias) {
  with_depthwise(geometry, input, grad_output, false, context.device().threads(),
                 [&]<std::int64_t kLanes>(const Depthwise<kLanes>& sizes) {
                   auto* kept = context.workspace_of<float>(sizes.shares() * sizes.sums());
                   context.run([sizes, x = input.data<float>(), dy = grad_output.data<float>(), adds,
                                dw = grad_weight.data<float>(), db = detail::optional_data<float>(grad_bias),
                                kept] { run_backward_weight(sizes, x, dy, adds, dw, db, kept); });
                 });
}

const Define define_forward(forward_depthwise, DeviceKind::cpu, &forward_on_cpu);
const Define define_backward_data(backward_data_depthwise, DeviceKind::cpu, &backward_data_on_cpu);
const Define define_backward_weight(backward_weight_depthwise, DeviceKind::cpu, &backward_weight_on_cpu);

}  // namespace

bool depthwise_applies(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output) {
  return geometry.spatial_axes() == 2 && geometry.group == geometry.in_channels &&
         geometry.in_channels == geometry.out_channels && geometry.in_channels >= 8 &&
         is_kernel_order(input) && is_kernel_order(output) && input.count() > 0 && output.count() > 0;
}

bool depthwise_pays(DepthwisePass pass, const ConvolutionGeometry& geometry, const Tensor& input,
                    const Tensor& output) {
  if (!depthwise_applies(geometry, input, output)) return false;
  const auto all_are = [](const std::vector<std::int64_t>& lengths, std::int64_t wanted) {
    return std::ranges::all_of(lengths, [&](std::int64_t length) { return length == wanted; });
  };
  const bool has_gaps = !all_are(geometry.dilation, 1);
  const bool is_long = output.shape()[3] >= 10;  // a row: in short ones most of the time goes to their ends
  // Between 8 and 16 channels take two vectors of 8, which oneDNN has in one with a mask.
  const bool fills = geometry.in_channels >= 16 || geometry.in_channels == 8;
  // oneDNN has a kernel for the weights' gradient of windows of up to 3 x 3 without gaps; others take up to
  // two hundred times as long.
  const bool only_ours = has_gaps || std::ranges::max(geometry.kernel) > 3;
  switch (instruction_set()) {
    case InstructionSet::avx512:
      if (pass == DepthwisePass::forward) return fills && is_long && !has_gaps && all_are(geometry.stride, 1);
      if (pass == DepthwisePass::backward_data)
        return has_gaps || (fills && std::ranges::max(geometry.stride) <= 2);
      // Blocks that begin within lines of the cache take two reads for each value.
      return only_ours || (is_long && (geometry.in_channels % 16 == 0 || output.shape()[3] >= 56));
    case InstructionSet::avx2:
      // Images of a megabyte and more, unless neighbouring pixels share few of the L1 cache's sets.
      if (pass == DepthwisePass::forward)
        return !has_gaps && std::ranges::max(geometry.kernel) == 3 && geometry.in_channels >= 96 &&
               geometry.in_channels % 128 != 0 &&
               input.shape().count(1) * static_cast<std::int64_t>(sizeof(float)) >= 1 << 20;
      if (pass == DepthwisePass::backward_data) return has_gaps;
      return only_ours || (geometry.in_channels >= 16 && output.shape()[3] >= 20);
    case InstructionSet::baseline:
      break;
  }
  return false;
}

}  // namespace banyan::ops
