// Math::bf16 on CPU devices: products are those of factors rounded to bf16, added in f32, and oneDNN's log
// shows that it was given bf16.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <bit>
#include <limits>

#include "banyan/base/error.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/convolution.hpp"
#include "banyan/ops/processor.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

/// What oneDNN reports about the primitives that `body` runs.
template <class Body>
std::string report_of(Body&& body) {
  using SetVerbose = int (*)(int);
  const auto set_verbose = reinterpret_cast<SetVerbose>(::dlsym(RTLD_DEFAULT, "dnnl_set_verbose"));
  if (set_verbose == nullptr) return "oneDNN is not loaded";
  testing::internal::CaptureStdout();
  set_verbose(1);
  try {
    body();
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  set_verbose(0);
  return testing::internal::GetCapturedStdout();
}

class Bf16 : public testing::TestWithParam<Math> {
 protected:
  static std::unique_ptr<Device> device_with(Math math) {
    CpuDeviceOptions options;
    options.math = math;
    return make_cpu_device(0, options);
  }
  /// The result of `run(context)` with the given kind of products.
  template <class Run>
  static auto with(Math math, Run&& run) {
    const auto device = device_with(math);
    device->make_current();
    Context context(*device);
    return run(context);
  }
  static Tensor filled(Context& context, const Shape& shape, unsigned seed,
                       Layout layout = Layout::contiguous) {
    Tensor tensor(context.device(), shape, DType::f32, layout);
    const std::vector<double> values = random_values(shape.count(), seed);
    std::copy(values.begin(), values.end(), tensor.data<float>());
    return tensor;
  }
  static std::vector<double> values_of(const Tensor& tensor) {
    return {tensor.data<float>(), tensor.data<float>() + tensor.count()};
  }
  /// Checks the types that oneDNN's log gives for the primitive.
  static void expect_types(const std::string& report, const std::string& primitive) {
    ASSERT_THAT(report, HasSubstr(primitive));
    if (GetParam() == Math::bf16)
      EXPECT_THAT(report, ContainsRegex(primitive + ".*_bf16::"));
    else
      EXPECT_THAT(report, Not(HasSubstr("bf16")));
  }
  void SetUp() override {
    if (GetParam() == Math::bf16 && ops::instruction_set() != ops::InstructionSet::avx512)
      GTEST_SKIP() << "no AVX-512";
  }
  static bool rounds() { return GetParam() != Math::full; }
};

/// Rounds to the nearest bf16 value, ties to even: bf16 is the upper half of f32.
void round_to_bf16(Tensor& tensor) {
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    auto bits = std::bit_cast<std::uint32_t>(tensor.data<float>()[i]);
    bits += 0x7fff + (bits >> 16 & 1);
    tensor.data<float>()[i] = std::bit_cast<float>(bits & 0xffff0000u);
  }
}

TEST_P(Bf16, Products) {
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const double beta : {0.0, 0.5}) {
        const ops::GemmShape shape{transpose_a, transpose_b, 17, 33, 64};
        std::string report;
        const auto run = [&](Context& context, bool round) {
          Tensor a = filled(context, {17 * 64}, 1), b = filled(context, {64 * 33}, 2);
          if (round) round_to_bf16(a), round_to_bf16(b);
          Tensor c = filled(context, {17 * 33}, 3);
          report = report_of([&] { ops::gemm(context, shape, 1.5, a, b, beta, c); });
          return values_of(c);
        };
        const auto expected = with(Math::full, [&](Context& context) { return run(context, rounds()); });
        const auto found = with(GetParam(), [&](Context& context) { return run(context, false); });
        if (GetParam() == Math::bf16) expect_types(report, "matmul");
        // Products of bf16 values are exact in f32; 64 of them are added in another order.
        expect_near(found, expected, rounds() ? 65 * std::numeric_limits<float>::epsilon() : 0);
      }
}

