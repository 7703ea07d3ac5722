// Reductions, products and convolutions are bit-identical in every run and in every context.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "banyan/device/context.hpp"
#include "banyan/device/cuda_devices.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/convolution.hpp"
#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/normalization.hpp"
#include "train/run_devices.hpp"

namespace banyan {
namespace {

class CudaRepeatable : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  }

  static std::vector<float> random_values(std::int64_t count, unsigned seed) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> draw(-1, 1);
    std::vector<float> values(count);
    for (float& value : values) value = draw(engine);
    return values;
  }
  static Tensor random_tensor(Context& context, const Shape& shape, Layout layout, unsigned seed) {
    Tensor tensor(context.device(), shape, DType::f32, layout);
    copy_from_host(context, random_values(shape.count(), seed).data(), tensor);
    return tensor;
  }
  template <class T>
  static void append(Context& context, const Tensor& tensor, std::vector<double>& to) {
    std::vector<T> host(tensor.count());
    copy_to_host(context, tensor, host.data());
    to.insert(to.end(), host.begin(), host.end());
  }

  /// `body(context, results)` on two replicas, twice each.
  template <class Body>
  static void expect_same_bits(const Body& body) {
    std::vector<std::vector<double>> results;
    for (int replica = 0; replica < 2; ++replica) {
      const auto device = make_cuda_device(0, replica);
      Context context(*device);
      for (int run = 0; run < 2; ++run) body(context, results.emplace_back());
    }
    ASSERT_FALSE(results[0].empty());
    for (std::size_t i = 1; i < results.size(); ++i) EXPECT_EQ(results[i], results[0]) << "run " << i;
  }
};

TEST_F(CudaRepeatable, Reductions) {
  expect_same_bits([](Context& context, std::vector<double>& results) {
    for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
      const Tensor x = random_tensor(context, {16, 70, 57, 59}, layout, 1);
      Tensor total(context.device(), {1}, DType::f64), moments(context.device(), {141}, DType::f64);
      ops::sum(context, x, total);
      ops::batch_moments(context, x, moments);
      append<double>(context, total, results);
      append<double>(context, moments, results);
    }
  });
}

TEST_F(CudaRepeatable, Products) {
  expect_same_bits([](Context& context, std::vector<double>& results) {
    const Tensor a = random_tensor(context, {37, 4096}, Layout::contiguous, 1);
    const Tensor b = random_tensor(context, {4096, 513}, Layout::contiguous, 2);
    Tensor c(context.device(), {37, 513}, DType::f32);
    ops::gemm(context, {false, false, 37, 513, 4096}, 1, a, b, 0, c);
    append<float>(context, c, results);
  });
}

TEST_F(CudaRepeatable, Convolutions) {
  expect_same_bits([](Context& context, std::vector<double>& results) {
    for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
      const ops::ConvolutionGeometry geometry{{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 32, 48};
      const auto convolution = ops::make_convolution(context, geometry, DType::f32);
      const Tensor x = random_tensor(context, {8, 32, 28, 28}, layout, 1);
      const Tensor weight = random_tensor(context, {48, 32, 3, 3}, Layout::contiguous, 2);
      const Tensor bias = random_tensor(context, {48}, Layout::contiguous, 3);
      const Tensor dy = random_tensor(context, {8, 48, 28, 28}, layout, 4);
      Tensor y(context.device(), {8, 48, 28, 28}, DType::f32, layout);
      Tensor dx(context.device(), {8, 32, 28, 28}, DType::f32, layout);
      Tensor dweight = random_tensor(context, {48, 32, 3, 3}, Layout::contiguous, 5);
      Tensor dbias = random_tensor(context, {48}, Layout::contiguous, 6);
      convolution->forward(context, x, weight, bias, y);
      convolution->backward_data(context, dy, weight, dx);
      convolution->backward_weight(context, x, dy, dweight, dbias);
      for (const Tensor& tensor : {y, dx, dweight, dbias}) append<float>(context, tensor, results);
    }
  });
}

}  // namespace
}  // namespace banyan
