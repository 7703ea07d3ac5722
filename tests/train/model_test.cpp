// A net without a solver.
#include "banyan/train/model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "banyan/base/text.hpp"
#include "banyan/ops/processor.hpp"
#include "banyan/tensor/values.hpp"
#include "data/data_test_tools.hpp"
#include "train/part_bench.hpp"

namespace banyan {
namespace {

class ModelTest : public data::FolderTest {
 protected:
  Model make(Phase phase) {
    std::ofstream(path("net.prototxt")) << R"(
      layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 16 dim: 6 dim: 5 } } }
      layer { name: "c" type: "Convolution" bottom: "x" top: "y"
              convolution_param { num_output: 32 kernel_size: 3 pad: 1 } }
      layer { name: "d" type: "Deconvolution" bottom: "y" top: "z"
              quantization_param { bw_params: 8 }
              convolution_param { num_output: 16 kernel_size: 3 stride: 2 } })";
    ModelOptions options;
    options.model = path("net.prototxt");
    options.phase = phase;
    return Model(options);
  }
};

void set_parameters(Model& model, double value) {
  for (const auto& layer : model.net().layers())
    for (Parameter& parameter : layer->parameters())
      set_values(model.context(), std::vector<double>(parameter.shape.count(), value), parameter.value);
}

std::vector<double> output(Model& model) {
  model.net().set_input("x", std::vector<double>(2 * 16 * 6 * 5, 1));
  Pass pass = model.next_pass();
  model.net().forward(pass);
  return values_of(model.context(), model.net().outputs()[0]->data).values;
}

TEST_F(ModelTest, SaysWhatHasNoEffectInBothPhases) {
  for (const Phase phase : {Phase::train, Phase::test}) {
    const LoggedLines logged;  // if an earlier test has begun to log, else it goes to stderr
    ::testing::internal::CaptureStderr();
    make(phase);
    const std::string text = ::testing::internal::GetCapturedStderr() + join(logged.lines, "\n");
    EXPECT_THAT(text, testing::HasSubstr("quantization_param has no effect"));
  }
}

/// The beginning of MobileNet-v2's blocks, for images whose expansion exceeds the caches or does not.
TEST_F(ModelTest, RunsExpansionsWithDepthwiseConvolutionsWhereThatPays) {
  const auto expands = [&](int side, Phase phase) {
    std::ofstream(path("net.prototxt")) << R"(
      layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: )"
                                        << side << " dim: " << side << R"( } } }
      layer { name: "stem" type: "Convolution" bottom: "x" top: "s" convolution_param { num_output: 16 kernel_size: 3 pad: 1 } }
      layer { name: "expand" type: "Convolution" bottom: "s" top: "e" convolution_param { num_output: 96 kernel_size: 1 } }
      layer { name: "relu" type: "ReLU" bottom: "e" top: "e" }
      layer { name: "dwise" type: "Convolution" bottom: "e" top: "d"
              convolution_param { num_output: 96 group: 96 kernel_size: 3 pad: 1 stride: 2 } })";
    ModelOptions options;
    options.model = path("net.prototxt");
    options.phase = phase;
    const Model model(options);
    const auto& steps = model.net().plan().steps;
    return std::any_of(steps.begin(), steps.end(), [](const PlanStep& step) { return step.expansion >= 0; });
  };
  const bool vectors = ops::instruction_set() != ops::InstructionSet::baseline;
  EXPECT_EQ(expands(112, Phase::test), vectors);
  EXPECT_FALSE(expands(14, Phase::test));
  EXPECT_FALSE(expands(112, Phase::train));
}

TEST_F(ModelTest, TakesParametersThatWereReplaced) {
  for (const Phase phase : {Phase::train, Phase::test}) {
    Model model = make(phase), fresh = make(phase);
    set_parameters(model, 0.5);
    const std::vector<double> first = output(model);
    EXPECT_EQ(output(model), first);
    set_parameters(model, 0.25);
    model.net().parameters_replaced();
    set_parameters(fresh, 0.25);
    EXPECT_NE(output(model), first);
    EXPECT_EQ(output(model), output(fresh));
  }
}

/// Both nets' activations at a time would need half as much again.
TEST_F(ModelTest, FoldsInTheMemoryOfOneNet) {
  std::ofstream(path("net.prototxt")) << R"(
    layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 8 dim: 16 dim: 64 dim: 64 } } }
    layer { name: "c" type: "Convolution" bottom: "x" top: "y"
            convolution_param { num_output: 32 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
    layer { name: "n" type: "BatchNorm" bottom: "y" top: "n" })";
  ModelOptions options;
  options.model = path("net.prototxt");
  options.phase = Phase::test;
  options.fold = false;
  Model plain(options);
  options.fold = true;
  Model folded(options);
  ASSERT_EQ(folded.net().layers().size() + 1, plain.net().layers().size());
  // The folded net's weights take some kilobytes while the other's are still there.
  EXPECT_LE(folded.device().memory().peak, plain.device().memory().peak + (64 << 10));
}

}  // namespace
}  // namespace banyan
