// Math::bf16 on CPU devices: the wish reaches every primitive (oneDNN's own log says so), and results are
// those of f32 up to the rounding of the factors. On a processor without the units oneDNN computes in f32, so
// that the second half is checked in earnest only where there are some; `trainer` refuses to go on without
// them.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include "banyan/base/error.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/convolution.hpp"
#include "banyan/ops/processor.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

using testing::HasSubstr;
using testing::Not;

/// What oneDNN reports of the primitives that `body` runs.
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
  static std::vector<double> with(Math math, Run&& run) {
    const auto device = device_with(math);
    device->make_current();
    Context context(*device);
    return run(context);
  }
  static Tensor filled(Context& context, const Shape& shape, unsigned seed) {
    Tensor tensor(context.device(), shape, DType::f32);
    const std::vector<double> values = random_values(shape.count(), seed);
    std::copy(values.begin(), values.end(), tensor.data<float>());
    return tensor;
  }
  static std::vector<double> values_of(const Tensor& tensor) {
    return {tensor.data<float>(), tensor.data<float>() + tensor.count()};
  }
  static void expect_wish(const std::string& report, const std::string& primitive) {
    ASSERT_THAT(report, HasSubstr(primitive));
    if (GetParam() == Math::bf16) {
      EXPECT_THAT(report, HasSubstr("attr-fpmath_mode:fpmath_mode_bf16"));
    } else {
      EXPECT_THAT(report, Not(HasSubstr("fpmath")));
    }
  }
};

TEST_P(Bf16, Products) {
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const double beta : {0.0, 0.5}) {
        const ops::GemmShape shape{transpose_a, transpose_b, 17, 33, 64};
        std::string report;
        const auto run = [&](Context& context) {
          const Tensor a = filled(context, {17 * 64}, 1), b = filled(context, {64 * 33}, 2);
          Tensor c = filled(context, {17 * 33}, 3);
          report = report_of([&] { ops::gemm(context, shape, 1.5, a, b, beta, c); });
          return values_of(c);
        };
        const auto exact = with(Math::full, run);
        const auto found = with(GetParam(), run);
        if (GetParam() == Math::bf16) expect_wish(report, "matmul");
        // Each factor is off by 2^-9 at most, so a product below 1 by 2^-8; of 64 such errors of either sign,
        // times 1.5, the sum stays below a third of their worst case 0.375.
        expect_near(found, exact, GetParam() == Math::bf16 ? 0.125 : 0);
      }
}

TEST_P(Bf16, ConvolutionsInAllPasses) {
  ops::ConvolutionGeometry geometry;
  geometry.kernel = geometry.dilation = geometry.stride = {1, 1};
  geometry.kernel = {3, 3};
  geometry.pad = {1, 1};
  geometry.in_channels = geometry.out_channels = 32;
  std::vector<std::string> reports;
  const auto run = [&](Context& context) {
    const auto convolution = ops::make_convolution(context, geometry, DType::f32);
    const Tensor weight = filled(context, {32, 32, 3, 3}, 1), bias = filled(context, {32}, 2);
    const Tensor input = filled(context, {4, 32, 8, 8}, 3);
    Tensor output(context.device(), {4, 32, 8, 8}, DType::f32),
        grad_input = filled(context, {4, 32, 8, 8}, 4);
    Tensor grad_weight = filled(context, {32, 32, 3, 3}, 5), grad_bias = filled(context, {32}, 6);
    reports = {
        report_of([&] { convolution->forward(context, input, weight, bias, output); }),
        report_of([&] { convolution->backward_data(context, input, weight, grad_input); }),
        report_of([&] { convolution->backward_weight(context, input, input, grad_weight, grad_bias); })};
    return values_of(output);
  };
  const auto exact = with(Math::full, run);
  const auto found = with(GetParam(), run);
  const char* const passes[] = {"forward_training", "backward_data", "backward_weights"};
  for (int pass = 0; pass < 3; ++pass) expect_wish(reports[static_cast<std::size_t>(pass)], passes[pass]);
  // As above: 288 products, a third of 288 / 2^8.
  expect_near(found, exact, GetParam() == Math::bf16 ? 0.375 : 0);
}

TEST(Bf16Units, AreUsedWhereTheyAre) {
  const std::string missing = ops::missing_for_bf16();
  if (!missing.empty()) GTEST_SKIP() << "bf16 is not computed here: " << missing;
  CpuDeviceOptions options;
  options.math = Math::bf16;
  const auto device = make_cpu_device(0, options);
  Context context(*device);
  Tensor a(*device, {64 * 64}, DType::f32), c(*device, {64 * 64}, DType::f32);
  for (std::int64_t i = 0; i < a.count(); ++i) a.data<float>()[i] = 1.0f + 0x1p-12f;  // 1 in bf16
  ops::gemm(context, {false, false, 64, 64, 64}, 1, a, a, 0, c);
  EXPECT_EQ(c.data<float>()[0], 64.0f);
}

INSTANTIATE_TEST_SUITE_P(All, Bf16, testing::Values(Math::full, Math::bf16), [](const auto& test) {
  return std::string(test.param == Math::full ? "full" : "bf16");
});

}  // namespace
}  // namespace banyan
