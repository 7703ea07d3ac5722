// Times the ways to compute convolutions on a GPU that columns_are_better()
// (src/ops/cuda/convolution_plan.cpp) chooses from: cuDNN's deterministic algorithms in both memory orders,
// and products over unfolded images, in f32, TF32 and bf16. Prints a table in Markdown for the convolutions
// of ResNet-50, ResNet-20 and LeNet, times in microseconds, the fastest of three batches of calls each.
//
//   cmake --build build/release --target bench_gpu_convolutions
//   build/release/bin/bench_gpu_convolutions > docs/bench/gpu_convolutions.md
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <random>

#include "banyan/device/context.hpp"
#include "banyan/device/cuda_devices.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/tensor/values.hpp"
#include "ops/cuda/convolution_columns.hpp"
#include "ops/cuda/convolution_plan.hpp"
#include "ops/cuda/handles.hpp"

namespace banyan::ops {
namespace {

constexpr int kDirections = 3;
constexpr const char* kNames[kDirections] = {"forward", "data", "weights"};

/// Square images and windows. `count`: how often the net has it.
struct Case {
  const char* net;
  int count;
  std::int64_t samples, channels, size, outputs, window, stride, pad;
};
constexpr Case kCases[] = {
    {"ResNet-50", 1, 32, 3, 224, 64, 7, 2, 3},    {"ResNet-50", 1, 32, 64, 56, 64, 1, 1, 0},
    {"ResNet-50", 3, 32, 64, 56, 64, 3, 1, 1},    {"ResNet-50", 4, 32, 64, 56, 256, 1, 1, 0},
    {"ResNet-50", 2, 32, 256, 56, 64, 1, 1, 0},   {"ResNet-50", 1, 32, 256, 56, 128, 1, 1, 0},
    {"ResNet-50", 1, 32, 128, 56, 128, 3, 2, 1},  {"ResNet-50", 1, 32, 256, 56, 512, 1, 2, 0},
    {"ResNet-50", 3, 32, 128, 28, 128, 3, 1, 1},  {"ResNet-50", 4, 32, 128, 28, 512, 1, 1, 0},
    {"ResNet-50", 3, 32, 512, 28, 128, 1, 1, 0},  {"ResNet-50", 1, 32, 512, 28, 256, 1, 1, 0},
    {"ResNet-50", 1, 32, 256, 28, 256, 3, 2, 1},  {"ResNet-50", 1, 32, 512, 28, 1024, 1, 2, 0},
    {"ResNet-50", 5, 32, 256, 14, 256, 3, 1, 1},  {"ResNet-50", 6, 32, 256, 14, 1024, 1, 1, 0},
    {"ResNet-50", 5, 32, 1024, 14, 256, 1, 1, 0}, {"ResNet-50", 1, 32, 1024, 14, 512, 1, 1, 0},
    {"ResNet-50", 1, 32, 512, 14, 512, 3, 2, 1},  {"ResNet-50", 1, 32, 1024, 14, 2048, 1, 2, 0},
    {"ResNet-50", 2, 32, 512, 7, 512, 3, 1, 1},   {"ResNet-50", 3, 32, 512, 7, 2048, 1, 1, 0},
    {"ResNet-50", 2, 32, 2048, 7, 512, 1, 1, 0},  {"ResNet-20", 1, 128, 3, 32, 16, 3, 1, 1},
    {"ResNet-20", 6, 128, 16, 32, 16, 3, 1, 1},   {"ResNet-20", 1, 128, 16, 32, 32, 3, 2, 1},
    {"ResNet-20", 1, 128, 16, 32, 32, 1, 2, 0},   {"ResNet-20", 5, 128, 32, 16, 32, 3, 1, 1},
    {"ResNet-20", 1, 128, 32, 16, 64, 3, 2, 1},   {"ResNet-20", 1, 128, 32, 16, 64, 1, 2, 0},
    {"ResNet-20", 5, 128, 64, 8, 64, 3, 1, 1},    {"LeNet", 1, 64, 1, 28, 20, 5, 1, 0},
    {"LeNet", 1, 64, 20, 12, 50, 5, 1, 0}};

/// Microseconds of a call; 0 if it is refused.
double time_of(Context& context, const std::function<bool()>& call) {
  if (!call()) return 0;
  const cudaStream_t stream = cuda_stream(context);
  cudaEvent_t begin = nullptr, end = nullptr;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  const auto batch = [&](int calls) {
    cudaEventRecord(begin, stream);
    for (int i = 0; i < calls; ++i) call();
    cudaEventRecord(end, stream);
    cudaEventSynchronize(end);
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, begin, end);
    return static_cast<double>(milliseconds) * 1000 / calls;
  };
  const int calls = std::clamp(static_cast<int>(6000 / std::max(batch(1), 1.0)), 1, 20);
  const double least = std::min({batch(calls), batch(calls), batch(calls)});
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return least;
}

/// A tensor in scratch memory; its order does not matter for its time.
Tensor random_tensor(Context& context, const Shape& shape, DType dtype) {
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> draw(-1, 1);
  std::vector<float> values(static_cast<std::size_t>(shape.count()));
  for (float& value : values) value = draw(engine);
  Tensor tensor(context.device(), shape, DType::f32);
  copy_from_host(context, values.data(), tensor);
  if (dtype == DType::f32) return tensor;
  Tensor converted(context.device(), shape, dtype);
  ops::copy(context, tensor, converted);
  context.synchronize();
  return converted;
}

class Bench {
 public:
  Bench(Device& device, const Case& of)
      : context_(device),
        geometry_{{of.window, of.window},
                  {of.stride, of.stride},
                  {of.pad, of.pad},
                  {1, 1},
                  1,
                  of.channels,
                  of.outputs},
        dtype_(device.math() == Math::bf16 ? DType::bf16 : DType::f32),
        x_(random_tensor(context_, {of.samples, of.channels, of.size, of.size}, dtype_)),
        w_(random_tensor(context_, {of.outputs, of.channels, of.window, of.window}, dtype_)),
        dw_(random_tensor(context_, w_.shape(), DType::f32)),
        y_(random_tensor(context_, {of.samples, of.outputs, output_of(of), output_of(of)}, dtype_)) {}

