// --precision=bf16 as a user sees it.
#include "banyan/device/processor.hpp"
#include "train/trainer_fixture.hpp"

namespace banyan {
namespace {

class Bf16Run : public TrainerRun {};

TEST_F(Bf16Run, TrainsWithF32Weights) {
  for (const bool hidden : {true, false}) {
    // For the child; this process has read it long ago or never will.
    if (hidden) ::setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    const int code = train_with("solver", {"--cpu=2", "--precision=bf16"});
    ::unsetenv("ONEDNN_MAX_CPU_ISA");
    ASSERT_EQ(code, 0) << file("log");
    EXPECT_EQ(file("log").find("the processor has no units for it") != std::string::npos,
              hidden || !has_bf16_units());
  }
  // A state written in bf16 can be resumed in f32, with a message that the precision was different.
  ASSERT_EQ(train_with("solver", {"--cpu=2", "--snapshot=" + path("run/s_iter_2.solverstate")}), 0);
  EXPECT_THAT(file("log"), testing::HasSubstr("the precision was bf16"));
}

}  // namespace
}  // namespace banyan
