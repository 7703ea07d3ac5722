// --precision=bf16 on GPUs: factors in bf16, activations stored in it. Operators are tested in
// ops/bf16_storage_test.cpp.
#include "banyan/base/error.hpp"
#include "gpu/gpu_training.hpp"
#include "train/promise_cases.hpp"

namespace banyan {
namespace {

using testing::HasSubstr;

class Bf16 : public GpuTraining {
 protected:
  static TrainingCase in(RunPrecision precision, const std::string& net_line = "",
                         const std::string& solver_line = "") {
    TrainingCase what{kSolver + solver_line, net_line + data_layer() + kBody + classifier()};
    what.precision = precision;
    return what;
  }
};

/// GPUs round in the same places as CPU devices, but for an addition of biases: what they compute is about as
/// far from f32.
TEST_F(Bf16, TrainingIsThatInF32ButForRounding) {
  StepInF32 step = first_step_in_f32({kSolver, data_layer() + kBody + classifier()});
  step.what.precision = RunPrecision::bf16;
  const Trained on_cpu = train_case(step.what, 1);
  const double far = largest_difference(step.one.values(), on_cpu.values());
  EXPECT_LT(far, 0.1 * step.largest_gradient);
  for (const int number : {1, 2, 4}) {
    const Trained found = train_case(step.what, gpu_devices(number));
    const double distance = largest_difference(step.one.values(), found.values());
    EXPECT_LT(distance, 1.5 * far) << number;
    EXPECT_GT(distance, far / 10) << number << ": computed in full";
    EXPECT_NEAR(found.losses()[0], step.one.losses()[0], 1e-2 * step.one.losses()[0]) << number;
  }
}

/// Sums over devices are f32 and f64, so the first update is the same up to their rounding, which may make an
/// activation round the other way.
TEST_F(Bf16, NDevicesAreOneDevice) {
  TrainingCase what = in(RunPrecision::bf16);
  what.iterations = 1;
  const std::vector<double> one = train_case(what, gpu_devices(1)).values();
  EXPECT_NE(one, train_case(
                     [&] {
                       TrainingCase full = what;
                       full.precision = RunPrecision::f32;
                       return full;
                     }(),
                     gpu_devices(1))
                     .values())
      << "nothing was rounded";
  for (const int number : {2, 4})
    EXPECT_LE(largest_difference(one, train_case(what, gpu_devices(number)).values()), 1e-4) << number;
}

TEST_F(Bf16, RepeatsAndResumesBitForBit) {
  for (const char* net_line : {"", "checkpoint: '2' "})
    expect_the_same_bits_when_repeated_and_resumed(in(RunPrecision::bf16, net_line, "snapshot: 7"));
}

/// storage: BF16 without --precision=bf16: products in f32 of what is stored.
void expect_stored_in_a_run_in_f32(TrainingCase what) {
  const Trained full = train_case(what, gpu_devices(2));
  what.net = "storage: BF16 " + what.net;
  const Trained stored = train_case(what, gpu_devices(2));
  EXPECT_NE(stored.values(), full.values());
  // The losses vary with the rounding as they do on CPU devices.
  EXPECT_LE(largest_difference(stored.losses(), full.losses()), 0.1);
}
TEST_F(Bf16, ANetMayStoreItInARunInF32) { expect_stored_in_a_run_in_f32(in(RunPrecision::f32)); }

/// GPUs before compute capability 8.0.
class OlderGpu : public Bf16 {
 protected:
  void SetUp() override {
    Bf16::SetUp();
    if (!IsSkipped() && query_cuda_gpu(0).architecture >= 80)
      GTEST_SKIP() << "gpu:0 multiplies in bf16 and TF32";
  }
};

TEST_F(OlderGpu, RefusesBf16) {
  try {
    train_case(in(RunPrecision::bf16), gpu_devices(1));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_THAT(error.what(), HasSubstr("gpu:0 does not multiply in bf16: its compute capability is 7.5"));
  }
}

TEST_F(OlderGpu, StoresIt) { expect_stored_in_a_run_in_f32(in(RunPrecision::f32)); }

TEST_F(OlderGpu, ComputesInF32InsteadOfTf32) {
  EXPECT_EQ(train_case(in(RunPrecision::tf32), gpu_devices(1)).values(),
            train_case(in(RunPrecision::f32), gpu_devices(1)).values());
}

}  // namespace
}  // namespace banyan
