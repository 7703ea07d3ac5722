// For images x (H x W x C, or D x H x W x C) and y (h x w x O), summed over all pixels of all images:
//   grad weight (O x kernel C) = grad y ^T (O x pixels) * columns of x (pixels x kernel C)
// or, where that is the wider matrix, its transpose; and of a 1 x 1 convolution, for each group,
//   y (pixels x O) = x (pixels x C) * weight ^T (C x O), grad x (pixels x C) = grad y (pixels x O) * weight (O x C)
// For grad weight a team of threads divides the columns of the result, and where these would become too few
// for GEMM, the images too.
#include "ops/cpu/convolution_products.hpp"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <atomic>

#include "ops/common/optional_data.hpp"
#include "ops/cpu/channel_blocks.hpp"
#include "ops/cpu/convolution_choice.hpp"
#include "ops/cpu/copied_rows.hpp"
#include "ops/cpu/openmp_threads.hpp"

namespace banyan::ops {
namespace {

/// Columns of the result that a thread computes, at least: GEMM with fewer is slower.
constexpr std::int64_t kFewestColumns = 256;
/// What a thread gathers of the columns of x at a time: at most 512 KiB, which stay in its L2 cache, and
/// enough pixels that GEMM seldom has to load and store its sums.
constexpr std::int64_t kGatheredColumns = 512, kGatheredPixels = 256;
constexpr std::int64_t kFewestRows = 96;  ///< of the result, for which the other matrix is copied
/// Pixels that are multiplied with the weights at a time: sgemm copies its factors, 15 MiB of them for each
/// thread where it may. Fewer than 64 take longer.
constexpr std::int64_t kPixels = 1024, kFewestPixels = 64;
/// Rows of a transposed result that are converted together: a cache line.
constexpr std::int64_t kLine = 16;

struct Axis {
  std::int64_t input, output, kernel, stride, pad, dilation;
};

/// Sizes for one call; plain values, copied into the enqueued work.
struct Products {
  Axis d, h, w;                           ///< images have one slice
  std::int64_t batch, channels, outputs;  ///< the latter two of one group
  std::int64_t groups;                    ///< 1 unless direct
  bool direct;                            ///< the images x are its columns
  int threads, divisions;                 ///< of the result's columns; threads / divisions: of the images

  Products(const ConvolutionGeometry& g, const Tensor& input, const Tensor& output, int team)
      : d(g.spatial_axes() == 3 ? axis(g, input, output, 0) : Axis{1, 1, 1, 1, 0, 1}),
        h(axis(g, input, output, g.spatial_axes() - 2)),
        w(axis(g, input, output, g.spatial_axes() - 1)),
        batch(input.shape()[0]),
        channels(g.in_channels / g.group),
        outputs(g.out_channels / g.group),
        groups(g.group),
        direct(is_product(g)),
        threads(team),
        divisions(1) {
    for (int parts = 2; parts <= team; ++parts)
      if (team % parts == 0 && columns() / parts >= kFewestColumns) divisions = parts;
  }
  static Axis axis(const ConvolutionGeometry& g, const Tensor& input, const Tensor& output, int a) {
    const auto at = static_cast<std::size_t>(a);
    return {input.shape()[a + 2], output.shape()[a + 2], g.kernel[at], g.stride[at], g.pad[at],
            g.dilation[at]};
  }

