// SqueezeDetLoss on GPUs, whose host decides in the middle of a pass: what it gives is what a CPU device
// gives.
#include "layers/bench.hpp"
#include "train/run_devices.hpp"

namespace banyan::testing {
namespace {

TEST(GpuSqueezeDetLoss, IsThatOfCpuDevices) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  const std::vector<Shape> shapes = {{2, 24, 3}, {2, 3, 4, 2}, {2, 3, 4, 8}, {2, 10}};
  std::vector<Values> inputs;
  for (unsigned i = 0; i < 3; ++i) inputs.push_back(spread_values(shapes[i].count(), i + 1, 0.4));
  for (unsigned i = 0; i < 2; ++i)
    for (double& value : inputs[i]) value += 0.5;
  inputs.push_back({20, 30, 200, 180, 1, 100, 90, 220, 300, 2, 60, 60, 160, 120, 0, -1, -1, -1, -1, -1});
  std::vector<Values> found[2];
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda}) {
    BenchOptions options;
    options.kind = kind;
    Bench bench(
        "type: 'SqueezeDetLoss' squeezedet_param { classes: 3 anchors_per_grid: 2 anchor_shapes: [90, 60, "
        "150, 200] pos_conf: 7 neg_conf: 11 lambda_bbox: 5 }",
        shapes, 1, options);
    for (std::size_t i = 0; i < inputs.size(); ++i) bench.set_input(i, inputs[i]);
    bench.forward();
    bench.backward(Values{1.5});
    std::vector<Values>& values = found[kind == DeviceKind::cuda];
    values.push_back(bench.output());
    for (std::size_t i = 0; i < 3; ++i) values.push_back(bench.input_gradient(i));
  }
  EXPECT_GT(found[0][0][0], 1);
  for (std::size_t i = 0; i < found[0].size(); ++i)
    for (std::size_t k = 0; k < found[0][i].size(); ++k)
      EXPECT_NEAR(found[1][i][k], found[0][i][k], 1e-12 * std::max(1.0, std::abs(found[0][i][k])));
}

}  // namespace
}  // namespace banyan::testing
