// What the rules for CPU kernels rest on: times of every kernel that can do the work, and which one the rules
// choose. The figures hold for one processor; before changing a rule, run this on others, and with
// ONEDNN_MAX_CPU_ISA=AVX2 in a build that has kernels for AVX2.
//
// usage: bench_kernels [--threads=1] [--rounds=7] [--only=TEXT] [PART...]     (default: all parts)
//   --only=TEXT  rows whose names contain the text
//   convolution  oneDNN's kernels, rows, columns, products, turned, groups, Winograd and depthwise, for each pass over many
//                shapes; ms
//   bf16         3x3 convolutions of images stored in bf16: oneDNN's kernels and Winograd; ms
//   expansion    a 1 x 1 convolution and the depthwise one after it, apart and as one operator; ms
//   columns      gradients by columns, by the KiB of columns at a time; ms
//   blocks       statistics of batch normalization, by the KiB of a block; us
//   layout       oneDNN's kernels for channels-last tensors and for its own blocked layout; ms
//   gemm         products of inner product layers: ours, which copies some factors, and oneDNN's with all where they lie; ms
//
// * marks what the rules choose, ! a choice more than 5 % slower than the fastest. Each figure is the least
// of the rounds, in which the kernels alternate: what else runs on the machine can only add to it. With one
// thread only the processor's time counts, so figures of a busy machine can be used.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/expanded_convolution.hpp"
#include "banyan/ops/processor.hpp"
#include "ops/cpu/convolution_choice.hpp"
#include "ops/cpu/convolution_columns.hpp"
#include "ops/cpu/convolution_depthwise.hpp"
#include "ops/cpu/convolution_groups.hpp"
#include "ops/cpu/convolution_products.hpp"
#include "ops/cpu/convolution_rows.hpp"
#include "ops/cpu/convolution_turned.hpp"
#include "ops/cpu/convolution_winograd.hpp"
#include "ops/cpu/dnnl_version.hpp"
#include "ops/cpu/normalization_blocks.hpp"
#include "ops/cpu/openmp_threads.hpp"

namespace banyan {
namespace {

using ops::ConvolutionGeometry;

struct Options {
  int threads = 1, rounds = 7;
  std::string only;
};

/// One contender; `run` may be empty: it cannot do the work.
struct Kernel {
  std::string name;
  std::function<void()> run;
  bool chosen = false;
};

clockid_t measured_clock = CLOCK_MONOTONIC;

double now() {
  timespec time{};
  clock_gettime(measured_clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_of(const std::function<void()>& run, int repetitions) {
  const double start = now();
  for (int i = 0; i < repetitions; ++i) run();
  return (now() - start) / repetitions;
}

/// Seconds of each kernel; infinite for those that cannot do the work.
std::vector<double> measure(const std::vector<Kernel>& kernels, int rounds) {
  constexpr double kSample = 2e-3;  // s
  std::vector<double> least(kernels.size(), std::numeric_limits<double>::infinity());
  std::vector<int> repetitions(kernels.size());
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    if (!kernels[k].run) continue;
    kernels[k].run();
    repetitions[k] = std::clamp(static_cast<int>(kSample / seconds_of(kernels[k].run, 1)), 1, 10000);
  }
  for (int round = 0; round < rounds; ++round)
    for (std::size_t k = 0; k < kernels.size(); ++k)
      if (kernels[k].run) least[k] = std::min(least[k], seconds_of(kernels[k].run, repetitions[k]));
  return least;
}

void print_header(const std::string& what, const std::vector<std::string>& names) {
  std::printf("\n%-44s", what.c_str());
  for (const std::string& name : names) std::printf(" %9s ", name.c_str());
  std::printf("\n");
}

/// One row: the times in seconds / unit.
void compare(const Options& options, const std::string& what, double unit,
             const std::vector<Kernel>& kernels) {
  if (what.find(options.only) == std::string::npos) return;
  const std::vector<double> seconds = measure(kernels, options.rounds);
  const double best = *std::min_element(seconds.begin(), seconds.end());
  std::printf("%-44s", what.c_str());
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const char mark = !kernels[k].chosen ? ' ' : seconds[k] > 1.05 * best ? '!' : '*';
    if (kernels[k].run)
      std::printf(" %9.3f%c", seconds[k] / unit, mark);
    else
      std::printf(" %9s ", "-");
  }
  std::printf("\n");
  std::fflush(stdout);
}

Tensor random_tensor(Device& device, const Shape& shape, Layout layout = Layout::channels_last) {
  Tensor tensor(device, shape, DType::f32, layout);
  std::minstd_rand engine(1);
  std::uniform_real_distribution<float> draw(-1, 1);
  std::generate_n(tensor.data<float>(), tensor.count(), [&] { return draw(engine); });
  return tensor;
}

/// A convolution of square images, or of volumes of `depth` such slices.
struct Case {
  std::string name;
  std::int64_t batch, in, length, out, kernel, stride = 1, pad = 0, dilation = 1, depth = 0, groups = 1;