  std::int64_t taps() const { return d.kernel * h.kernel * w.kernel; }
  std::int64_t depth() const { return taps() * channels; }
  std::int64_t pixels() const { return d.output * h.output * w.output; }
  std::int64_t group_values() const { return outputs * depth(); }
  std::int64_t values() const { return groups * group_values(); }
  bool transposed() const { return direct && outputs > depth(); }
  std::int64_t rows() const { return transposed() ? depth() : outputs; }
  std::int64_t columns() const { return transposed() ? outputs : depth(); }
  int shares() const { return threads / divisions; }  ///< of the images
  std::int64_t first_image(int share) const { return batch * share / shares(); }
  std::int64_t first_column(int division) const { return columns() * division / divisions; }
  /// Are columns gathered, or rows that sgemm would read badly copied? Not worth it for few rows of the
  /// result.
  bool gathers() const {
    return !direct ||
           (groups == 1 && shares_sets(columns()) && (rows() >= kFewestRows || columns() % 512 == 0));
  }
  /// Of the narrow matrix's copied rows; 0: they are read where they are.
  std::int64_t copied() const { return copied_stride(rows()); }
  /// What a thread gathers and copies at a time.
  std::int64_t gathered() const {
    return gathers() ? kGatheredPixels * (padded(kGatheredColumns) + copied()) : 0;
  }
  std::int64_t all_channels() const { return groups * channels; }
  std::int64_t all_outputs() const { return groups * outputs; }
};

/// Where along an axis a tap of the window of `output` lies, perhaps outside.
std::int64_t place(const Axis& axis, std::int64_t output, std::int64_t tap) {
  return output * axis.stride - axis.pad + tap * axis.dilation;
}

bool is_inside(const Axis& axis, std::int64_t place) { return place >= 0 && place < axis.input; }

/// The values [from, to) of the columns of x for one output pixel; 0 outside the image.
void gather_pixel(const Products& s, const float* image, std::int64_t pixel, std::int64_t from,
                  std::int64_t to, float* into) {
  const std::int64_t x = pixel % s.w.output, y = pixel / s.w.output % s.h.output,
                     z = pixel / s.w.output / s.h.output;
  while (from < to) {
    const std::int64_t tap = from / s.channels, channel = from % s.channels;
    const std::int64_t count = std::min(to - from, s.channels - channel);
    const std::int64_t in_x = place(s.w, x, tap % s.w.kernel),
                       in_y = place(s.h, y, tap / s.w.kernel % s.h.kernel),
                       in_z = place(s.d, z, tap / s.w.kernel / s.h.kernel);
    if (is_inside(s.d, in_z) && is_inside(s.h, in_y) && is_inside(s.w, in_x))
      std::copy_n(image + ((in_z * s.h.input + in_y) * s.w.input + in_x) * s.channels + channel, count, into);
    else
      std::fill_n(into, count, 0.0f);
    into += count;
    from += count;
  }
}

/// c (m x n, rows of `stride`) = keep * c + a^T * b: one thread's part of the result.
dnnl_status_t multiply(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t a_stride,
                       const float* b, std::int64_t b_stride, float keep, float* c, std::int64_t stride) {
  return dnnl_sgemm('T', 'N', m, n, k, 1, a, a_stride, b, b_stride, keep, c, stride);
}

/// Columns [from, to) of the result for images [first, last), into `sum`.
dnnl_status_t multiply_gathered(const Products& s, const float* x, const float* dy, std::int64_t first,
                                std::int64_t last, std::int64_t from, std::int64_t to, float* gathered,
                                float* sum) {
  dnnl_status_t status = dnnl_success;
  const float *const wide = s.transposed() ? dy : x, *const narrow = s.transposed() ? x : dy;
  const std::int64_t rows = s.rows(), copied = s.copied();
  float* const copy = gathered + kGatheredPixels * padded(kGatheredColumns);
  const std::int64_t pieces = (to - from + kGatheredColumns - 1) / kGatheredColumns;
  const std::int64_t image = s.d.input * s.h.input * s.w.input * s.channels;
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const std::int64_t left = from + (to - from) * piece / pieces;
    const std::int64_t width = from + (to - from) * (piece + 1) / pieces - left, stride = padded(width);
    const std::int64_t end = last * s.pixels();
    for (std::int64_t pixel = first * s.pixels(); pixel < end; pixel += kGatheredPixels) {
      const std::int64_t count = std::min(kGatheredPixels, end - pixel);
      if (s.direct)
        copy_rows_apart(count, width, wide + pixel * s.columns() + left, s.columns(), gathered, stride);
      else
        for (std::int64_t i = 0; i < count; ++i)
          gather_pixel(s, x + (pixel + i) / s.pixels() * image, (pixel + i) % s.pixels(), left, left + width,
                       gathered + i * stride);
      const float* read = narrow + pixel * rows;
      if (copied > 0) {
        copy_rows_apart(count, rows, read, rows, copy, copied);
        read = copy;
      }
      const dnnl_status_t done =
          multiply(rows, width, count, read, copied > 0 ? copied : rows, gathered, stride,
                   pixel == first * s.pixels() ? 0 : 1, sum + left, s.columns());
      if (done != dnnl_success) status = done;
    }
  }
  return status;
}

/// Columns [from, to) of every group's result for images [first, last), into `sum`.
dnnl_status_t multiply_images(const Products& s, const float* x, const float* dy, std::int64_t first,
                              std::int64_t last, std::int64_t from, std::int64_t to, float* sum) {
  const float *const wide = s.transposed() ? dy : x, *const narrow = s.transposed() ? x : dy;
  const std::int64_t rows = s.rows(), columns = s.columns();
  const std::int64_t row_step = s.groups * rows, column_step = s.groups * columns, begin = first * s.pixels();
  dnnl_status_t status = dnnl_success;
  for (std::int64_t group = 0; group < s.groups; ++group) {
    const dnnl_status_t done =
        multiply(rows, to - from, (last - first) * s.pixels(), narrow + begin * row_step + group * rows,
                 row_step, wide + begin * column_step + group * columns + from, column_step, 0,
                 sum + group * s.group_values() + from, columns);
    if (done != dnnl_success) status = done;
  }
  return status;
}

/// For outputs [first, last) of a group: sums the shares' results into those of the first one, in their
/// order.
void add_shares(const Products& s, float* sums, std::int64_t first, std::int64_t last) {
  const std::int64_t lines = s.transposed() ? s.depth() : last - first;
  const std::int64_t length = s.transposed() ? last - first : s.depth();
  const std::int64_t start = s.transposed() ? first : first * s.depth();
  for (int share = 1; share < s.shares(); ++share)
    for (std::int64_t line = 0; line < lines; ++line) {
      float* const to = sums + start + line * s.columns();
      const float* const from = to + share * s.values();
      for (std::int64_t i = 0; i < length; ++i) to[i] += from[i];
    }
}

/// For outputs [first, last) of a group: converts to (O, C, taps).
template <bool kAdd>
void convert(const Products& s, const float* sums, std::int64_t first, std::int64_t last, float* weight) {
  const auto put = [](float value, float& to) { to = kAdd ? to + value : value; };
  if (s.transposed()) {
    for (std::int64_t d = 0; d < s.depth(); ++d)
      for (std::int64_t o = first; o < last; ++o) put(sums[d * s.outputs + o], weight[o * s.depth() + d]);
    return;
  }
  for (std::int64_t o = first; o < last; ++o) {
    const float* const from = sums + o * s.depth();
    float* const to = weight + o * s.depth();
    for (std::int64_t tap = 0; tap < s.taps(); ++tap)
      for (std::int64_t c = 0; c < s.channels; ++c) put(from[tap * s.channels + c], to[c * s.taps() + tap]);
  }
}

void expect_success(dnnl_status_t status) {
  if (status != dnnl_success)
    runtime_failure("convolution: oneDNN's sgemm failed with status ", static_cast<int>(status));
}

void run_backward_weight(const Products& s, const float* x, const float* dy, bool adds, float* dw,
                         float* workspace) {
  const OpenMpThreads single(1);  // of sgemm
  std::atomic<dnnl_status_t> status = dnnl_success;
  const bool in_place = s.direct && !s.transposed() && s.shares() == 1 && !adds;
  float* const sums = in_place ? dw : workspace + s.threads * s.gathered();
#pragma omp parallel num_threads(s.threads)
  {
#pragma omp for schedule(static)
    for (int part = 0; part < s.threads; ++part) {
      const int share = part / s.divisions, division = part % s.divisions;
      const std::int64_t first = s.first_image(share), last = s.first_image(share + 1);
      const std::int64_t from = s.first_column(division), to = s.first_column(division + 1);
      float* const sum = sums + share * s.values();
      dnnl_status_t done = dnnl_success;
      if (first == last) {  // of which sgemm would leave the result as it is
        for (std::int64_t row = 0; row < s.groups * s.rows(); ++row)
          std::fill_n(sum + row * s.columns() + from, to - from, 0.0f);
      } else if (s.gathers()) {
        done = multiply_gathered(s, x, dy, first, last, from, to, workspace + part * s.gathered(), sum);
      } else {
        done = multiply_images(s, x, dy, first, last, from, to, sum);
      }
      if (done != dnnl_success) status = done;
    }
    const std::int64_t lines = (s.outputs + kLine - 1) / kLine;
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < (in_place ? 0 : s.groups * lines); ++task) {
      const std::int64_t place = task / lines * s.group_values();
      const std::int64_t first = task % lines * kLine, last = std::min(first + kLine, s.outputs);
      add_shares(s, sums + place, first, last);
      if (adds)
        convert<true>(s, sums + place, first, last, dw + place);
      else
        convert<false>(s, sums + place, first, last, dw + place);
    }
  }
  expect_success(status);
}

