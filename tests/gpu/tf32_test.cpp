// Math::tf32: products and convolutions of factors rounded to TF32, and nothing else.
#include <cmath>
#include <random>

#include "banyan/device/context.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/convolution.hpp"
#include "banyan/ops/elementwise.hpp"
#include "gpu/gpu_training.hpp"
#include "train/promise_cases.hpp"

namespace banyan {
namespace {

class Tf32 : public GpuTraining {
 protected:
  static std::vector<double> random_values(std::int64_t count, unsigned seed) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> draw(-1, 1);  // so that f64 and f32 start with the same numbers
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& value : values) value = draw(engine);
    return values;
  }

  template <class T>
  static Tensor random_tensor(Context& context, const Shape& shape, Layout layout, unsigned seed) {
    Tensor tensor(context.device(), shape, DTypeOf<T>::value, layout);
    const std::vector<double> values = random_values(shape.count(), seed);
    copy_from_host(context, std::vector<T>(values.begin(), values.end()).data(), tensor);
    return tensor;
  }

  template <class T>
  static std::vector<double> host(Context& context, const Tensor& tensor) {
    std::vector<T> values(static_cast<std::size_t>(tensor.count()));
    copy_to_host(context, tensor, values.data());
    return {values.begin(), values.end()};
  }

  template <class T>
  static std::vector<std::vector<double>> product(Device& device) {
    Context context(device);
    const Tensor a = random_tensor<T>(context, {128, 512}, Layout::contiguous, 1),
                 b = random_tensor<T>(context, {512, 256}, Layout::contiguous, 2);
    Tensor c(device, {128, 256}, DTypeOf<T>::value);
    ops::gemm(context, {false, false, 128, 256, 512}, 1, a, b, 0, c);
    return {host<T>(context, c)};
  }

  template <class T>
  static std::vector<std::vector<double>> convolution(Device& device, Layout layout) {
    Context context(device);
    const auto convolution =
        ops::make_convolution(context, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 64, 64}, DTypeOf<T>::value);
    const Shape image{8, 64, 14, 14}, kernel{64, 64, 3, 3};
    const Tensor x = random_tensor<T>(context, image, layout, 1),
                 w = random_tensor<T>(context, kernel, Layout::contiguous, 2),
                 dy = random_tensor<T>(context, image, layout, 3);
    Tensor y(device, image, DTypeOf<T>::value, layout), dx(device, image, DTypeOf<T>::value, layout),
        dw(device, kernel, DTypeOf<T>::value), no_bias;
    convolution->forward(context, x, w, no_bias, y);
    convolution->backward_data(context, dy, w, dx);
    convolution->first_backward_weight(context, x, dy, dw, no_bias);
    return {host<T>(context, y), host<T>(context, dx), host<T>(context, dw)};
  }

  /// A factor is off by at most 2^-11 of itself, or 2^-10 where it is cut off; such errors of a sum's terms
  /// cancel out for the most part. In f32 products differ from f64 by some 1e-7.
  static void expect_brief(const std::vector<std::vector<double>>& found,
                           const std::vector<std::vector<double>>& exact, bool brief) {
    ASSERT_EQ(found.size(), exact.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double distance = relative_distance(exact[i], found[i]);
      EXPECT_LT(distance, brief ? 1e-3 : 3e-6) << i;
      if (brief) {
        EXPECT_GT(distance, 2e-5) << i << ": computed in full";
      }
    }
  }
};

TEST_F(Tf32, ProductsRoundTheirFactors) {
  const auto cpu = make_cpu_device(0), full = make_cuda_device(0, 0),
             brief = make_cuda_device(0, 1, Math::tf32);
  const auto exact = product<double>(*cpu);
  expect_brief(product<float>(*full), exact, false);
  expect_brief(product<float>(*brief), exact, true);
  // f64 has no such kernels.
  EXPECT_LT(relative_distance(exact[0], product<double>(*brief)[0]), 1e-14);
}

TEST_F(Tf32, ConvolutionsRoundTheirFactors) {
  const auto cpu = make_cpu_device(0), full = make_cuda_device(0, 0),
             brief = make_cuda_device(0, 1, Math::tf32);
  for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
    SCOPED_TRACE(layout == Layout::contiguous ? "contiguous" : "channels-last");
    const auto same = convolution<double>(*cpu, layout);  // in the layout's order
    expect_brief(convolution<float>(*full, layout), same, false);
    expect_brief(convolution<float>(*brief, layout), same, true);
  }
}

/// 1e-2: gradients pass several layers whose factors are off by up to 1e-3 of themselves.
TEST_F(Tf32, TrainingIsThatInF32ButForRounding) {
  StepInF32 step = first_step_in_f32({kSolver, data_layer() + kBody + classifier()});
  step.what.precision = RunPrecision::tf32;
  for (const int number : {1, 2, 4}) expect_the_same_step(step, gpu_devices(number), 1e-2);
}

TEST_F(Tf32, RepeatsAndResumesBitForBit) {
  TrainingCase what{std::string(kSolver) + "snapshot: 7", data_layer() + kBody + classifier()};
  what.precision = RunPrecision::tf32;
  expect_the_same_bits_when_repeated_and_resumed(what);
}

}  // namespace
}  // namespace banyan