  ConvolutionGeometry geometry() const {
    const std::size_t axes = depth > 0 ? 3 : 2;
    const auto each = [&](std::int64_t value) { return std::vector<std::int64_t>(axes, value); };
    return {each(kernel), each(stride), each(pad), each(dilation), groups, in, out};
  }
  std::int64_t output_length() const { return geometry().output_length(0, length); }
  Shape input() const {
    return depth > 0 ? Shape{batch, in, depth, length, length} : Shape{batch, in, length, length};
  }
  Shape output() const {
    const std::int64_t l = output_length(), slices = geometry().output_length(0, depth);
    return depth > 0 ? Shape{batch, out, slices, l, l} : Shape{batch, out, l, l};
  }
  Shape weight() const {
    return depth > 0 ? Shape{out, in, kernel, kernel, kernel} : Shape{out, in / groups, kernel, kernel};
  }
  std::string text(const char* pass) const {
    return cat(name, name.empty() ? "" : ": ", in, " -> ", out, ", ", kernel, "x", kernel,
               depth > 0 ? " 3-D" : "", groups > 1 ? cat(" in ", groups) : "",
               dilation > 1 ? cat(" by ", dilation) : "", ", ", pass);
  }
};

std::vector<Case> layers_of_nets() {
  return {
      {"LeNet conv1", 64, 1, 28, 20, 5},        {"LeNet conv2", 64, 20, 12, 50, 5},
      {"CIFAR quick", 100, 3, 32, 32, 5, 1, 2}, {"CIFAR quick", 100, 32, 8, 64, 5, 1, 2},
      {"AlexNet", 16, 3, 227, 96, 11, 4},       {"ResNet-20", 64, 3, 32, 16, 3, 1, 1},
      {"ResNet-20", 64, 16, 32, 16, 3, 1, 1},   {"ResNet-20", 64, 32, 16, 32, 3, 1, 1},
      {"ResNet-20", 64, 64, 8, 64, 3, 1, 1},    {"ResNet-50", 8, 3, 224, 64, 7, 2, 3},
      {"ResNet-50", 8, 64, 56, 64, 3, 1, 1},    {"ResNet-50", 8, 64, 56, 256, 1},
      {"ResNet-50", 8, 256, 56, 64, 1},         {"ResNet-50", 8, 512, 7, 512, 3, 1, 1},
      {"ResNet-50", 8, 256, 56, 128, 1},        {"ResNet-50", 8, 128, 28, 512, 1},
      {"ResNet-50", 8, 512, 28, 128, 1},        {"ResNet-50", 8, 256, 14, 1024, 1},
      {"ResNet-50", 8, 1024, 14, 256, 1},       {"ResNet-50", 8, 512, 7, 2048, 1},
      {"ResNet-50", 8, 2048, 7, 512, 1},        {"ResNet-50", 8, 128, 56, 128, 3, 2, 1},
      {"ResNet-50", 8, 256, 28, 256, 3, 2, 1},  {"ResNet-50", 8, 128, 28, 128, 3, 1, 1},
      {"ResNet-50", 8, 256, 14, 256, 3, 1, 1},  {"ResNet-50", 8, 64, 56, 64, 1},
      {"ResNet-50", 8, 512, 14, 512, 3, 2, 1},  {"ResNet-50", 8, 256, 56, 512, 1, 2},
      {"GoogLeNet", 16, 480, 14, 192, 1},       {"GoogLeNet", 16, 832, 7, 384, 1},
      {"GoogLeNet", 16, 512, 14, 24, 1},        {"MobileNet-v2", 8, 384, 14, 64, 1},
      {"MobileNet-v2", 8, 160, 7, 960, 1},      {"MobileNet-v2", 8, 320, 7, 1280, 1},
      {"GoogLeNet", 16, 24, 14, 64, 5, 1, 2},   {"GoogLeNet", 16, 112, 14, 224, 3, 1, 1},
      {"GoogLeNet", 16, 192, 28, 16, 1},        {"MobileNet-v2", 8, 16, 112, 96, 1},
      {"MobileNet-v2", 8, 96, 56, 24, 1},       {"MobileNet-v2", 8, 24, 56, 144, 1},
  };
}

/// Of which every kernel can do the forward pass: no padding.
std::vector<Case> grid() {
  std::vector<Case> all;
  for (const std::int64_t kernel : {1, 3, 5})
    for (const std::int64_t in : {1, 3, 8, 12, 16, 20, 32, 36, 64, 256})
      for (const std::int64_t out : {17, 20, 24, 33, 35, 48, 50, 64, 72, 100, 256}) {
        if (in * out * kernel <= 256 * 64) all.push_back({"", 32, in, 14, out, kernel});
        if (in * out * kernel <= 64 * 64 && kernel < 5)
          all.push_back({"large images", 4, in, 58, out, kernel});
      }
  return all;
}

/// Volumes, and windows with gaps.
std::vector<Case> wide_windows() {
  std::vector<Case> all{{"C3D", 1, 3, 112, 64, 3, 1, 1, 1, 16},   {"C3D", 1, 64, 56, 128, 3, 1, 1, 1, 16},
                        {"C3D", 1, 128, 28, 256, 3, 1, 1, 1, 8},  {"C3D", 1, 256, 28, 256, 3, 1, 1, 1, 8},
                        {"C3D", 1, 256, 14, 512, 3, 1, 1, 1, 4},  {"C3D", 1, 512, 14, 512, 3, 1, 1, 1, 4},
                        {"C3D", 1, 512, 7, 512, 3, 1, 1, 1, 2},   {"C3D", 4, 512, 7, 512, 3, 1, 1, 1, 2},
                        {"PSPNet", 1, 256, 60, 256, 3, 1, 2, 2},  {"PSPNet", 1, 512, 60, 512, 3, 1, 4, 4},
                        {"PSPNet", 1, 256, 60, 256, 3, 1, 1},     {"large", 4, 32, 64, 32, 3, 1, 2, 2},
                        {"large", 4, 64, 64, 64, 3, 1, 2, 2},     {"large", 4, 16, 64, 48, 3, 1, 12, 12},
                        {"small", 4, 128, 16, 64, 3, 1, 2, 2},    {"VGG-16", 1, 512, 28, 512, 3, 1, 1},
                        {"VGG-16", 2, 512, 28, 512, 3, 1, 1},     {"VGG-16", 1, 256, 56, 256, 3, 1, 1},
                        {"VGG-16", 2, 64, 224, 64, 3, 1, 1},      {"VGG-16", 1, 128, 28, 256, 3, 1, 1},
                        {"VGG-16", 4, 512, 14, 512, 3, 1, 1},     {"VGG-16", 16, 512, 14, 512, 3, 1, 1},
                        {"ResNet-50", 8, 64, 28, 64, 3, 1, 1},    {"FCN-8s", 1, 512, 45, 512, 3, 1, 1},
                        {"small", 4, 32, 28, 32, 3, 1, 1},        {"PSPNet", 1, 4096, 60, 512, 3, 1, 1},
                        {"narrow", 2, 16, 32, 16, 3, 1, 1, 1, 8}, {"narrow", 2, 32, 32, 64, 3, 1, 1, 1, 8},
                        {"stride", 2, 32, 32, 64, 3, 2, 1, 1, 8}, {"1x1", 2, 64, 28, 128, 1, 1, 0, 1, 8}};
  return all;
}

std::vector<Case> in_groups() {
  const auto of = [](const char* name, std::int64_t in, std::int64_t length, std::int64_t out,
                     std::int64_t kernel, std::int64_t stride, std::int64_t groups) {
    return Case{name, 8, in, length, out, kernel, stride, kernel / 2, 1, 0, groups};
  };
  return {of("ResNeXt-50", 128, 56, 128, 3, 1, 32), of("ResNeXt-50", 256, 56, 256, 3, 2, 32),
          of("ResNeXt-50", 256, 28, 256, 3, 1, 32), of("ResNeXt-50", 512, 14, 512, 3, 1, 32),
          of("strides", 128, 56, 128, 3, 2, 32),    of("1x1", 512, 14, 512, 1, 1, 128),
          of("ShuffleNet", 240, 28, 60, 1, 1, 3),   of("ShuffleNet", 60, 28, 240, 1, 1, 3),
          of("ShuffleNet", 480, 14, 120, 1, 1, 3),  of("ShuffleNet", 120, 14, 480, 1, 1, 3),
          of("ShuffleNet", 960, 7, 240, 1, 1, 3),   of("ShuffleNet", 240, 7, 960, 1, 1, 3),
          of("ShuffleNet", 272, 28, 68, 1, 1, 4),   of("ShuffleNet", 384, 28, 96, 1, 1, 8),
          of("many", 256, 28, 256, 1, 1, 16),       of("CaffeNet", 96, 27, 256, 5, 1, 2),
          of("CaffeNet", 384, 13, 384, 3, 1, 2),    of("CaffeNet", 384, 13, 256, 3, 1, 2),
          of("ResNeXt-50", 1024, 7, 1024, 3, 1, 32)};
}

/// Each channel by itself; the last two are the gradients of bilinear upsampling.
std::vector<Case> depthwise() {
  const auto of = [](const char* name, std::int64_t batch, std::int64_t channels, std::int64_t length,
                     std::int64_t stride, std::int64_t kernel = 3, std::int64_t dilation = 1) {
    return Case{name,     batch, channels, length, channels, kernel, stride, (kernel - 1) / 2 * dilation,
                dilation, 0,     channels};
  };
  return {of("MobileNet-v2", 16, 32, 112, 1),
          of("MobileNet-v2", 16, 96, 112, 2),
          of("MobileNet-v2", 16, 144, 56, 1),
          of("MobileNet-v2", 16, 144, 56, 2),
          of("MobileNet-v2", 16, 192, 28, 1),
          of("MobileNet-v2", 16, 384, 14, 1),
          of("MobileNet-v2", 16, 576, 14, 2),
          of("MobileNet-v2", 16, 960, 7, 1),
          of("MobileNet", 16, 64, 112, 2),
          of("MobileNet", 16, 128, 56, 1),
          of("MobileNet", 16, 256, 28, 1),
          of("MobileNet", 16, 512, 14, 1),
          of("MobileNet", 16, 1024, 7, 1),
          of("ShuffleNet", 16, 24, 56, 2),
          of("ShuffleNet", 16, 60, 56, 2),
          of("ShuffleNet", 16, 60, 28, 1),
          of("ShuffleNet", 16, 120, 14, 1),
          of("ShuffleNet", 16, 240, 7, 1),
          of("one image", 1, 144, 56, 1),
          of("one image", 1, 960, 7, 1),
          of("few channels", 16, 8, 112, 1),
          of("few channels", 8, 12, 64, 1),
          of("wide", 16, 240, 14, 1, 5),
          of("wide", 16, 96, 28, 1, 7),
          of("wide", 16, 72, 56, 2, 5),
          of("gaps", 8, 128, 28, 1, 3, 2),
          {"FCN", 1, 21, 512, 21, 16, 8, 4, 1, 0, 21},
          {"upsampling", 2, 64, 64, 64, 4, 2, 1, 1, 0, 64}};
}

std::function<void()> where(bool possible, std::function<void()> run) {
  return possible ? std::move(run) : nullptr;
}

void compare_convolutions(Device& device, const Options& options) {
  Context context(device);
  print_header("convolution", {"oneDNN", "rows", "columns", "products", "turned", "groups", "Winograd 2",
                               "Winograd 4", "depthwise"});
  std::vector<Case> cases = layers_of_nets();
  for (Case& c : wide_windows()) cases.push_back(std::move(c));
  for (Case& c : in_groups()) cases.push_back(std::move(c));
  for (Case& c : depthwise()) cases.push_back(std::move(c));
  for (Case& c : grid()) cases.push_back(std::move(c));
  for (const Case& c : cases) {
    const ConvolutionGeometry g = c.geometry();
    Tensor x = random_tensor(device, c.input()), y = random_tensor(device, c.output());
    Tensor w = random_tensor(device, c.weight(), Layout::contiguous);
    Tensor b = random_tensor(device, {c.out}, Layout::contiguous), none;
    const auto library = ops::make_library_convolution(g), turned = ops::make_turned_convolution(g);
    const bool possible = ops::rows_apply(g, x, y);
    const bool forward_rows = ops::rows_pay_forward(g, x, y), weight = ops::rows_pay_backward_weight(g, x, y);
    const bool products = ops::products_pay_backward_weight(g, x, y, device.threads());
    const bool data_products = ops::products_pay_backward_data(g, x, y);
    const bool data = ops::columns_pay(g, x, y, device.threads());
    const bool turns = ops::turning_pays(g, x, y), can_turn = ops::can_turn(g);
    const bool groups = ops::groups_apply(g, x, y), products_apply = ops::products_apply(g, x, y);
    const auto by_groups = [&](ops::GroupPass pass) { return ops::groups_pay(pass, g, x, y); };
    using enum ops::GroupPass;
    const bool data_groups = by_groups(backward_data), weight_groups = by_groups(backward_weight);
    const bool wide = ops::winograd_applies(ops::WinogradTile::wide_of_2, g, x, y);
    const auto tile_of_2 = wide ? ops::WinogradTile::wide_of_2 : ops::WinogradTile::of_2;
    const bool large_winograd = ops::winograd_applies(ops::WinogradTile::of_4, g, x, y);
    const bool winograd = wide || large_winograd;
    const auto by_winograd = [&](ops::WinogradPass pass) { return ops::winograd_tile(pass, g, x, y); };
    const auto forward_winograd = by_winograd(ops::WinogradPass::forward);
    const auto data_winograd = by_winograd(ops::WinogradPass::backward_data);
    const auto weight_winograd = by_winograd(ops::WinogradPass::backward_weight);
    constexpr auto of_4 = ops::WinogradTile::of_4;
    const bool depthwise = ops::depthwise_applies(g, x, y);
    const auto by_depthwise = [&](ops::DepthwisePass pass) { return ops::depthwise_pays(pass, g, x, y); };
    const bool forward_depthwise = by_depthwise(ops::DepthwisePass::forward);
    const bool data_depthwise = by_depthwise(ops::DepthwisePass::backward_data);
    const bool weight_depthwise = by_depthwise(ops::DepthwisePass::backward_weight);
    const bool is_product = ops::is_product(g) && products_apply;
    const bool forward_products = ops::products_pay_forward(g, x, y);
    compare(options, c.text("forward"), 1e-3,
            {{"oneDNN", [&] { library->forward(context, x, w, b, y); },
              !forward_rows && !by_groups(forward) && !forward_winograd && !forward_depthwise &&
                  !forward_products},
             {"rows", where(possible, [&] { ops::forward_by_rows(context, g, x, w, b, 1, y); }),
              forward_rows && !forward_winograd},
             {"columns", nullptr},
             {"products", where(is_product, [&] { ops::forward_by_products(context, g, x, w, b, 1, y); }),
              forward_products},
             {"turned", nullptr},
             {"groups", where(groups, [&] { ops::forward_by_groups(context, g, x, w, b, 1, y); }),
              by_groups(forward)},
             {"Winograd 2",
              where(winograd,
                    [&] { ops::forward_by_winograd(context, tile_of_2, g, x, w, b, 1, Tensor(), false, y); }),
              forward_winograd == tile_of_2},
             {"Winograd 4",
              where(large_winograd,
                    [&] { ops::forward_by_winograd(context, of_4, g, x, w, b, 1, Tensor(), false, y); }),
              forward_winograd == of_4},
             {"depthwise", where(depthwise, [&] { ops::forward_depthwise(context, g, x, w, b, {}, y); }),
              forward_depthwise}});
    compare(
        options, c.text("weights"), 1e-3,
        {{"oneDNN", [&] { library->backward_weight(context, x, y, w, none); },
          !products && !weight && !weight_groups && !weight_winograd && !weight_depthwise},
         {"rows", where(possible, [&] { ops::backward_weight_by_rows(context, g, x, y, w, none); }),
          !products && !weight_winograd && weight},
         {"columns", nullptr},
         {"products",
          where(products_apply, [&] { ops::backward_weight_by_products(context, g, x, y, true, w); }),
          products && !weight_winograd},
         {"turned", nullptr},
         {"groups", where(groups, [&] { ops::backward_weight_by_groups(context, g, x, y, true, w); }),
          !products && weight_groups},
         {"Winograd 2",
          where(winograd, [&] { ops::backward_weight_by_winograd(context, tile_of_2, g, x, y, true, w); }),
          weight_winograd == tile_of_2},
         {"Winograd 4",
          where(large_winograd, [&] { ops::backward_weight_by_winograd(context, of_4, g, x, y, true, w); }),
          weight_winograd == of_4},
         {"depthwise",
          where(depthwise, [&] { ops::backward_weight_depthwise(context, g, x, y, true, w, none); }),
          weight_depthwise}});
    const auto by_columns = [&] { ops::backward_data_by_columns(context, g, y, w, ops::column_values(), x); };
    compare(options, c.text("data"), 1e-3,
            {{"oneDNN", [&] { library->backward_data(context, y, w, x); },
              !data_products && !data && !turns && !data_groups && !data_winograd && !data_depthwise},
             {"rows", nullptr},
             {"columns", where(ops::is_plain_convolution(g, x, y), by_columns), data && !data_winograd},
             {"products", where(is_product, [&] { ops::backward_data_by_products(context, g, y, w, x); }),
              data_products},
             {"turned", where(can_turn, [&] { turned->backward_data(context, y, w, x); }),
              turns && !data_winograd},
             {"groups",
              where(groups && ops::groups_can_turn(g),
                    [&] { ops::backward_data_by_groups(context, g, y, w, x); }),
              data_groups},
             {"Winograd 2",
              where(winograd, [&] { ops::backward_data_by_winograd(context, tile_of_2, g, y, w, x); }),
              data_winograd == tile_of_2},
             {"Winograd 4",
              where(large_winograd, [&] { ops::backward_data_by_winograd(context, of_4, g, y, w, x); }),
              data_winograd == of_4},
             {"depthwise", where(depthwise, [&] { ops::backward_data_depthwise(context, g, y, w, x); }),
              data_depthwise}});
  }
}

void compare_narrow(Device& device, const Options& options) {
  Context context(device);
  print_header("bf16", {"oneDNN", "Winograd 2", "Winograd 4"});
  std::vector<Case> cases = layers_of_nets();
  for (Case& c : wide_windows()) cases.push_back(std::move(c));
  const Math math = ops::has_bf16_units() ? Math::bf16 : Math::bf16_in_f32;
  const auto narrow = [&](const Shape& shape) {
    const Tensor wide = random_tensor(device, shape);
    Tensor tensor(device, shape, DType::bf16, Layout::channels_last);
    std::transform(wide.data<float>(), wide.data<float>() + wide.count(), tensor.data<BFloat16>(),
                   [](float value) { return BFloat16(value); });
    return tensor;
  };
  for (const Case& c : cases) {
    const ConvolutionGeometry g = c.geometry();
    Tensor x = narrow(c.input()), y = narrow(c.output());
    if (!ops::winograd_applies(ops::WinogradTile::of_4, g, x, y)) continue;
    Tensor w = random_tensor(device, c.weight(), Layout::contiguous), none;
    const auto library = ops::make_library_convolution(g, math);
    using enum ops::WinogradTile;
    const auto contenders = [&](ops::WinogradPass pass, const std::function<void()>& by_library,
                                const std::function<void(ops::WinogradTile)>& by_tile) {
      const auto chosen = ops::winograd_tile(pass, g, x, y);
      return std::vector<Kernel>{{"oneDNN", by_library, !chosen},
                                 {"Winograd 2", [by_tile] { by_tile(of_2); }, chosen == of_2},
                                 {"Winograd 4", [by_tile] { by_tile(of_4); }, chosen == of_4}};
    };
    compare(options, c.text("forward"), 1e-3,
            contenders(
                ops::WinogradPass::forward, [&] { library->forward(context, x, w, none, y); },
                [&](ops::WinogradTile tile) {
                  ops::forward_by_winograd(context, tile, g, x, w, none, 1, Tensor(), false, y);
                }));
    compare(options, c.text("weights"), 1e-3,
            contenders(
                ops::WinogradPass::backward_weight, [&] { library->backward_weight(context, x, y, w, none); },
                [&](ops::WinogradTile tile) {
                  ops::backward_weight_by_winograd(context, tile, g, x, y, true, w);
                }));
    compare(options, c.text("data"), 1e-3,
            contenders(
                ops::WinogradPass::backward_data, [&] { library->backward_data(context, y, w, x); },
                [&](ops::WinogradTile tile) { ops::backward_data_by_winograd(context, tile, g, y, w, x); }));
  }
}

/// The first two convolutions of MobileNet-v2's blocks: one after the other, and as one operator.
void compare_expansions(Device& device, const Options& options) {
  struct Pair {
    std::int64_t batch, in, length, expanded, stride;
  };
  Context context(device);
  print_header("expansion", {"apart", "together"});
  for (const std::int64_t batch : {1, 16})
    for (const Pair& p :
         {Pair{batch, 16, 112, 96, 2}, Pair{batch, 24, 56, 144, 1}, Pair{batch, 24, 56, 144, 2},
          Pair{batch, 32, 28, 192, 1}, Pair{batch, 32, 28, 192, 2}, Pair{batch, 64, 14, 384, 1},
          Pair{batch, 96, 14, 576, 1}, Pair{batch, 96, 14, 576, 2}, Pair{batch, 160, 7, 960, 1}}) {
      const Case first{"", p.batch, p.in, p.length, p.expanded, 1};
      const Case second{"", p.batch, p.expanded, p.length, p.expanded, 3, p.stride, 1, 1, 0, p.expanded};
      Tensor x = random_tensor(device, first.input()), y = random_tensor(device, second.output());
      Tensor middle = random_tensor(device, first.output());
      const ops::Activation clip = ops::clip_activation(0, 6);
      const ops::Expansion expansion{random_tensor(device, first.weight(), Layout::contiguous),
                                     random_tensor(device, {p.expanded}, Layout::contiguous), clip};
      const Tensor w = random_tensor(device, second.weight(), Layout::contiguous);
      const Tensor b = random_tensor(device, {p.expanded}, Layout::contiguous);
      const auto one = ops::make_convolution(context, first.geometry(), DType::f32);
      const auto two = ops::make_convolution(context, second.geometry(), DType::f32);
      for (const auto& convolution : {one.get(), two.get()}) {
        convolution->fuse_activation(clip);
        convolution->weights_stay();
      }
      const bool pays = first.output().count(1) * 4 >= ops::expansion_that_pays();
      std::ostringstream what;
      what << "MobileNet-v2 " << p.batch << " x " << p.in << " x " << p.length << " x " << p.length << " to "
           << p.expanded << ", stride " << p.stride;
      compare(options, what.str(), 1e-3,
              {{"apart",
                [&] {
                  one->forward(context, x, expansion.weight, expansion.bias, middle);
                  two->forward(context, middle, w, b, y);
                },
                !pays},
               {"together",
                [&] { ops::expand_and_convolve(context, second.geometry(), x, expansion, w, b, clip, y); },
                pays}});
    }
}

void compare_columns(Device& device, const Options& options) {
  Context context(device);
  std::vector<std::int64_t> sizes;
  for (std::int64_t values = 1 << 13; values <= 1 << 21; values *= 4) sizes.push_back(values);
  if (!contains(sizes, ops::column_values())) sizes.push_back(ops::column_values());
  std::vector<std::string> names;
  for (const std::int64_t values : sizes) names.push_back(cat(values * 4 >> 10));
  print_header("columns: KiB at a time", names);
  for (const Case& c : {Case{"LeNet conv2", 64, 20, 12, 50, 5}, Case{"small images", 256, 20, 6, 64, 3},
                        Case{"large images", 8, 20, 60, 50, 5}, Case{"few channels", 16, 3, 64, 64, 5}}) {
    const std::int64_t length = c.output_length();
    Tensor x = random_tensor(device, {c.batch, c.in, c.length, c.length});
    Tensor y = random_tensor(device, {c.batch, c.out, length, length});
    Tensor w = random_tensor(device, {c.out, c.in, c.kernel, c.kernel}, Layout::contiguous);
    std::vector<Kernel> kernels;
    for (const std::int64_t values : sizes)
      kernels.push_back(
          {"", [&, values] { ops::backward_data_by_columns(context, c.geometry(), y, w, values, x); },
           values == ops::column_values()});
    compare(options, c.text("data"), 1e-3, kernels);
  }
}

/// On one thread, with the build's own instruction set.
void compare_blocks(Device& device, const Options& options) {
  const std::vector<std::int64_t> sizes{1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 16};
  std::vector<std::string> names;
  for (const std::int64_t values : sizes) names.push_back(cat(values * 4 >> 10));
  print_header("blocks: KiB", names);
  const Tensor x = random_tensor(device, {1 << 20}, Layout::contiguous);
  for (const std::int64_t channels : {16, 64, 256, 1}) {
    const ops::Lanes lanes(channels);
    ops::BlockMoments<float> block(lanes);
    ops::ChannelMoments moments(channels);
    std::vector<Kernel> kernels;
    for (const std::int64_t values : sizes)
      kernels.push_back({"",
                         [&, values] {
                           const std::int64_t size = values / lanes.width * lanes.width;
                           for (std::int64_t i = 0; i + size <= x.count(); i += size)
                             block.add(x.data<float>() + i, size, moments);
                         },
                         values / lanes.width * lanes.width == lanes.block()});
    compare(options, cat("statistics of ", channels, " channels"), 1e-6, kernels);
  }
}

/// oneDNN's kernel with activations in one order, and in the order that it likes best.
class LibraryKernels {
 public:
  LibraryKernels(const Case& c, dnnl::memory::format_tag tag)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using Desc = dnnl::memory::desc;
    constexpr auto kF32 = dnnl::memory::data_type::f32;
    const std::int64_t length = c.output_length();
    const Desc x({c.batch, c.in, c.length, c.length}, kF32, tag),
        y({c.batch, c.out, length, length}, kF32, tag);
    const Desc w({c.out, c.in, c.kernel, c.kernel}, kF32, dnnl::memory::format_tag::any);
    const dnnl::memory::dims stride{c.stride, c.stride}, pad{c.pad, c.pad};
    constexpr auto kDirect = dnnl::algorithm::convolution_direct;
    const dnnl::primitive_attr none;
    const auto forward = ops::describe<dnnl::convolution_forward>(
        engine_, none, dnnl::prop_kind::forward_training, kDirect, x, w, y, stride, pad, pad);
    add("forward", forward,
        {{DNNL_ARG_SRC, forward.src_desc()},
         {DNNL_ARG_WEIGHTS, forward.weights_desc()},
         {DNNL_ARG_DST, forward.dst_desc()}});
    const auto data = ops::describe_gradient<dnnl::convolution_backward_data>(engine_, none, forward, kDirect,
                                                                              x, w, y, stride, pad, pad);
    add("data", data,
        {{DNNL_ARG_DIFF_SRC, data.diff_src_desc()},
         {DNNL_ARG_WEIGHTS, data.weights_desc()},
         {DNNL_ARG_DIFF_DST, data.diff_dst_desc()}});
    const auto weights = ops::describe_gradient<dnnl::convolution_backward_weights>(
        engine_, none, forward, kDirect, x, w, y, stride, pad, pad);
    add("weights", weights,
        {{DNNL_ARG_SRC, weights.src_desc()},
         {DNNL_ARG_DIFF_WEIGHTS, weights.diff_weights_desc()},
         {DNNL_ARG_DIFF_DST, weights.diff_dst_desc()}});
  }
  void run(const std::string& pass) {
    const Pass& p = passes_.at(pass);
    p.kernel.execute(stream_, p.arguments);
    stream_.wait();
  }

