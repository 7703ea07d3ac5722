// EvalDetection on GPUs, whose host decides in the middle of a pass: what it gives is what a CPU device
// gives.
#include "layers/bench.hpp"
#include "train/run_devices.hpp"

namespace banyan::testing {
namespace {

TEST(GpuEvalDetection, IsThatOfCpuDevices) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  const std::vector<Shape> shapes = {{2, 16, 4, 4}, {1, 1, 3, 8}};
  std::vector<Values> found;
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda}) {
    BenchOptions options;
    options.kind = kind;
    Bench bench(
        "type: 'EvalDetection' eval_detection_param { side: 4 num_class: 3 num_object: 2 threshold: 0.1 "
        "biases: [0.75, 0.5, 2, 2.5] }",
        shapes, 1, options);
    bench.set_input(0, spread_values(shapes[0].count(), 1, 2));
    bench.set_input(
        1, {0, 1, 0, 0.1, 0.1, 0.5, 0.6, 0, 1, 3, 0, 0.3, 0, 0.8, 0.9, 0, -1, -1, -1, -1, -1, -1, -1, -1});
    bench.forward();
    found.push_back(bench.output());
  }
  EXPECT_EQ(found[0][0], 1);
  expect_near(found[1], found[0], 1e-12);
}

}  // namespace
}  // namespace banyan::testing