  static std::int64_t output_of(const Case& of) { return (of.size + 2 * of.pad - of.window) / of.stride + 1; }

  double columns(int direction) {
    const ColumnsProblem problem{geometry_, dtype_, x_.shape(), y_.shape()};
    void* scratch = context_.workspace(
        std::max<std::size_t>(columns_bytes(problem, static_cast<ConvolutionDirection>(direction)), 1));
    return time_of(context_, [&] {
      if (direction == 0) columns_forward(context_, problem, x_.raw(), w_.raw(), y_.raw(), scratch);
      if (direction == 1) columns_backward_data(context_, problem, y_.raw(), w_.raw(), x_.raw(), scratch);
      if (direction == 2) columns_backward_weight(context_, problem, x_.raw(), y_.raw(), dw_.raw(), scratch);
      return true;
    });
  }

  /// The attempts that the plan would make, the best first, but for the columns.
  double cudnn(int direction, bool channels_last) {
    ConvolutionPlan plan(context_.device(), geometry_, dtype_, x_.shape(), y_.shape(), channels_last,
                         ConvolutionPlan::Columns::last);
    const cudnnHandle_t handle = cuda_handles(context_).cudnn();
    const ConvolutionAttempts& attempts = plan.attempts(handle, static_cast<ConvolutionDirection>(direction));
    for (const ConvolutionAttempt& a : attempts.list) {
      if (a.algorithm == kColumnsAlgorithm || a.format->channels_last != channels_last) continue;
      void* scratch = context_.workspace(std::max<std::size_t>(a.workspace_bytes, 1));
      const double time = time_of(context_, [&] {
        return call(handle, plan.convolution(), a, direction, scratch) == CUDNN_STATUS_SUCCESS;
      });
      if (time > 0) return time;
    }
    return 0;
  }

 private:
  cudnnStatus_t call(cudnnHandle_t handle, cudnnConvolutionDescriptor_t convolution,
                     const ConvolutionAttempt& a, int direction, void* scratch) {
    constexpr float kOne = 1, kZero = 0;
    const ConvolutionFormat& f = *a.format;
    if (direction == 0)
      return cudnnConvolutionForward(handle, &kOne, f.input.get(), x_.raw(), f.weight.get(), w_.raw(),
                                     convolution, static_cast<cudnnConvolutionFwdAlgo_t>(a.algorithm),
                                     scratch, a.workspace_bytes, &kZero, f.output.get(), y_.raw());
    if (direction == 1)
      return cudnnConvolutionBackwardData(handle, &kOne, f.weight.get(), w_.raw(), f.output.get(), y_.raw(),
                                          convolution,
                                          static_cast<cudnnConvolutionBwdDataAlgo_t>(a.algorithm), scratch,
                                          a.workspace_bytes, &kZero, f.input.get(), x_.raw());
    return cudnnConvolutionBackwardFilter(handle, &kOne, f.input.get(), x_.raw(), f.output.get(), y_.raw(),
                                          convolution,
                                          static_cast<cudnnConvolutionBwdFilterAlgo_t>(a.algorithm), scratch,
                                          a.workspace_bytes, &kZero, f.weight.get(), dw_.raw());
  }

  Context context_;
  ConvolutionGeometry geometry_;
  DType dtype_;
  Tensor x_, w_, dw_, y_;
};

/// f32 contiguous and channels-last, unfolded; TF32 and bf16 the same.
using Times = std::array<double, 9>;

void print_row(const std::string& title, const Times& times) {
  std::printf("| %s |", title.c_str());
  for (const double time : times)
    if (time > 0)
      std::printf(" %.0f |", time);
    else
      std::printf(" - |");
  std::printf("\n");
}

int run() {
  std::printf(
      "| convolution | direction | f32: cuDNN, contiguous | cuDNN, channels-last | unfolded | TF32: cuDNN, "
      "contiguous | cuDNN, channels-last | unfolded | bf16: cuDNN, contiguous | cuDNN, channels-last | "
      "unfolded |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  std::map<std::pair<std::string, int>, Times> sums;
  for (const Case& of : kCases)
    for (int direction = 0; direction < kDirections; ++direction) {
      Times times{};
      std::size_t column = 0;
      for (const Math math : {Math::full, Math::tf32, Math::bf16}) {
        const auto device = make_cuda_device(0, 0, math);
        Bench bench(*device, of);
        times[column++] = bench.cudnn(direction, false);
        times[column++] = bench.cudnn(direction, true);
        times[column++] = bench.columns(direction);
      }
      print_row(cat(of.net, " ", of.samples, " x ", of.channels, " x ", of.size, "^2, ", of.outputs, " of ",
                    of.window, "^2 / ", of.stride, " | ", kNames[direction]),
                times);
      for (std::size_t i = 0; i < times.size(); ++i) sums[{of.net, direction}][i] += of.count * times[i];
    }
  for (const auto& [key, times] : sums)
    print_row(cat("**all of ", key.first, "** | ", kNames[key.second]), times);
  return 0;
}

}  // namespace
}  // namespace banyan::ops

int main() {
  try {
    return banyan::ops::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_gpu_convolutions: %s\n", error.what());
    return 1;
  }
}