TEST_P(Bf16, ConvolutionsInAllPasses) {
  ops::ConvolutionGeometry geometry;
  geometry.kernel = geometry.dilation = geometry.stride = {1, 1};
  geometry.kernel = {3, 3};
  geometry.pad = {1, 1};
  geometry.in_channels = geometry.out_channels = 32;  // with images of 5 x 5: no kernels of our own
  for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
    std::vector<std::string> reports;
    const auto run = [&](Context& context, bool round) {
      const auto convolution = ops::make_convolution(context, geometry, DType::f32);
      Tensor weight = filled(context, {32, 32, 3, 3}, 1), input = filled(context, {4, 32, 5, 5}, 3, layout);
      Tensor grad_output = filled(context, {4, 32, 5, 5}, 7, layout);
      if (round) round_to_bf16(weight), round_to_bf16(input), round_to_bf16(grad_output);
      const Tensor bias = filled(context, {32}, 2);
      Tensor output(context.device(), {4, 32, 5, 5}, DType::f32, layout);
      Tensor grad_input = filled(context, {4, 32, 5, 5}, 4, layout);
      Tensor grad_weight = filled(context, {32, 32, 3, 3}, 5), grad_bias = filled(context, {32}, 6);
      reports = {report_of([&] { convolution->forward(context, input, weight, bias, output); }),
                 report_of([&] { convolution->backward_data(context, grad_output, weight, grad_input); }),
                 report_of([&] {
                   convolution->backward_weight(context, input, grad_output, grad_weight, grad_bias);
                 })};
      return std::vector{values_of(output), values_of(grad_input), values_of(grad_weight),
                         values_of(grad_bias)};
    };
    const auto expected = with(Math::full, [&](Context& context) { return run(context, rounds()); });
    const auto found = with(GetParam(), [&](Context& context) { return run(context, false); });
    const char* const passes[] = {"forward_training", "backward_data", "backward_weights"};
    for (int pass = 0; pass < 3; ++pass) expect_types(reports[pass], passes[pass]);
    // As above: up to 288 products, and weight and bias gradients summed over 100 pixels.
    for (std::size_t i = 0; i < found.size(); ++i)
      expect_near(found[i], expected[i], rounds() ? 289 * std::numeric_limits<float>::epsilon() : 0);
  }
}

/// Zeros, infinities, NaN, ties, and values that round up to infinity.
TEST_P(Bf16, RoundsEveryValue) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const auto value = [](std::uint32_t bits) { return std::bit_cast<float>(bits); };
  const std::vector<std::pair<float, float>> cases{{0.0f, 0.0f},
                                                   {-0.0f, 0.0f},
                                                   {1.0f + 0x1p-9f, 1.0f},
                                                   {1.0f + 0x1p-8f, 1.0f},
                                                   {1.0f + 3 * 0x1p-8f, 1.0f + 0x1p-6f},
                                                   {-1.0f - 0x1.8p-8f, -1.0f - 0x1p-7f},
                                                   {inf, inf},
                                                   {-inf, -inf},
                                                   {nan, nan},
                                                   {value(0x7fffffff), nan},
                                                   {value(0xffffffff), nan},
                                                   {value(0x7f800001), nan},
                                                   {value(0x7f7fffff), inf}};
  for (const auto& [factor, rounded] : cases) {
    const auto run = [f = factor](Context& context) {
      Tensor a = filled(context, {1}, 1), b = filled(context, {1}, 2), c = filled(context, {1}, 3);
      a.data<float>()[0] = f;
      b.data<float>()[0] = 1;
      ops::gemm(context, {false, false, 1, 1, 1}, 1, a, b, 0, c);
      return values_of(c);
    };
    const double expected = rounds() ? rounded : factor, found = with(GetParam(), run)[0];
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(found)) << found << " for " << factor;
    else
      EXPECT_EQ(found, expected) << "for " << factor;
  }
}

std::string name_of_math(const testing::TestParamInfo<Math>& test) {
  constexpr const char* kNames[] = {"full", "bf16", "bf16_in_f32"};
  return kNames[static_cast<std::size_t>(test.param)];
}

INSTANTIATE_TEST_SUITE_P(All, Bf16, testing::Values(Math::full, Math::bf16, Math::bf16_in_f32), name_of_math);

}  // namespace
}  // namespace banyan
