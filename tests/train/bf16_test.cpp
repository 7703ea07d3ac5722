// --precision=bf16 as a user meets it.
#include "banyan/ops/processor.hpp"
#include "train/trainer_fixture.hpp"

namespace banyan {
namespace {

class Bf16Run : public TrainerRun {};

TEST_F(Bf16Run, IsRefusedWithOneLineWhereTheProcessorLacksIt) {
  ::setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);  // of the child; this process has asked long ago or never will
  const int code = train_with("solver", {"--cpu=1", "--precision=bf16"});
  ::unsetenv("ONEDNN_MAX_CPU_ISA");
  expect_refusal(code, {"--precision=bf16: ", "AMX", "--precision=f32 runs here"});
  EXPECT_EQ(file("log").find("Solving"), std::string::npos) << file("log");
}

TEST_F(Bf16Run, TrainsWithF32Weights) {
  if (const std::string missing = ops::missing_for_bf16(); !missing.empty())
    GTEST_SKIP() << "bf16 is not computed here: " << missing;
  ASSERT_EQ(train_with("solver", {"--cpu=2", "--precision=bf16"}), 0) << file("log");
  // A state made in bf16 goes on in f32, and says that it was another precision.
  ASSERT_EQ(train_with("solver", {"--cpu=2", "--snapshot=" + path("run/s_iter_2.solverstate")}), 0);
  EXPECT_THAT(file("log"), testing::HasSubstr("the precision was bf16"));
}

}  // namespace
}  // namespace banyan
