// The emulated cuDNN: results against plain loops, and each of its rules.
#include <cudnn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "dnn_reference.hpp"
#include "dnn_run.hpp"
#include "rounding.hpp"

namespace emulated::dnn {
namespace {

// Two GPUs, unless the environment says otherwise; set before the machine is first used.
[[maybe_unused]] const int two_gpus = setenv("EMULATED_CUDA", "gpus=2,on_violation=report", 0);

/// Bytes of the current GPU's memory.
class OnDevice {
 public:
  explicit OnDevice(std::size_t bytes) {
    EXPECT_EQ(cudaMalloc(&memory_, std::max<std::size_t>(bytes, 1)), cudaSuccess);
  }
  OnDevice(const std::vector<double>& values, cudnnDataType_t type)
      : OnDevice(values.size() * size_of(type)) {
    const std::vector<float> narrow(values.begin(), values.end());
    std::vector<Bf16> brief;
    for (const float value : narrow) brief.push_back(as_bf16(value));
    const void* from = type == CUDNN_DATA_DOUBLE     ? static_cast<const void*>(values.data())
                       : type == CUDNN_DATA_BFLOAT16 ? static_cast<const void*>(brief.data())
                                                     : narrow.data();
    EXPECT_EQ(cudaMemcpy(memory_, from, values.size() * size_of(type), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~OnDevice() { EXPECT_EQ(cudaFree(memory_), cudaSuccess); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  char* get() const { return static_cast<char*>(memory_); }
  std::vector<double> values(std::size_t count, cudnnDataType_t type) const {
    std::vector<double> wide(count);
    std::vector<float> narrow(count);
    std::vector<Bf16> brief(count);
    void* to = type == CUDNN_DATA_DOUBLE     ? static_cast<void*>(wide.data())
               : type == CUDNN_DATA_BFLOAT16 ? static_cast<void*>(brief.data())
                                             : narrow.data();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(to, memory_, count * size_of(type), cudaMemcpyDeviceToHost), cudaSuccess);
    if (type == CUDNN_DATA_BFLOAT16) std::transform(brief.begin(), brief.end(), narrow.begin(), as_float);
    if (type != CUDNN_DATA_DOUBLE) wide.assign(narrow.begin(), narrow.end());
    return wide;
  }

 private:
  void* memory_ = nullptr;
};

/// The four descriptors of a case.
struct Descriptors {
  cudnnTensorDescriptor_t x = nullptr, y = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
  explicit Descriptors(const Case& c) {
    const auto tensor = [&](cudnnTensorDescriptor_t* made, const Lengths& dims, const Lengths& strides) {
      const Lengths steps = strides.empty() ? packed_strides(dims, c.channels_last) : strides;
      EXPECT_EQ(cudnnCreateTensorDescriptor(made), CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(
          cudnnSetTensorNdDescriptor(*made, c.type, static_cast<int>(dims.size()), dims.data(), steps.data()),
          CUDNN_STATUS_SUCCESS);
    };
    tensor(&x, c.x(), c.x_strides);
    tensor(&y, c.y(), c.y_strides);
    EXPECT_EQ(cudnnCreateFilterDescriptor(&w), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetFilterNdDescriptor(w, c.type, c.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                                         static_cast<int>(c.w().size()), c.w().data()),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnCreateConvolutionDescriptor(&convolution), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetConvolutionNdDescriptor(
                  convolution, static_cast<int>(c.pad.size()), c.pad.data(), c.stride.data(),
                  c.dilation.data(), c.flipped ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION,
                  c.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetConvolutionGroupCount(convolution, c.groups), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetConvolutionMathType(convolution, CUDNN_FMA_MATH), CUDNN_STATUS_SUCCESS);
  }
  ~Descriptors() {
    cudnnDestroyTensorDescriptor(x);
    cudnnDestroyTensorDescriptor(y);
    cudnnDestroyFilterDescriptor(w);
    cudnnDestroyConvolutionDescriptor(convolution);
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;
};

constexpr Direction kDirections[] = {Direction::forward, Direction::backward_data,
                                     Direction::backward_filter};

class Dnn : public testing::Test {
 protected:
  Dnn() {
    configure("on_violation=report,notes=0");
    EXPECT_GE(settings().gpus, 2);
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudnnCreate(&handle_), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetStream(handle_, stream_), CUDNN_STATUS_SUCCESS);
    before_ = violations();
  }
  ~Dnn() override {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cudnnDestroy(handle_), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(new_violations(), 0u);
  }
  /// Violations since the last call, once the GPU has run everything.
  std::uint64_t new_violations() {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const std::uint64_t now = violations(), found = now - before_;
    before_ = now;
    return found;
  }
  cudnnStatus_t workspace(Direction direction, const Descriptors& d, int algorithm, std::size_t* bytes) {
    if (direction == Direction::forward)
      return cudnnGetConvolutionForwardWorkspaceSize(
          handle_, d.x, d.w, d.convolution, d.y, static_cast<cudnnConvolutionFwdAlgo_t>(algorithm), bytes);
    if (direction == Direction::backward_data)
      return cudnnGetConvolutionBackwardDataWorkspaceSize(
          handle_, d.w, d.y, d.convolution, d.x, static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm),
          bytes);
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(
        handle_, d.x, d.y, d.convolution, d.w, static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm),
        bytes);
  }
  cudnnStatus_t convolve_there(Direction direction, const Descriptors& d, int algorithm, const void* alpha,
                               const void* beta, void* x, void* w, void* y, void* work, std::size_t bytes) {
    if (direction == Direction::forward)
      return cudnnConvolutionForward(handle_, alpha, d.x, x, d.w, w, d.convolution,
                                     static_cast<cudnnConvolutionFwdAlgo_t>(algorithm), work, bytes, beta,
                                     d.y, y);
    if (direction == Direction::backward_data)
      return cudnnConvolutionBackwardData(handle_, alpha, d.w, w, d.y, y, d.convolution,
                                          static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm), work, bytes,
                                          beta, d.x, x);
    return cudnnConvolutionBackwardFilter(handle_, alpha, d.x, x, d.y, y, d.convolution,
                                          static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm), work,
                                          bytes, beta, d.w, w);
  }
  /// The status of each algorithm for a case, by its enumerator.
  std::vector<int> support(Direction direction, const Case& c) {
    const Descriptors d(c);
    std::vector<int> statuses;
    for (int algorithm = 0; algorithm < algorithms_of(direction); ++algorithm) {
      std::size_t bytes = 0;
      statuses.push_back(CUDNN_STATUS_CATEGORY(workspace(direction, d, algorithm, &bytes)));
    }
    return statuses;
  }
  int expect_results(const Case& c, Direction direction, double alpha, double beta);

  cudnnHandle_t handle_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::uint64_t before_ = 0;
};

/// Compares all algorithms that support the case; returns their number.
int Dnn::expect_results(const Case& c, Direction direction, double alpha, double beta) {
  const auto strides = [&](const Lengths& given, const Lengths& dims) {
    return given.empty() ? packed_strides(dims, c.channels_last) : given;
  };
  const Array x(c.x(), strides(c.x_strides, c.x()), 1), w(c.w(), packed_strides(c.w(), c.channels_last), 2),
      y(c.y(), strides(c.y_strides, c.y()), 3);
  Array expected[] = {x, w, y};
  Array& target = expected[direction == Direction::backward_data     ? 0
                           : direction == Direction::backward_filter ? 1
                                                                     : 2];
  for_each_index(target.dims, [&](const Lengths& index) { target.at(index) *= beta; });
  {
    // The operands as they were, with the target scaled.
    Array from[] = {x, w, y};
    Array sum = target;
    (direction == Direction::backward_data     ? from[0]
     : direction == Direction::backward_filter ? from[1]
                                               : from[2]) = sum;
    convolve(c, direction, alpha, from[0], from[1], from[2]);
    target = direction == Direction::backward_data     ? from[0]
             : direction == Direction::backward_filter ? from[1]
                                                       : from[2];
  }
  const Descriptors d(c);
  const auto narrow = [](double value) { return static_cast<float>(value); };
  const float alpha32 = narrow(alpha), beta32 = narrow(beta);
  const bool wide = c.type == CUDNN_DATA_DOUBLE;
  int compared = 0;
  for (int algorithm = 0; algorithm < algorithms_of(direction); ++algorithm) {
    std::size_t bytes = 0;
    if (workspace(direction, d, algorithm, &bytes) != CUDNN_STATUS_SUCCESS) continue;
    const OnDevice x_there(x.values, c.type), w_there(w.values, c.type), y_there(y.values, c.type),
        work(bytes);
    EXPECT_EQ(convolve_there(direction, d, algorithm, wide ? static_cast<const void*>(&alpha) : &alpha32,
                             wide ? static_cast<const void*>(&beta) : &beta32, x_there.get(), w_there.get(),
                             y_there.get(), work.get(), bytes),
              CUDNN_STATUS_SUCCESS);
    const OnDevice& there = direction == Direction::backward_data     ? x_there
                            : direction == Direction::backward_filter ? w_there
                                                                      : y_there;
    const std::vector<double> found = there.values(target.values.size(), c.type);
    for (std::size_t i = 0; i < found.size(); ++i) {
      // A bf16 has rounded the f32 sum by half a unit in the last place, 2^-8 of it.
      const double rounding = c.type == CUDNN_DATA_BFLOAT16 ? 0x1p-8 * std::abs(target.values[i]) : 0;
      if (std::abs(found[i] - target.values[i]) > (wide ? 1e-12 : 1e-4) + rounding) {
        ADD_FAILURE() << c.name << ", " << name_of(direction) << " by " << name_of(direction, algorithm)
                      << ": element " << i << " is " << found[i] << ", expected " << target.values[i];
        break;
      }
    }
    ++compared;
  }
  return compared;
}

std::vector<Case> cases() {
  std::vector<Case> all = {
      {.name = "plain"},
      {.name = "padded", .pad = {1, 2}},
      {.name = "strided", .pad = {1, 0}, .stride = {2, 3}},
      {.name = "dilated", .in = {9, 8}, .pad = {2, 1}, .dilation = {2, 3}},
      {.name = "grouped", .in_channels = 6, .pad = {1, 1}, .stride = {2, 1}, .groups = 2},
      {.name = "depthwise", .in_channels = 4, .pad = {1, 1}, .groups = 4},
      {.name = "1x1", .kernel = {1, 1}},
      {.name = "1x1 grouped", .in_channels = 4, .kernel = {1, 1}, .groups = 2},
      {.name = "1x1 strided", .kernel = {1, 1}, .stride = {2, 2}},
      {.name = "row", .in = {1, 12}, .kernel = {1, 5}, .pad = {0, 2}},
      {.name = "5x5", .in = {8, 7}, .kernel = {5, 5}, .pad = {2, 2}},
      {.name = "all of the image", .in = {4, 4}, .kernel = {4, 4}},
      {.name = "padding beyond the filter", .in = {2, 2}, .kernel = {2, 2}, .pad = {3, 3}, .stride = {2, 2}},
      {.name = "flipped", .kernel = {2, 3}, .pad = {1, 0}, .flipped = true},
  };
  for (std::size_t i = 0, count = all.size(); i < count; ++i) {
    all.push_back(all[i]);
    all.back().name += ", channels last";
    all.back().channels_last = true;
  }
  const Case volume{.name = "volume",
                    .batch = 1,
                    .in_channels = 2,
                    .in = {4, 5, 4},
                    .kernel = {2, 3, 3},
                    .pad = {1, 1, 0},
                    .stride = {1, 1, 1},
                    .dilation = {1, 1, 1}};
  all.push_back(volume);
  all.push_back(volume);
  all.back().name = "strided volume, grouped";
  all.back().stride = {2, 1, 2};
  all.back().groups = 2;
  all.push_back(volume);
  all.back().name = "dilated volume";
  all.back().dilation = {2, 2, 1};
  return all;
}

TEST_F(Dnn, ConvolvesAsPlainLoopsDo) {
  for (Case c : cases())
    for (const cudnnDataType_t type : {CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_BFLOAT16}) {
      c.type = type;
      for (const Direction direction : kDirections)
        for (const auto& [alpha, beta] : {std::pair{1.0, 0.0}, std::pair{-2.0, 0.5}}) {
          const int compared = expect_results(c, direction, alpha, beta);
          if (c.channels_last && type == CUDNN_DATA_DOUBLE)
            EXPECT_EQ(compared, 0) << c.name;
          else
            EXPECT_GE(compared, 1) << c.name << ", " << name_of(direction);
        }
    }
}

TEST_F(Dnn, TensorsMayHaveGapsAndOtherOrders) {
  // Images of 3 x 6 x 5 and 4 x 4 x 3, with gaps between rows, channels, images; and the input's channels
  // innermost.
  const Case gaps{.name = "gaps", .x_strides = {200, 50, 7, 1}, .y_strides = {100, 20, 4, 1}};
  const Case mixed{.name = "mixed", .x_strides = packed_strides({2, 3, 6, 5}, true)};
  const Case images{.name = "gaps between images", .x_strides = {100, 30, 5, 1}, .y_strides = {50, 12, 3, 1}};
  for (const double beta : {0.0, 0.5}) {
    EXPECT_EQ(expect_results(gaps, Direction::forward, 2, beta), 5)
        << "all but the transforms of packed planes";
    EXPECT_EQ(expect_results(gaps, Direction::backward_data, 2, beta), 0)
        << "the output's gradient has to be packed";
    EXPECT_EQ(expect_results(mixed, Direction::forward, 2, beta), 5);
    EXPECT_EQ(expect_results(mixed, Direction::backward_data, 2, beta), 4);
    EXPECT_EQ(expect_results(mixed, Direction::backward_filter, 2, beta), 4);
    for (const Direction direction : kDirections) EXPECT_GE(expect_results(images, direction, 2, beta), 5);
  }
}

TEST_F(Dnn, Bf16TensorsMayHaveGaps) {
  const Case gaps{.name = "gaps",
                  .type = CUDNN_DATA_BFLOAT16,
                  .x_strides = {200, 50, 7, 1},
                  .y_strides = {100, 20, 4, 1}};
  const Case images{.name = "gaps between images",
                    .type = CUDNN_DATA_BFLOAT16,
                    .x_strides = {100, 30, 5, 1},
                    .y_strides = {50, 12, 3, 1}};
  for (const double beta : {0.0, 0.5}) {
    EXPECT_EQ(expect_results(gaps, Direction::forward, 2, beta), 2);
    EXPECT_EQ(expect_results(images, Direction::forward, 2, beta), 2);
    EXPECT_EQ(expect_results(images, Direction::backward_data, 2, beta), 2);
    EXPECT_EQ(expect_results(images, Direction::backward_filter, 2, beta), 3);
  }
}

TEST_F(Dnn, Bf16IsTheNearestToTheWholeSum) {
  constexpr double kHalf = 0x1p-8;  // of the last place of a number from 1 to 2
  // A filter of three taps over the row 1, kHalf, kHalf in one image, forward; three images of which each
  // contributes one of these to the filter's gradient.
  for (const bool channels_last : {false, true})
    for (const auto& [terms, expected] : {std::pair{std::vector<double>{1, kHalf, kHalf}, 1 + 2 * kHalf},
                                          std::pair{std::vector<double>{1, kHalf, 0}, 1.0},
                                          std::pair{std::vector<double>{1, 3 * kHalf, 0}, 1 + 4 * kHalf}})
      for (const Direction direction : {Direction::forward, Direction::backward_filter}) {
        const bool forward = direction == Direction::forward;
        const Case c{.batch = forward ? 1 : 3,
                     .in_channels = 1,
                     .out_channels = 1,
                     .in = {1, forward ? 3 : 1},
                     .kernel = {1, forward ? 3 : 1},
                     .channels_last = channels_last,
                     .type = CUDNN_DATA_BFLOAT16};
        const Descriptors d(c);
        const std::vector<double> ones(3, 1);
        const OnDevice x(terms, c.type), w(ones, c.type), y(ones, c.type), work(1024);
        const float one = 1, zero = 0;
        ASSERT_EQ(convolve_there(direction, d, 1, &one, &zero, x.get(), w.get(), y.get(), work.get(), 1024),
                  CUDNN_STATUS_SUCCESS);
        EXPECT_EQ((forward ? y : w).values(1, c.type)[0], expected) << name_of(direction);
      }
}

TEST_F(Dnn, TargetsAreNotReadWhereBetaIsZero) {
  const Case c;
  const Descriptors d(c);
  const OnDevice x(std::vector<double>(180, 1), c.type), w(std::vector<double>(108, 1), c.type),
      y(96 * 4);  // starts out as NaNs
  const float one = 1, zero = 0;
  ASSERT_EQ(convolve_there(Direction::forward, d, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, &one, &zero,
                           x.get(), w.get(), y.get(), nullptr, 0),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(y.values(96, c.type), std::vector<double>(96, 27));
  const Case narrow{.type = CUDNN_DATA_BFLOAT16};
  const Descriptors of_narrow(narrow);
  const OnDevice narrow_x(std::vector<double>(180, 1), narrow.type),
      narrow_w(std::vector<double>(108, 1), narrow.type), narrow_y(96 * 2);
  ASSERT_EQ(convolve_there(Direction::forward, of_narrow, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, &one,
                           &zero, narrow_x.get(), narrow_w.get(), narrow_y.get(), nullptr, 0),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(narrow_y.values(96, narrow.type), std::vector<double>(96, 27));
}

constexpr int kOk = CUDNN_STATUS_SUCCESS, kBad = CUDNN_STATUS_BAD_PARAM, kNot = CUDNN_STATUS_NOT_SUPPORTED;

TEST_F(Dnn, AlgorithmsSupportWhatIsDocumented) {
  using Statuses = std::vector<int>;
  const auto expect = [&](const Case& c, const Statuses& forward, const Statuses& data,
                          const Statuses& filter) {
    EXPECT_EQ(support(Direction::forward, c), forward) << c.name;
    EXPECT_EQ(support(Direction::backward_data, c), data) << c.name;
    EXPECT_EQ(support(Direction::backward_filter, c), filter) << c.name;
  };
  // Forward: IMPLICIT_GEMM, PRECOMP, GEMM, DIRECT, FFT, FFT_TILING, WINOGRAD, NONFUSED. Data: 0, 1, FFT,
  // FFT_TILING, WINOGRAD, NONFUSED. Filter: 0, 1, FFT, 3, WINOGRAD, NONFUSED, FFT_TILING.
  const Statuses products{kOk, kOk, kOk, kNot, kNot, kNot, kNot, kNot},
      data{kOk, kOk, kNot, kNot, kNot, kNot}, filter{kOk, kOk, kNot, kOk, kNot, kNot, kNot};
  const Statuses none8(8, kNot), none6(6, kNot), none7(7, kNot);
  expect({.name = "3x3"}, {kOk, kOk, kOk, kNot, kOk, kOk, kOk, kOk}, {kOk, kOk, kOk, kOk, kOk, kOk},
         {kOk, kOk, kOk, kOk, kNot, kOk, kNot});
  expect({.name = "5x5", .kernel = {5, 5}}, {kOk, kOk, kOk, kNot, kOk, kOk, kNot, kOk},
         {kOk, kOk, kOk, kOk, kNot, kOk}, {kOk, kOk, kOk, kOk, kNot, kOk, kNot});
  expect({.name = "2x3", .kernel = {2, 3}}, {kOk, kOk, kOk, kNot, kOk, kOk, kNot, kNot},
         {kOk, kOk, kOk, kOk, kNot, kNot}, {kOk, kOk, kOk, kOk, kNot, kNot, kNot});
  expect({.name = "stride 2", .stride = {2, 2}}, {kOk, kOk, kOk, kNot, kNot, kOk, kNot, kNot},
         {kOk, kOk, kNot, kOk, kNot, kNot}, filter);
  expect({.name = "stride 3", .stride = {1, 3}}, products, data, filter);
  expect({.name = "dilation", .dilation = {2, 1}}, {kOk, kOk, kNot, kNot, kNot, kNot, kNot, kNot}, data,
         {kOk, kOk, kNot, kNot, kNot, kNot, kNot});
  expect({.name = "much padding", .pad = {3, 0}, .stride = {3, 3}}, products, data, filter);
  expect({.name = "padding", .pad = {3, 3}}, {kOk, kOk, kOk, kNot, kNot, kNot, kOk, kOk},
         {kOk, kOk, kNot, kNot, kOk, kOk}, {kOk, kOk, kNot, kOk, kNot, kOk, kNot});
  expect({.name = "wide", .in = {3, 257}}, {kOk, kOk, kOk, kNot, kNot, kOk, kOk, kOk},
         {kOk, kOk, kNot, kOk, kOk, kOk}, {kOk, kOk, kNot, kOk, kNot, kOk, kNot});
  expect({.name = "33x33", .in = {40, 40}, .kernel = {33, 33}}, {kOk, kOk, kOk, kNot, kOk, kNot, kNot, kNot},
         {kOk, kOk, kOk, kNot, kNot, kNot}, {kOk, kOk, kOk, kOk, kNot, kNot, kNot});
  expect({.name = "row", .in = {1, 12}, .kernel = {1, 5}}, {kOk, kOk, kOk, kNot, kOk, kOk, kNot, kNot},
         {kOk, kOk, kOk, kOk, kNot, kNot}, {kOk, kOk, kOk, kOk, kNot, kNot, kOk});
  expect({.name = "row, double", .in = {1, 12}, .kernel = {1, 5}, .type = CUDNN_DATA_DOUBLE},
         {kOk, kOk, kOk, kNot, kNot, kOk, kNot, kNot}, {kOk, kOk, kNot, kOk, kNot, kNot},
         {kOk, kOk, kNot, kOk, kNot, kNot, kOk});
  expect({.name = "double", .type = CUDNN_DATA_DOUBLE}, products, data, filter);
  expect({.name = "channels last", .channels_last = true}, {kNot, kOk, kNot, kNot, kNot, kNot, kNot, kNot},
         data, {kOk, kOk, kNot, kNot, kNot, kNot, kNot});
  expect({.name = "channels last, double", .channels_last = true, .type = CUDNN_DATA_DOUBLE}, none8, none6,
         none7);
  expect({.name = "channels last, tensors are not",
          .channels_last = true,
          .x_strides = packed_strides({2, 3, 6, 5}, false)},
         none8, none6, none7);
  expect({.name = "gradient with gaps", .y_strides = {100, 20, 3, 1}},
         {kOk, kOk, kOk, kNot, kOk, kOk, kOk, kOk}, none6, none7);
  Case volume{.name = "volume",
              .in = {4, 4, 4},
              .kernel = {3, 3, 3},
              .pad = {0, 0, 0},
              .stride = {1, 1, 1},
              .dilation = {1, 1, 1}};
  const Statuses volume_forward{kOk, kOk, kNot, kNot, kNot, kOk, kNot, kNot};
  expect(volume, volume_forward, {kOk, kOk, kNot, kOk, kNot, kNot}, filter);
  volume.type = CUDNN_DATA_DOUBLE;
  expect(volume, volume_forward, {kOk, kNot, kNot, kOk, kNot, kNot}, filter);
  volume.type = CUDNN_DATA_BFLOAT16;
  const Statuses implicit{kOk, kOk, kNot, kNot, kNot, kNot, kNot, kNot};
  expect(volume, implicit, data, filter);
  volume.channels_last = true;
  expect(volume, none8, none6, none7);
  const auto bf16 = CUDNN_DATA_BFLOAT16;
  expect({.name = "bf16", .type = bf16}, implicit, data, filter);
  expect({.name = "bf16, row", .in = {1, 12}, .kernel = {1, 5}, .type = bf16}, implicit, data, filter);
  expect({.name = "bf16, grouped", .in_channels = 6, .groups = 2, .type = bf16}, implicit, data, filter);
  expect({.name = "bf16, dilation", .dilation = {2, 1}, .type = bf16}, implicit, data,
         {kOk, kOk, kNot, kNot, kNot, kNot, kNot});
  expect({.name = "bf16, channels last", .channels_last = true, .type = bf16},
         {kNot, kOk, kNot, kNot, kNot, kNot, kNot, kNot}, data, {kOk, kOk, kNot, kNot, kNot, kNot, kNot});
  expect({.name = "bf16, gradient with gaps", .type = bf16, .y_strides = {100, 20, 3, 1}}, implicit, none6,
         none7);
  volume.type = CUDNN_DATA_FLOAT;
  expect(volume, none8, none6, none7);
  volume.channels_last = false;
  volume.in = {5, 4, 4};
  volume.dilation = {2, 1, 1};
  expect(volume, {kOk, kOk, kNot, kNot, kNot, kNot, kNot, kNot}, {kOk, kNot, kNot, kNot, kNot, kNot},
         {kOk, kNot, kNot, kNot, kNot, kNot, kNot});
}

TEST_F(Dnn, GpusBefore80HaveNeitherBf16NorTf32) {
  const auto status = [&] {
    const Descriptors d(Case{.type = CUDNN_DATA_BFLOAT16});
    std::size_t bytes = 0;
    return workspace(Direction::forward, d, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, &bytes);
  };
  // 1 x 1 = 1 x 1 (1 x 1), in the default math type.
  const Case c{.batch = 1, .in_channels = 1, .out_channels = 1, .in = {1, 1}, .kernel = {1, 1}};
  const Descriptors d(c);
  ASSERT_EQ(cudnnSetConvolutionMathType(d.convolution, CUDNN_DEFAULT_MATH), CUDNN_STATUS_SUCCESS);
  const float third = 1.0f / 3, one = 1, zero = 0;
  const OnDevice x({third}, c.type), w({third}, c.type), y(4);
  const auto product = [&] {
    EXPECT_EQ(convolve_there(Direction::forward, d, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, &one, &zero,
                             x.get(), w.get(), y.get(), nullptr, 0),
              CUDNN_STATUS_SUCCESS);
    return y.values(1, c.type)[0];
  };
  const auto tensor_cores = [&] {
    cudnnConvolutionFwdAlgoPerf_t results[16];
    int found = 0;
    EXPECT_EQ(
        cudnnGetConvolutionForwardAlgorithm_v7(handle_, d.x, d.w, d.convolution, d.y, 16, &found, results),
        CUDNN_STATUS_SUCCESS);
    return std::count_if(results, results + found,
                         [](const auto& each) { return each.mathType == CUDNN_TENSOR_OP_MATH; });
  };
  configure("on_violation=report,notes=0,capability=80");
  EXPECT_EQ(status(), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(product(), as_tf32(third) * as_tf32(third));
  EXPECT_EQ(tensor_cores(), 1);
  configure("on_violation=report,notes=0,capability=75");
  EXPECT_EQ(status(), CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH);
  EXPECT_EQ(product(), third * third);
  EXPECT_EQ(tensor_cores(), 0);
}

TEST_F(Dnn, SettingsTakeAlgorithmsAway) {
  Case c;
  c.channels_last = true;
  configure("on_violation=report,notes=0,cudnn=contiguous");
  EXPECT_EQ(support(Direction::forward, c), std::vector<int>(8, kNot));
  c.channels_last = false;
  EXPECT_EQ(support(Direction::forward, c)[0], kOk);
  configure("on_violation=report,notes=0,cudnn=none");
  EXPECT_EQ(support(Direction::forward, c), std::vector<int>(8, kNot));
  for (const std::string mode : {"refuse", "last"}) {
    configure("on_violation=report,notes=0,cudnn=" + mode);
    EXPECT_EQ(support(Direction::forward, c)[0], kOk);
    for (const Direction direction : kDirections) {
      const Descriptors d(c);
      const int last = direction == Direction::forward ? CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM : 1;
      for (const int algorithm : {0, 1}) {
        const auto ones = [](std::size_t count) { return std::vector<double>(count, 1.0); };
        const OnDevice x(ones(180), CUDNN_DATA_FLOAT), w(ones(108), CUDNN_DATA_FLOAT),
            y(ones(96), CUDNN_DATA_FLOAT), work(std::size_t{1} << 16);
        const float one = 1, zero = 0;
        EXPECT_EQ(CUDNN_STATUS_CATEGORY(convolve_there(direction, d, algorithm, &one, &zero, x.get(), w.get(),
                                                       y.get(), work.get(), 1 << 16)),
                  mode == "last" && algorithm == last ? kOk : kNot);
      }
    }
  }
}

TEST_F(Dnn, HeuristicsRankWhatCanBeUsedFirst) {
  const Descriptors d(Case{});
  cudnnConvolutionFwdAlgoPerf_t results[16];
  int found = 0;
  ASSERT_EQ(
      cudnnGetConvolutionForwardAlgorithm_v7(handle_, d.x, d.w, d.convolution, d.y, 16, &found, results),
      CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(found, 10) << "eight algorithms, two of them twice";
  bool usable = true;
  int tensor_cores = 0;
  for (int i = 0; i < found; ++i) {
    EXPECT_TRUE(usable || results[i].status != CUDNN_STATUS_SUCCESS) << "those that can be used come first";
    usable = results[i].status == CUDNN_STATUS_SUCCESS;
    EXPECT_EQ(results[i].determinism, CUDNN_DETERMINISTIC);
    tensor_cores += results[i].mathType == CUDNN_TENSOR_OP_MATH ? 1 : 0;
    std::size_t bytes = 0;
    EXPECT_EQ(cudnnGetConvolutionForwardWorkspaceSize(handle_, d.x, d.w, d.convolution, d.y, results[i].algo,
                                                      &bytes),
              results[i].status);
    EXPECT_EQ(results[i].memory, bytes);
  }
  EXPECT_FALSE(usable);
  EXPECT_EQ(tensor_cores, 2);
  ASSERT_EQ(cudnnGetConvolutionForwardAlgorithm_v7(handle_, d.x, d.w, d.convolution, d.y, 3, &found, results),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(found, 3);
  EXPECT_EQ(cudnnGetConvolutionForwardAlgorithm_v7(handle_, d.x, d.w, d.convolution, d.y, 0, &found, results),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(
      cudnnGetConvolutionForwardAlgorithm_v7(handle_, d.x, d.w, d.convolution, d.y, 3, nullptr, results),
      CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnGetConvolutionForwardAlgorithm_v7(handle_, d.x, d.w, d.convolution, d.y, 3, &found, nullptr),
            CUDNN_STATUS_BAD_PARAM);
  cudnnConvolutionBwdDataAlgoPerf_t data[16];
  ASSERT_EQ(
      cudnnGetConvolutionBackwardDataAlgorithm_v7(handle_, d.w, d.y, d.convolution, d.x, 16, &found, data),
      CUDNN_STATUS_SUCCESS);
  for (int i = 0; i < found; ++i)
    EXPECT_EQ(data[i].determinism == CUDNN_DETERMINISTIC, data[i].algo != CUDNN_CONVOLUTION_BWD_DATA_ALGO_0);
  cudnnConvolutionBwdFilterAlgoPerf_t filter[16];
  ASSERT_EQ(cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle_, d.x, d.y, d.convolution, d.w, 16, &found,
                                                          filter),
            CUDNN_STATUS_SUCCESS);
  for (int i = 0; i < found; ++i)
    EXPECT_EQ(filter[i].determinism == CUDNN_DETERMINISTIC,
              filter[i].algo != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 &&
                  filter[i].algo != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3);
}

TEST_F(Dnn, HeuristicsOfferTensorCoresForBf16) {
  for (const bool channels_last : {false, true})
    for (const cudnnMathType_t math : {CUDNN_DEFAULT_MATH, CUDNN_TENSOR_OP_MATH, CUDNN_FMA_MATH}) {
      const Descriptors d(Case{.channels_last = channels_last, .type = CUDNN_DATA_BFLOAT16});
      ASSERT_EQ(cudnnSetConvolutionMathType(d.convolution, math), CUDNN_STATUS_SUCCESS);
      // Those that can be used: the algorithm, whether with tensor cores, whether deterministic.
      using Found = std::vector<std::tuple<int, bool, bool>>;
      const auto usable = [](const auto* results, int count) {
        Found found;
        for (int i = 0; i < count; ++i)
          if (results[i].status == CUDNN_STATUS_SUCCESS)
            found.emplace_back(results[i].algo, results[i].mathType == CUDNN_TENSOR_OP_MATH,
                               results[i].determinism == CUDNN_DETERMINISTIC);
        return found;
      };
      Found forward{{1, true, true}, {1, false, true}, {0, false, true}},
          data{{1, true, true}, {1, false, true}, {0, false, false}},
          filter{{1, true, true}, {1, false, true}, {3, false, false}, {0, false, false}};
      if (channels_last) {
        forward.pop_back();
        filter.erase(filter.begin() + 2);
      }
      if (math == CUDNN_FMA_MATH)
        for (Found* each : {&forward, &data, &filter}) each->erase(each->begin());
      int count = 0;
      cudnnConvolutionFwdAlgoPerf_t of_forward[16];
      ASSERT_EQ(cudnnGetConvolutionForwardAlgorithm_v7(handle_, d.x, d.w, d.convolution, d.y, 16, &count,
                                                       of_forward),
                CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(usable(of_forward, count), forward);
      cudnnConvolutionBwdDataAlgoPerf_t of_data[16];
      ASSERT_EQ(cudnnGetConvolutionBackwardDataAlgorithm_v7(handle_, d.w, d.y, d.convolution, d.x, 16, &count,
                                                            of_data),
                CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(usable(of_data, count), data);
      cudnnConvolutionBwdFilterAlgoPerf_t of_filter[16];
      ASSERT_EQ(cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle_, d.x, d.y, d.convolution, d.w, 16,
                                                              &count, of_filter),
                CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(usable(of_filter, count), filter);
    }
}

TEST_F(Dnn, TensorDescriptorsAreChecked) {
  cudnnTensorDescriptor_t tensor = nullptr;
  ASSERT_EQ(cudnnCreateTensorDescriptor(&tensor), CUDNN_STATUS_SUCCESS);
  const auto set = [&](const Lengths& dims, const Lengths& strides, int type = CUDNN_DATA_FLOAT) {
    return static_cast<int>(cudnnSetTensorNdDescriptor(tensor, static_cast<cudnnDataType_t>(type),
                                                       static_cast<int>(dims.size()), dims.data(),
                                                       strides.data()));
  };
  EXPECT_EQ(set({2, 3, 4, 5}, {60, 20, 5, 1}), kOk);
  EXPECT_EQ(set(Lengths(8, 1), Lengths(8, 1)), kOk);
  EXPECT_EQ(set({2}, {1}), kBad);
  EXPECT_EQ(set({2, 3, 4}, {12, 4, 1}), kNot);
  EXPECT_EQ(set(Lengths(9, 1), Lengths(9, 1)), kNot);
  EXPECT_EQ(set({2, 0, 4, 5}, {60, 20, 5, 1}), kBad);
  EXPECT_EQ(set({2, -1, 4, 5}, {60, 20, 5, 1}), kBad);
  EXPECT_EQ(set({2, 3, 4, 5}, {60, 20, 5, 0}), kBad);
  EXPECT_EQ(set({2, 3, 4, 1}, {12, 4, 1, 0}), kOk);
  EXPECT_EQ(set({2, 3, 4, 5}, {60, 20, 5, 1}, 99), kBad);
  EXPECT_EQ(set({1, 2047, 1024, 1024}, {2047 << 20, 1 << 20, 1 << 10, 1}), kOk);
  EXPECT_EQ(set({2, 1024, 1024, 1024}, {1 << 30, 1 << 20, 1 << 10, 1}), kNot) << "2^31 elements";
  EXPECT_EQ(set({4, 2, 2, 2}, {1 << 30, 4, 2, 1}), kNot) << "far apart";
  EXPECT_EQ(cudnnCreateTensorDescriptor(nullptr), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(new_violations(), 0u);
  const int ones[] = {1, 1, 1, 1};
  EXPECT_NE(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 4, nullptr, ones), CUDNN_STATUS_SUCCESS);
  EXPECT_NE(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 4, ones, nullptr), CUDNN_STATUS_SUCCESS);
  EXPECT_NE(cudnnSetTensorNdDescriptor(nullptr, CUDNN_DATA_FLOAT, 4, ones, ones), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(new_violations(), 3u);
  ASSERT_EQ(cudnnDestroyTensorDescriptor(tensor), CUDNN_STATUS_SUCCESS);
  EXPECT_NE(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 4, ones, ones), CUDNN_STATUS_SUCCESS);
  EXPECT_NE(cudnnDestroyTensorDescriptor(tensor), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(new_violations(), 2u) << "destroyed";
  EXPECT_EQ(cudnnDestroyTensorDescriptor(nullptr), CUDNN_STATUS_SUCCESS);
}

TEST_F(Dnn, FilterDescriptorsAreChecked) {
  cudnnFilterDescriptor_t filter = nullptr;
  ASSERT_EQ(cudnnCreateFilterDescriptor(&filter), CUDNN_STATUS_SUCCESS);
  const auto set = [&](const Lengths& dims, int format = CUDNN_TENSOR_NCHW, int type = CUDNN_DATA_FLOAT) {
    return static_cast<int>(cudnnSetFilterNdDescriptor(filter, static_cast<cudnnDataType_t>(type),
                                                       static_cast<cudnnTensorFormat_t>(format),
                                                       static_cast<int>(dims.size()), dims.data()));
  };
  EXPECT_EQ(set({2, 3, 3}), kOk);
  EXPECT_EQ(set({2, 3, 3, 3}), kOk);
  EXPECT_EQ(set({2, 3, 3, 3, 3}, CUDNN_TENSOR_NHWC), kOk);
  EXPECT_EQ(set({2, 3}), kBad);
  EXPECT_EQ(set(Lengths(9, 1)), kNot);
  EXPECT_EQ(set({2, 0, 3, 3}), kBad);
  EXPECT_EQ(set({2, 4, 3, 3}, CUDNN_TENSOR_NCHW_VECT_C), kBad);
  EXPECT_EQ(set({2, 3, 3, 3}, 9), kBad);
  EXPECT_EQ(set({2, 3, 3, 3}, CUDNN_TENSOR_NCHW, 99), kBad);
  EXPECT_EQ(new_violations(), 0u);
  EXPECT_NE(cudnnSetFilterNdDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, nullptr),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(new_violations(), 1u);
  ASSERT_EQ(cudnnDestroyFilterDescriptor(filter), CUDNN_STATUS_SUCCESS);
}

TEST_F(Dnn, ConvolutionDescriptorsAreChecked) {
  cudnnConvolutionDescriptor_t convolution = nullptr;
  ASSERT_EQ(cudnnCreateConvolutionDescriptor(&convolution), CUDNN_STATUS_SUCCESS);
  const auto set = [&](const Lengths& pad, const Lengths& stride, const Lengths& dilation,
                       int type = CUDNN_DATA_FLOAT, int mode = CUDNN_CROSS_CORRELATION) {
    return static_cast<int>(cudnnSetConvolutionNdDescriptor(
        convolution, static_cast<int>(pad.size()), pad.data(), stride.data(), dilation.data(),
        static_cast<cudnnConvolutionMode_t>(mode), static_cast<cudnnDataType_t>(type)));
  };
  EXPECT_EQ(set({0, 0}, {1, 1}, {1, 1}), kOk);
  EXPECT_EQ(set({0, 0}, {1, 1}, {1, 1}, CUDNN_DATA_DOUBLE, CUDNN_CONVOLUTION), kOk);
  EXPECT_EQ(set({-1, 0}, {1, 1}, {1, 1}), kBad);
  EXPECT_EQ(set({0, 0}, {1, 0}, {1, 1}), kBad);
  EXPECT_EQ(set({0, 0}, {1, 1}, {0, 1}), kBad);
  EXPECT_EQ(set({0, 0}, {1, 1}, {1, 1}, CUDNN_DATA_BFLOAT16), kBad);
  EXPECT_EQ(set({0, 0}, {1, 1}, {1, 1}, CUDNN_DATA_FLOAT, 9), kBad);
  EXPECT_EQ(set(Lengths(7, 0), Lengths(7, 1), Lengths(7, 1)), kNot);
  EXPECT_EQ(cudnnSetConvolutionGroupCount(convolution, 0), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnSetConvolutionMathType(convolution, static_cast<cudnnMathType_t>(9)),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(new_violations(), 0u);
  EXPECT_NE(cudnnSetConvolutionNdDescriptor(convolution, 2, nullptr, nullptr, nullptr,
                                            CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
            CUDNN_STATUS_SUCCESS);
  EXPECT_NE(cudnnSetConvolutionGroupCount(nullptr, 1), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(new_violations(), 2u);
  ASSERT_EQ(cudnnDestroyConvolutionDescriptor(convolution), CUDNN_STATUS_SUCCESS);
}

TEST_F(Dnn, DescriptorsThatDoNotFitAreRefused) {
  const auto status_with = [&](const std::function<void(Descriptors&)>& change) {
    Descriptors d{Case{}};
    change(d);
    std::size_t bytes = 0;
    return static_cast<int>(
        workspace(Direction::forward, d, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, &bytes));
  };
  const auto tensor = [](cudnnTensorDescriptor_t of, const Lengths& dims,
                         cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    const Lengths strides = packed_strides(dims, false);
    EXPECT_EQ(
        cudnnSetTensorNdDescriptor(of, type, static_cast<int>(dims.size()), dims.data(), strides.data()),
        CUDNN_STATUS_SUCCESS);
  };
  EXPECT_EQ(status_with([](Descriptors&) {}), kOk);
  EXPECT_EQ(status_with([&](Descriptors& d) { tensor(d.y, {3, 4, 4, 3}); }), kBad) << "batch";
  EXPECT_EQ(status_with([&](Descriptors& d) { tensor(d.y, {2, 5, 4, 3}); }), kBad) << "output channels";
  EXPECT_EQ(status_with([&](Descriptors& d) { tensor(d.x, {2, 4, 6, 5}); }), kBad) << "input channels";
  EXPECT_EQ(status_with([&](Descriptors& d) {
              tensor(d.x, {2, 3, 6, 5}, CUDNN_DATA_DOUBLE);
            }),
            kBad)
      << "data type";
  EXPECT_EQ(status_with([&](Descriptors& d) {
              tensor(d.y, {2, 4, 4, 3}, CUDNN_DATA_BFLOAT16);
            }),
            kBad)
      << "data type";
  EXPECT_EQ(status_with([&](Descriptors& d) { tensor(d.y, {2, 4, 4, 3, 1}); }), kBad) << "axes";
  EXPECT_EQ(status_with([&](Descriptors& d) {
              tensor(d.x, {2, 3, 2, 5});
            }),
            kBad)
      << "filter longer than the input";
  EXPECT_EQ(status_with([&](Descriptors& d) {
              tensor(d.y, {2, 4, 3, 3});
            }),
            CUDNN_STATUS_NOT_SUPPORTED_SHAPE)
      << "output's length";
  EXPECT_EQ(status_with([&](Descriptors& d) {
              EXPECT_EQ(cudnnSetConvolutionGroupCount(d.convolution, 3), CUDNN_STATUS_SUCCESS);
            }),
            kBad);
  const int zeros[] = {0, 0}, ones[] = {1, 1};
  EXPECT_EQ(status_with([&](Descriptors& d) {
              EXPECT_EQ(cudnnSetConvolutionNdDescriptor(d.convolution, 2, zeros, ones, ones,
                                                        CUDNN_CROSS_CORRELATION, CUDNN_DATA_DOUBLE),
                        CUDNN_STATUS_SUCCESS);
            }),
            CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE)
      << "computed in double";
  const auto status_of = [&](cudnnDataType_t type, cudnnDataType_t compute_type) {
    const Descriptors d{Case{.type = type}};
    EXPECT_EQ(cudnnSetConvolutionNdDescriptor(d.convolution, 2, zeros, ones, ones, CUDNN_CROSS_CORRELATION,
                                              compute_type),
              CUDNN_STATUS_SUCCESS);
    std::size_t size = 0;
    return workspace(Direction::forward, d, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, &size);
  };
  EXPECT_EQ(status_of(CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(status_of(CUDNN_DATA_BFLOAT16, CUDNN_DATA_DOUBLE), CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
  EXPECT_EQ(status_of(CUDNN_DATA_BFLOAT16, CUDNN_DATA_HALF), CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
  EXPECT_EQ(status_of(CUDNN_DATA_DOUBLE, CUDNN_DATA_FLOAT), CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
  EXPECT_EQ(status_of(CUDNN_DATA_HALF, CUDNN_DATA_FLOAT), CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE)
      << "not emulated";
  const int dims[] = {2, 3, 6, 5};
  for (const Lengths& strides : {Lengths{10, 30, 5, 1}, Lengths{90, 30, 5, -1}})
    EXPECT_EQ(status_with([&](Descriptors& d) {
                EXPECT_EQ(cudnnSetTensorNdDescriptor(d.x, CUDNN_DATA_FLOAT, 4, dims, strides.data()),
                          CUDNN_STATUS_SUCCESS);
              }),
              CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
  EXPECT_EQ(status_with([&](Descriptors& d) {
              EXPECT_EQ(cudnnDestroyTensorDescriptor(d.x), CUDNN_STATUS_SUCCESS);
              EXPECT_EQ(cudnnCreateTensorDescriptor(&d.x), CUDNN_STATUS_SUCCESS);
            }),
            kBad)
      << "never set";
  EXPECT_EQ(new_violations(), 0u);
  EXPECT_EQ(status_with([&](Descriptors& d) {
              EXPECT_EQ(cudnnDestroyTensorDescriptor(d.x), CUDNN_STATUS_SUCCESS);
              d.x = nullptr;
            }),
            kBad);
  EXPECT_EQ(new_violations(), 1u);
  const Descriptors d{Case{}};
  std::size_t bytes = 0;
  EXPECT_EQ(workspace(Direction::forward, d, 8, &bytes), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(workspace(Direction::forward, d, 0, nullptr), CUDNN_STATUS_BAD_PARAM);
}

/// A forward convolution of the plain case, correct except for what a test changes.
struct Good {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  Descriptors d{Case{.type = type}};
  OnDevice x_memory{std::vector<double>(200, 1), type}, w_memory{std::vector<double>(108, 1), type},
      y_memory{96 * size_of(type) + 16}, work_memory{std::size_t{1} << 14};
  float one = 1, zero = 0;
  const void *alpha = &one, *beta = &zero;
  char *x = x_memory.get(), *w = w_memory.get(), *y = y_memory.get(), *work = work_memory.get();
  std::size_t bytes = std::size_t{1} << 14;
};

TEST_F(Dnn, CallsThatAreNotAllowedAreViolations) {
  const auto violations_with = [&](const std::function<void(Good&)>& change,
                                   bool is_found_when_called = true) {
    Good good;
    change(good);
    const cudnnStatus_t status =
        convolve_there(Direction::forward, good.d, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                       good.alpha, good.beta, good.x, good.w, good.y, good.work, good.bytes);
    const std::uint64_t found = new_violations();
    EXPECT_EQ(status != CUDNN_STATUS_SUCCESS, found > 0 && is_found_when_called);
    return found;
  };
  alignas(16) static float on_host[200];
  EXPECT_EQ(violations_with([](Good&) {}), 0u);
  EXPECT_EQ(violations_with([](Good& g) { g.x = nullptr; }), 1u);
  EXPECT_EQ(violations_with([](Good& g) { g.x += 4; }), 1u) << "alignment";
  EXPECT_EQ(violations_with([](Good& g) { g.x = reinterpret_cast<char*>(on_host); }, false), 1u);
  EXPECT_EQ(violations_with([](Good& g) { g.x += 16 * 8; }, false), 1u) << "out of bounds";
  EXPECT_EQ(violations_with([](Good& g) { g.y = g.x; }), 1u) << "y overlaps x";
  EXPECT_EQ(violations_with([](Good& g) { g.y = g.w + 16; }), 1u) << "y overlaps w";
  EXPECT_EQ(violations_with([](Good& g) { g.x = g.work + 16; }), 1u) << "x in the workspace";
  EXPECT_EQ(violations_with([](Good& g) { g.bytes = 16; }), 1u) << "workspace too small";
  EXPECT_EQ(violations_with([](Good& g) { g.work += 8, g.bytes -= 8; }), 1u) << "workspace's alignment";
  EXPECT_EQ(
      violations_with([](Good& g) { g.work = reinterpret_cast<char*>(on_host), g.bytes = sizeof(on_host); }),
      1u);
  EXPECT_EQ(violations_with([](Good& g) { g.bytes += 1; }, false), 1u)
      << "workspace shorter than it is said to be";
  EXPECT_EQ(violations_with([](Good& g) { g.alpha = nullptr; }), 1u);
  EXPECT_EQ(violations_with([](Good& g) { g.beta = g.x; }), 1u) << "scales are in the host's memory";
  static const double wide_one = 1;
  EXPECT_EQ(violations_with([](Good& g) { g.alpha = &wide_one; }), 1u) << "scales are of the compute type";
  EXPECT_EQ(violations_with([](Good&) { ASSERT_EQ(cudaSetDevice(1), cudaSuccess); }), 1u);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST_F(Dnn, Bf16OperandsHaveTwoBytesAnElement) {
  const auto violations_with = [&](const std::function<void(Good&)>& change) {
    Good good{CUDNN_DATA_BFLOAT16};
    change(good);
    convolve_there(Direction::forward, good.d, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, good.alpha,
                   good.beta, good.x, good.w, good.y, good.work, good.bytes);
    return new_violations();
  };
  EXPECT_EQ(violations_with([](Good&) {}), 0u);
  EXPECT_EQ(violations_with([](Good& g) { g.x += 32; }), 0u) << "20 elements more than it needs";
  EXPECT_EQ(violations_with([](Good& g) { g.x += 48; }), 1u) << "out of bounds";
  EXPECT_EQ(violations_with([](Good& g) { g.y += 16; }), 0u);
  EXPECT_EQ(violations_with([](Good& g) { g.y += 32; }), 1u) << "out of bounds";
  EXPECT_EQ(violations_with([](Good& g) { g.w += 2; }), 1u) << "alignment";
  EXPECT_EQ(violations_with([](Good& g) { g.y = g.x + 16; }), 1u) << "y overlaps x";
  static const double wide_one = 1;
  EXPECT_EQ(violations_with([](Good& g) { g.alpha = &wide_one; }), 1u) << "scales are floats";
  static const Bf16 narrow_ones[] = {as_bf16(1), as_bf16(1)};
  EXPECT_EQ(violations_with([](Good& g) { g.beta = narrow_ones; }), 1u) << "y was never written";
  EXPECT_EQ(violations_with([](Good& g) { g.x = OnDevice(400).get(); }), 1u) << "freed";
}

TEST_F(Dnn, OperandsHaveToBeWrittenAndStillThere) {
  Good good;
  const OnDevice never(200 * 4);
  void* freed = nullptr;
  ASSERT_EQ(cudaMalloc(&freed, 200 * 4), cudaSuccess);
  ASSERT_EQ(cudaFree(freed), cudaSuccess);
  const auto said_of = [&](char* x, char* w, const void* beta) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(
        convolve_there(Direction::forward, good.d, 1, good.alpha, beta, x, w, good.y, good.work, good.bytes),
        CUDNN_STATUS_SUCCESS)
        << "found when it runs";
    EXPECT_EQ(new_violations(), 1u);
    return testing::internal::GetCapturedStderr();
  };
  const auto expect_part = [](const std::string& said, const std::string& part) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  expect_part(said_of(good.x, good.w, &good.one), ", y: memory that was never written");
  expect_part(said_of(never.get(), good.w, good.beta), ", x: memory that was never written");
  expect_part(said_of(good.x, never.get(), good.beta), ", w: memory that was never written");
  expect_part(said_of(static_cast<char*>(freed), good.w, good.beta), "(800 bytes, freed)");
  expect_part(said_of(good.x, static_cast<char*>(freed), good.beta), "(800 bytes, freed)");
}

TEST_F(Dnn, OperandsThatAnotherStreamWritesAreAViolation) {
  const Good good;
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  const auto convolve = [&] {
    return convolve_there(Direction::forward, good.d, 1, good.alpha, good.beta, good.x, good.w, good.y,
                          good.work, good.bytes);
  };
  // Each pair of names is reported once: the numbers of bytes tell the memsets apart.
  const auto with_order = [&](std::size_t bytes) {
    ASSERT_EQ(cudaMemsetAsync(good.x, 0, bytes, other), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(event, other), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(stream_, event, 0), cudaSuccess);
    ASSERT_EQ(convolve(), CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(other, event, 0), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(good.y, 0, bytes, other), cudaSuccess);
  };
  with_order(8);
  EXPECT_EQ(new_violations(), 0u);
  with_order(12);
  EXPECT_EQ(new_violations(), 0u);
  ASSERT_EQ(cudaMemsetAsync(good.x, 0, 8, other), cudaSuccess);
  ASSERT_EQ(convolve(), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(new_violations(), 1u) << "x is written";
  ASSERT_EQ(convolve(), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudaMemsetAsync(good.y, 0, 12, other), cudaSuccess);
  EXPECT_EQ(new_violations(), 1u) << "y is overwritten";
  ASSERT_EQ(cudaEventDestroy(event), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(other), cudaSuccess);
}

TEST_F(Dnn, WorkspaceIsOverwrittenByEachCall) {
  Good good;
  ASSERT_EQ(cudaMemcpy(good.work, std::vector<float>(4, 1).data(), 16, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(convolve_there(Direction::forward, good.d, 1, good.alpha, good.beta, good.x, good.w, good.y,
                           good.work, good.bytes),
            CUDNN_STATUS_SUCCESS);
  EXPECT_TRUE(std::isnan(good.work_memory.values(1, CUDNN_DATA_FLOAT)[0]));
  EXPECT_EQ(good.y_memory.values(96, CUDNN_DATA_FLOAT), std::vector<double>(96, 27));
}

TEST_F(Dnn, HandlesBelongToTheirGpu) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  cudaStream_t there = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&there, cudaStreamNonBlocking), cudaSuccess);
  EXPECT_EQ(cudnnSetStream(handle_, there), CUDNN_STATUS_MAPPING_ERROR);
  ASSERT_EQ(cudaStreamDestroy(there), cudaSuccess);
  EXPECT_NE(cudnnSetStream(handle_, there), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(new_violations(), 2u);
  cudnnHandle_t gone = nullptr;
  const std::uint64_t alive = Machine::get().handles;
  ASSERT_EQ(cudnnCreate(&gone), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Machine::get().handles, alive + 1);
  ASSERT_EQ(cudnnDestroy(gone), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Machine::get().handles, alive);
  EXPECT_EQ(cudnnSetStream(gone, stream_), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnDestroy(gone), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnSetStream(nullptr, stream_), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(new_violations(), 3u);
  EXPECT_EQ(cudnnDestroy(nullptr), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnCreate(nullptr), CUDNN_STATUS_BAD_PARAM);
}

TEST_F(Dnn, CallsFailBySettings) {
  Good good;
  const auto convolve = [&] {
    return static_cast<int>(convolve_there(Direction::forward, good.d, 1, good.alpha, good.beta, good.x,
                                           good.w, good.y, good.work, good.bytes));
  };
  configure(
      "on_violation=report,notes=0,fail=cudnnConvolutionForward:2+cudnnConvolutionForward:3:5000+"
      "cudnnCreateTensorDescriptor:1+cudnnCreate:1");
  EXPECT_EQ(convolve(), kOk);
  EXPECT_EQ(convolve(), CUDNN_STATUS_INTERNAL_ERROR);
  EXPECT_EQ(convolve(), CUDNN_STATUS_EXECUTION_FAILED);
  EXPECT_EQ(convolve(), kOk);
  cudnnTensorDescriptor_t tensor = nullptr;
  EXPECT_EQ(cudnnCreateTensorDescriptor(&tensor), CUDNN_STATUS_ALLOC_FAILED);
  cudnnHandle_t handle = nullptr;
  EXPECT_EQ(cudnnCreate(&handle), CUDNN_STATUS_ALLOC_FAILED);
  configure("on_violation=report,notes=0,fail=cudnnConvolutionForward:1:sticky");
  EXPECT_EQ(convolve(), CUDNN_STATUS_EXECUTION_FAILED) << "a GPU that has failed for good";
  EXPECT_EQ(convolve(), CUDNN_STATUS_EXECUTION_FAILED);
  configure("on_violation=report,notes=0");
}

TEST_F(Dnn, RefusalsHaveAReason) {
  const Descriptors d(Case{.name = "strided", .stride = {2, 2}});
  std::size_t bytes = 0;
  EXPECT_EQ(
      CUDNN_STATUS_CATEGORY(workspace(Direction::forward, d, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, &bytes)),
      kNot);
  char text[64] = "";
  cudnnGetLastErrorString(text, 4);
  EXPECT_STREQ(text, "str");
  cudnnGetLastErrorString(text, sizeof(text));
  EXPECT_STREQ(text, "") << "reading it empties it";
  EXPECT_STREQ(cudnnGetErrorString(CUDNN_STATUS_NOT_SUPPORTED_SHAPE), "CUDNN_STATUS_NOT_SUPPORTED_SHAPE");
  EXPECT_STREQ(cudnnGetErrorString(static_cast<cudnnStatus_t>(77)), "CUDNN_UNKNOWN_STATUS");
}

TEST_F(Dnn, MathThatRoundsMoreIsNoted) {
  Good good;
  configure("on_violation=report");
  ASSERT_EQ(cudnnSetConvolutionMathType(good.d.convolution, CUDNN_DEFAULT_MATH), CUDNN_STATUS_SUCCESS);
  testing::internal::CaptureStderr();
  EXPECT_EQ(convolve_there(Direction::forward, good.d, 1, good.alpha, good.beta, good.x, good.w, good.y,
                           good.work, good.bytes),
            CUDNN_STATUS_SUCCESS);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("TF32"), std::string::npos);
}

}  // namespace
}  // namespace emulated::dnn