/// What ends the forward pass of pixels: the bias (nullptr: none) and a ReLU of that slope (1: none).
void end_forward(const Products& s, std::int64_t pixels, const float* bias, float slope, float* y) {
  const std::int64_t outputs = s.all_outputs();
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel, y += outputs) {
    if (bias != nullptr)
#pragma omp simd
      for (std::int64_t o = 0; o < outputs; ++o) y[o] += bias[o];
    if (slope != 1)
#pragma omp simd
      for (std::int64_t o = 0; o < outputs; ++o) end_with_relu(slope, y[o]);
  }
}

/// body(first pixel, how many) by a team of threads, each of which takes at most so many at a time. The body
/// returns a status of oneDNN's.
template <class Body>
void for_pixels(const Products& s, std::int64_t at_a_time, const Body& body) {
  const OpenMpThreads single(1);  // of sgemm
  std::atomic<dnnl_status_t> status = dnnl_success;
  const std::int64_t pixels = s.batch * s.pixels();
#pragma omp parallel for num_threads(s.threads) schedule(static)
  for (int part = 0; part < s.threads; ++part) {
    const std::int64_t last = pixels * (part + 1) / s.threads;
    for (std::int64_t pixel = pixels * part / s.threads; pixel < last; pixel += at_a_time) {
      const dnnl_status_t done = body(pixel, std::min(at_a_time, last - pixel));
      if (done != dnnl_success) status = done;
    }
  }
  expect_success(status);
}

