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
  expect_refusal(code, {"--precision=bf16: ", "AVX-512", "--precision=f32 runs here"});
  EXPECT_EQ(file("log").find("Solving"), std::string::npos) << file("log");
}

TEST_F(Bf16Run, TrainsWithF32Weights) {
  const ops::Bf16Products products = ops::bf16_products();
  if (products == ops::Bf16Products::none) GTEST_SKIP() << "the processor has no AVX-512";
  ASSERT_EQ(train_with("solver", {"--cpu=2", "--precision=bf16"}), 0) << file("log");
  EXPECT_EQ(file("log").find("emulated") != std::string::npos, products == ops::Bf16Products::emulated);
  // A state made in bf16 goes on in f32, and says that it was another precision.
  ASSERT_EQ(train_with("solver", {"--cpu=2", "--snapshot=" + path("run/s_iter_2.solverstate")}), 0);
  EXPECT_THAT(file("log"), testing::HasSubstr("the precision was bf16"));
}

}  // namespace
}  // namespace banyan