 private:
  struct Pass {
    dnnl::primitive kernel;
    std::unordered_map<int, dnnl::memory> arguments;
  };
  template <class Description>
  void add(const std::string& pass, const Description& description,
           const std::map<int, dnnl::memory::desc>& ports) {
    Pass& p = passes_[pass];
    p.kernel = dnnl::primitive(description);
    for (const auto& [argument, desc] : ports) {
      dnnl::memory memory(desc, engine_);
      std::fill_n(static_cast<float*>(memory.get_data_handle()), desc.get_size() / sizeof(float), 0.5f);
      p.arguments.emplace(argument, std::move(memory));
    }
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  std::map<std::string, Pass> passes_;
};

void compare_layouts(const Options& options) {
  print_header("layout", {"last", "blocked"});
  for (const Case& c : layers_of_nets()) {
    LibraryKernels last(c, dnnl::memory::format_tag::nhwc), blocked(c, dnnl::memory::format_tag::any);
    for (const char* pass : {"forward", "weights", "data"})
      compare(options, c.text(pass), 1e-3,
              {{"last", [&] { last.run(pass); }, true}, {"blocked", [&] { blocked.run(pass); }}});
  }
}

void compare_products(Device& device, const Options& options) {
  Context context(device);
  print_header("gemm", {"ours", "in place"});
  struct Layer {
    const char* name;
    std::int64_t batch, in, out;
  };
  for (const Layer& layer :
       {Layer{"AlexNet fc6", 32, 9216, 4096}, Layer{"AlexNet fc7", 32, 4096, 4096},
        Layer{"AlexNet fc8", 32, 4096, 1000}, Layer{"VGG-16 fc6", 16, 25088, 4096},
        Layer{"ResNet-50 fc", 16, 2048, 1000}, Layer{"GoogLeNet fc", 32, 1024, 1000},
        Layer{"Faster R-CNN fc7", 128, 4096, 4096}, Layer{"LSTM of 1000", 16, 1000, 4000},
        Layer{"LSTM of 256", 16, 256, 1024}, Layer{"LeNet ip1", 64, 800, 500},
        Layer{"autoencoder", 100, 784, 1000}, Layer{"rows of 512", 1024, 512, 512}}) {
    const auto [name, n, in, out] = layer;
    const auto made = [&](std::int64_t rows, std::int64_t columns) {
      return random_tensor(device, {rows, columns}, Layout::contiguous);
    };
    Tensor x = made(n, in), w = made(out, in), y = made(n, out);
    const auto of = [&](const char* pass, const ops::GemmShape& s, const Tensor& a, const Tensor& b,
                        Tensor& c) {
      const auto in_place = [&] {
        const ops::OpenMpThreads team(options.threads);
        dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, 1, a.data<float>(),
                   s.transpose_a ? s.m : s.k, b.data<float>(), s.transpose_b ? s.k : s.n, 0, c.data<float>(),
                   s.n);
      };
      compare(options, cat(name, ": ", n, " x ", in, " -> ", out, ", ", pass), 1e-3,
              {{"ours", [&] { ops::gemm(context, s, 1, a, b, 0, c); }, true}, {"in place", in_place}});
    };
    of("forward", {false, true, n, out, in}, x, w, y);
    of("weights", {true, false, out, in, n}, y, x, w);
    of("data", {false, false, n, in, out}, y, w, x);
  }
}

void run(int count, char** words) {
  Options options;
  std::vector<std::string> parts;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word.starts_with("--threads="))
      options.threads = std::atoi(word.c_str() + 10);
    else if (word.starts_with("--rounds="))
      options.rounds = std::atoi(word.c_str() + 9);
    else if (word.starts_with("--only="))
      options.only = word.substr(7);
    else if (word == "convolution" || word == "bf16" || word == "expansion" || word == "columns" ||
             word == "blocks" || word == "layout" || word == "gemm")
      parts.push_back(word);
    else
      bad_input(
          "usage: bench_kernels [--threads=1] [--rounds=7] [--only=TEXT] "
          "[convolution|bf16|expansion|columns|blocks|layout|gemm...]");
  }
  CpuDeviceOptions how;
  how.threads = options.threads;
  if (options.threads == 1) measured_clock = CLOCK_THREAD_CPUTIME_ID;
  const auto device = make_cpu_device(0, how);
  device->make_current();
  std::printf("%d thread(s); kernels: %s; L2 cache: %ld KiB\n", options.threads,
              name_of(ops::instruction_set()), static_cast<long>(ops::l2_cache() >> 10));
  const auto wanted = [&](const char* part) { return parts.empty() || std::ranges::count(parts, part) > 0; };
  if (wanted("convolution")) compare_convolutions(*device, options);
  if (wanted("bf16")) compare_narrow(*device, options);
  if (wanted("expansion")) compare_expansions(*device, options);
  if (wanted("columns")) compare_columns(*device, options);
  if (wanted("blocks")) compare_blocks(*device, options);
  if (wanted("layout")) compare_layouts(options);
  if (wanted("gemm")) compare_products(*device, options);
}

}  // namespace
}  // namespace banyan

int main(int count, char** words) {
  try {
    banyan::run(count, words);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
  }
}