void run_forward(const Products& s, const float* x, const float* weight, const float* bias, float slope,
                 float* y) {
  const std::int64_t in = s.all_channels(), out = s.all_outputs();
  // So that the bias and the ReLU find a block still in the L2 cache.
  const std::int64_t at_a_time =
      std::clamp(l2_cache() / 2 / static_cast<std::int64_t>(sizeof(float)) / out, kFewestPixels, kPixels);
  for_pixels(s, at_a_time, [&](std::int64_t pixel, std::int64_t count) {
    dnnl_status_t status = dnnl_success;
    for (std::int64_t group = 0; group < s.groups; ++group) {
      const dnnl_status_t done = dnnl_sgemm(
          'N', 'T', count, s.outputs, s.channels, 1, x + pixel * in + group * s.channels, in,
          weight + group * s.group_values(), s.channels, 0, y + pixel * out + group * s.outputs, out);
      if (done != dnnl_success) status = done;
    }
    end_forward(s, count, bias, slope, y + pixel * out);
    return status;
  });
}

/// Of all weights' rows, copied for sgemm; 0: they are read where they are.
std::int64_t copied_weights(const Products& s) { return s.all_outputs() * copied_stride(s.channels); }

void run_backward_data(const Products& s, const float* dy, const float* weight, float* dx, float* copy) {
  const std::int64_t in = s.all_channels(), out = s.all_outputs(), stride = padded(s.channels);
  if (copied_weights(s) > 0) {
#pragma omp parallel for num_threads(s.threads) schedule(static)
    for (std::int64_t row = 0; row < out; ++row)
      std::copy_n(weight + row * s.channels, s.channels, copy + row * stride);
    weight = copy;
  }
  for_pixels(s, kPixels, [&](std::int64_t pixel, std::int64_t count) {
    dnnl_status_t status = dnnl_success;
    for (std::int64_t group = 0; group < s.groups; ++group) {
      const dnnl_status_t done = dnnl_sgemm(
          'N', 'N', count, s.channels, s.outputs, 1, dy + pixel * out + group * s.outputs, out,
          weight + group * s.outputs * stride, stride, 0, dx + pixel * in + group * s.channels, in);
      if (done != dnnl_success) status = done;
    }
    return status;
  });
}

void forward_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& input,
                    const Tensor& weight, const Tensor& bias, double slope, Tensor& output) {
  const Products sizes(geometry, input, output, context.device().threads());
  context.run([sizes, x = input.data<float>(), w = weight.data<float>(),
               b = detail::optional_data<float>(bias), slope = static_cast<float>(slope),
               y = output.data<float>()] { run_forward(sizes, x, w, b, slope, y); });
}

void backward_data_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& grad_output,
                          const Tensor& weight, Tensor& grad_input) {
  const Products sizes(geometry, grad_input, grad_output, context.device().threads());
  auto* copy = context.workspace_of<float>(copied_weights(sizes));
  context.run([sizes, dy = grad_output.data<float>(), w = weight.data<float>(), dx = grad_input.data<float>(),
               copy] { run_backward_data(sizes, dy, w, dx, copy); });
}

void backward_weight_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& input,
                            const Tensor& grad_output, bool adds, Tensor& grad_weight) {
  const Products sizes(geometry, input, grad_output, context.device().threads());
  auto* workspace =
      context.workspace_of<float>(sizes.threads * sizes.gathered() + sizes.shares() * sizes.values());
  context.run([sizes, x = input.data<float>(), dy = grad_output.data<float>(), adds,
               dw = grad_weight.data<float>(),
               workspace] { run_backward_weight(sizes, x, dy, adds, dw, workspace); });
}

const Define define_forward(forward_by_products, DeviceKind::cpu, &forward_on_cpu);
const Define define_backward_weight(backward_weight_by_products, DeviceKind::cpu, &backward_weight_on_cpu);
const Define define_backward_data(backward_data_by_products, DeviceKind::cpu, &backward_data_on_cpu);

/// Of a group, on the side that has fewer.
std::int64_t fewest_channels(const ConvolutionGeometry& geometry) {
  return std::min(geometry.in_channels, geometry.out_channels) / geometry.group;
}

}  // namespace

bool is_product(const ConvolutionGeometry& geometry) {
  const auto all = [](const std::vector<std::int64_t>& lengths, std::int64_t wanted) {
    return std::all_of(lengths.begin(), lengths.end(), [&](std::int64_t length) { return length == wanted; });
  };
  return all(geometry.kernel, 1) && all(geometry.stride, 1) && all(geometry.pad, 0);
}

bool products_apply(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output) {
  const int axes = geometry.spatial_axes();
  return (axes == 2 || axes == 3) && (geometry.group == 1 || is_product(geometry)) &&
         is_kernel_order(input) && is_kernel_order(output) && input.count() > 0 && output.count() > 0;
}

bool products_pay_forward(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output) {
  return instruction_set() == InstructionSet::avx2 && geometry.group > 1 && is_product(geometry) &&
         products_apply(geometry, input, output) && fewest_channels(geometry) >= 12;
}

bool products_pay_backward_data(const ConvolutionGeometry& geometry, const Tensor& input,
                                const Tensor& output) {
  if (instruction_set() == InstructionSet::baseline || !is_product(geometry) ||
      !products_apply(geometry, input, output))
    return false;
  if (geometry.group > 1) return products_pay_forward(geometry, input, output);
  return fewest_channels(geometry) >= 64;
}

bool products_pay_backward_weight(const ConvolutionGeometry& geometry, const Tensor& input,
                                  const Tensor& output, int threads) {
  constexpr std::int64_t kFewestOfThread = 196;  // pixels
  if (instruction_set() == InstructionSet::baseline || !products_apply(geometry, input, output)) return false;
  const Products s(geometry, input, output, threads);
  if (s.batch / s.shares() * s.pixels() < kFewestOfThread) return false;
  if (s.direct && instruction_set() == InstructionSet::avx2)
    return s.rows() >= 12 && s.columns() >= (s.groups > 1 ? 16 : 48);
  if (s.direct) return s.groups == 1 ? s.rows() >= 16 : s.rows() >= 12 && s.columns() >= 48;
  // Gathering costs what it does for any kernel; oneDNN's are slow where neighbours in the image are not used
  // together, or rows are short.
  const bool strided = s.h.stride > 1 && s.w.stride > 1 && geometry.spatial_axes() == 2;
  const bool is_short = s.taps() > 1 && s.w.output < 8;
  const bool has_gaps = (s.h.dilation > 1 || s.w.dilation > 1) && std::min(s.channels, s.outputs) >= 256;
  return (strided || is_short || has_gaps) && s.channels % kLine == 0 && s.outputs >= 64 &&
         s.columns() >= kFewestColumns;
}

}  // namespace banyan::ops
