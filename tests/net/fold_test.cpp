#include "banyan/net/fold.hpp"

#include <random>

#include "banyan/tensor/values.hpp"
#include "net/net_test_tools.hpp"
#include "relative_distance.hpp"

namespace banyan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::string kInput =
    R"(layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 3 dim: 4 dim: 7 dim: 6 } } } )";

/// Values that no filler produces: statistics away from 0 and 1, slopes of both signs.
void draw_parameters(Net& net, Context& context) {
  std::mt19937 random(11);
  for (LearnableParameter& parameter : net.parameters()) {
    std::uniform_real_distribution<double> any(-1, 1), positive(0.3, 2);
    std::vector<double> values(parameter.count);
    // Variances and the factor of sums.
    for (double& value : values)
      value = parameter.is_statistic && parameter.slot > 0 ? positive(random) : any(random);
    set_values(context, values, parameter.value);
  }
}

struct Folded {
  std::vector<double> plain, folded;  ///< outputs
  std::vector<std::string> gone;
  std::vector<std::string> layers;  ///< those left
};

Folded fold_and_run(const std::string& text, DType dtype = DType::f64, Phase phase = Phase::test,
                    const CpuDeviceOptions& device = {}) {
  NetBench bench(device);
  NetOptions options;
  options.dtype = dtype;
  options.phase = phase;
  options.seed = 5;
  const auto plain = bench.make(kInput + text, options);
  draw_parameters(*plain, bench.context);
  const FoldedNet made = fold_normalizations(*plain);
  Net folded(made.definition, options, bench.context, bench.activity);
  load_folded(folded, *plain, made);
  Folded result{{}, {}, made.gone, {}};
  for (const auto& layer : folded.layers()) result.layers.push_back(layer->name());
  const auto run = [&](Net& net, std::vector<double>& outputs) {
    Tensor& x = net.find_blob("x")->data;
    std::vector<double> values(x.count());
    std::mt19937 random(3);
    for (double& value : values) value = std::uniform_real_distribution<double>(-2, 2)(random);
    set_values(bench.context, values, x);
    net.forward(bench.pass);
    for (const Blob* output : net.outputs()) {
      const std::vector<double> found = values_of(bench.context, output->data).values;
      outputs.insert(outputs.end(), found.begin(), found.end());
    }
  };
  run(*plain, result.plain);
  run(folded, result.folded);
  return result;
}

std::string convolution(const std::string& more = "") {
  return R"(layer { name: "conv" type: "Convolution" bottom: "x" top: "conv"
    convolution_param { num_output: 6 kernel_size: 3 )" +
         more + "} } ";
}
std::string deconvolution(const std::string& more) {
  return R"(layer { name: "conv" type: "Deconvolution" bottom: "x" top: "conv"
    convolution_param { num_output: 6 )" +
         more + "} } ";
}
const std::string kReLU = R"(layer { name: "relu" type: "ReLU" bottom: "y" top: "y" } )";

TEST(Fold, EveryDialectInPlaceOrNot) {
  const std::string norms[] = {
      R"(layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "conv" }
         layer { name: "scale" type: "Scale" bottom: "conv" top: "y" scale_param { bias_term: true } })",
      R"(layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "bn" batch_norm_param { eps: 0.01 } }
         layer { name: "scale" type: "Scale" bottom: "bn" top: "scaled" }
         layer { name: "bias" type: "Bias" bottom: "scaled" top: "y" })",
      R"(layer { name: "bn" type: "SyncBN" bottom: "conv" top: "y" })",
      R"(layer { name: "bn" type: "BN" bottom: "conv" top: "y" })",
      R"(layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "y" batch_norm_param { scale_bias: true } })"};
  for (const std::string& norm : norms)
    for (const char* more :
         {"", "bias_term: false", "group: 2", "stride: 2 pad: 1 bias_term: false group: 2"}) {
      SCOPED_TRACE(norm + more);
      const Folded net = fold_and_run(convolution(more) + norm + kReLU);
      EXPECT_THAT(net.layers, ElementsAre("in", "conv", "relu"));
      EXPECT_EQ(net.plain.size(), net.folded.size());
      EXPECT_LE(relative_distance(net.plain, net.folded), 1e-14);
    }
}

/// What is left runs the activation with the convolution or inner product.
TEST(Fold, ActivationsFollowInTheSameStep) {
  NetBench bench;
  NetOptions options;
  options.phase = Phase::test;
  for (const char* activation :
       {R"(type: "ReLU")", R"(type: "ReLU" relu_param { negative_slope: 0.1 })", R"(type: "ELU")"})
    for (const char* top : {"y", "z"}) {
      const auto plain =
          bench.make(kInput + convolution() +
                         cat(R"(layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "conv" }
                layer { name: "scale" type: "Scale" bottom: "conv" top: "y" scale_param { bias_term: true } }
                layer { name: "act" bottom: "y" top: ")",
                             top, "\" ", activation, R"( }
                layer { name: "ip" type: "InnerProduct" bottom: ")",
                             top, R"(" top: "ip" inner_product_param { num_output: 5 } }
                layer { name: "last" bottom: "ip" top: "ip" )",
                             activation, " }"),
                     options);
      const FoldedNet made = fold_normalizations(*plain);
      const Net folded(made.definition, options, bench.context, bench.activity);
      std::vector<std::string> run, ended;
      for (const PlanStep& step : folded.plan().steps) {
        if (step.work != Work::forward || !step.runs_layer) continue;
        run.push_back(folded.graph().layers[step.layer].name);
        if (step.output.on()) ended.push_back(run.back());
      }
      EXPECT_THAT(run, ElementsAre("in", "conv", "ip")) << activation;
      EXPECT_THAT(ended, ElementsAre("conv", "ip")) << activation;
    }
}

/// The promise is 1e-5: a product of two f32 values that each carry a rounding of 6e-8, summed over 36 terms.
TEST(Fold, InSinglePrecision) {
  const Folded net = fold_and_run(convolution() + R"(
    layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "conv" }
    layer { name: "scale" type: "Scale" bottom: "conv" top: "y" scale_param { bias_term: true } })" +
                                      kReLU,
                                  DType::f32);
  EXPECT_FALSE(net.gone.empty());
  EXPECT_LE(relative_distance(net.plain, net.folded), 1e-6);
}

/// Values of bf16 are off by at most 2^-8 of them, 0.42 * 2^-8 in the mean square. Inputs, weights, the
/// output of the convolution (if nothing is folded) and the result are rounded, independently of each other:
/// together sqrt(4) * 0.42 * 2^-8 = 0.85 * 2^-8 of the results, and twice that with room.
TEST(Fold, InSixteenBits) {
  const std::string norms = R"(
    layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "conv" }
    layer { name: "scale" type: "Scale" bottom: "conv" top: "y" scale_param { bias_term: true } })" +
                            kReLU;
  const std::string product =
      R"(layer { name: "ip" type: "InnerProduct" bottom: "x" top: "conv" inner_product_param { num_output: 9 } })";
  for (const Math math : {Math::bf16_in_f32, Math::bf16}) {
    if (math == Math::bf16 && !__builtin_cpu_supports("avx512bw")) continue;
    CpuDeviceOptions device;
    device.math = math;
    for (const std::string& before : {convolution(), deconvolution("kernel_size: 3 group: 2 "), product}) {
      SCOPED_TRACE(before);
      const Folded exact = fold_and_run(before + norms),
                   net = fold_and_run(before + norms, DType::f32, Phase::test, device);
      EXPECT_THAT(net.gone, ElementsAre("bn", "scale"));
      for (const std::vector<double>& found : {net.plain, net.folded}) {
        EXPECT_GT(relative_distance(exact.plain, found), 0x1p-12) << "no 16 bits";
        EXPECT_LE(relative_distance(exact.plain, found), 0x1p-7);
      }
    }
  }
}

TEST(Fold, FrozenStatistics) {
  const std::string norm = R"(
    layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "y" batch_norm_param { use_global_stats: true } })";
  const Folded net = fold_and_run(convolution() + norm + kReLU);
  EXPECT_THAT(net.layers, ElementsAre("in", "conv", "relu"));
  EXPECT_LE(relative_distance(net.plain, net.folded), 1e-14);
}

/// Their weights lead from inputs to outputs.
TEST(Fold, Deconvolutions) {
  const std::string norms = R"(
    layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "conv" }
    layer { name: "scale" type: "Scale" bottom: "conv" top: "y" scale_param { bias_term: true } })";
  for (const char* more :
       {"kernel_size: 3", "kernel_size: 1 bias_term: false", "kernel_h: 3 kernel_w: 2 group: 2",
        "kernel_size: 4 stride: 2 pad: 1 group: 2 bias_term: false"}) {
    SCOPED_TRACE(more);
    const Folded net = fold_and_run(deconvolution(more) + norms + kReLU);
    EXPECT_THAT(net.layers, ElementsAre("in", "conv", "relu"));
    EXPECT_LE(relative_distance(net.plain, net.folded), 1e-14);
  }
}

TEST(Fold, InnerProducts) {
  const std::string product =
      R"(layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 5 )";
  const std::string norm = R"(layer { name: "bn" type: "BatchNorm" bottom: "ip" top: "y" })";
  for (const char* more : {"bias_term: false", "transpose: true", "axis: -3 transpose: true"}) {
    SCOPED_TRACE(more);
    const Folded net = fold_and_run(product + more + " } } " + norm);
    EXPECT_THAT(net.gone, ElementsAre("bn"));
    EXPECT_LE(relative_distance(net.plain, net.folded), 1e-14);
  }
}

/// The factors and rows that are stored are not those that a pass computes with.
TEST(Fold, LeavesRowsOfLengthOneAndFactorsWithinLimits) {
  const std::string product =
                        "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' "
                        "inner_product_param { num_output: 5 ",
                    scale = "layer { name: 'scale' type: 'Scale' bottom: 'ip' top: 'y' scale_param { ";
  EXPECT_THAT(fold_and_run(product + "} } " + scale + "} }").gone, ElementsAre("scale"));
  EXPECT_THAT(fold_and_run(product + "normalize: true } } " + scale + "} }").gone, IsEmpty());
  EXPECT_THAT(fold_and_run(product + "} } " + scale + "min_value: 0.5 } }").gone, IsEmpty());
}

/// Only what works on the axis that holds the outputs of the layer before.
TEST(Fold, OtherAxes) {
  const std::string product =
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' "
      "inner_product_param { num_output: 5 ";
  const auto scale_and_bias = [](const std::string& bottom, int axis) {
    return cat("layer { name: 'scale' type: 'Scale' bottom: '", bottom,
               "' top: 'y' scale_param { axis: ", axis,
               " bias_term: true } } layer { name: 'bias' type: 'Bias' bottom: 'y' top: 'z' bias_param "
               "{ axis: -1 } } ");
  };
  for (const char* more : {"", "transpose: true "}) {
    const Folded last = fold_and_run(product + more + "axis: 2 } } " + scale_and_bias("ip", 2));
    EXPECT_THAT(last.gone, ElementsAre("scale", "bias"));
    EXPECT_LE(relative_distance(last.plain, last.folded), 1e-14);
    const Folded whole = fold_and_run(product + more + "axis: 0 } } " + scale_and_bias("ip", 0));
    EXPECT_THAT(whole.gone, ElementsAre("scale", "bias"));
    EXPECT_LE(relative_distance(whole.plain, whole.folded), 1e-14);
    EXPECT_THAT(fold_and_run(product + more + "axis: 2 } } " + scale_and_bias("ip", 1)).gone, IsEmpty());
    for (const int axis : {0, 2})
      EXPECT_THAT(fold_and_run(cat(product, more, "axis: ", axis,
                                   " } } layer { name: 'bn' type: 'BatchNorm' bottom: 'ip' top: 'y' }"))
                      .gone,
                  IsEmpty());
  }
  const Folded rows = fold_and_run(
      "layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'conv' convolution_param { axis: 2 "
      "kernel_size: 3 num_output: 5 } } layer { name: 'scale' type: 'Scale' bottom: 'conv' top: 'y' "
      "scale_param { axis: 2 num_axes: 1 } }");
  EXPECT_THAT(rows.gone, ElementsAre("scale"));
  EXPECT_LE(relative_distance(rows.plain, rows.folded), 1e-14);
}

TEST(Fold, ABranchEndsTheChain) {
  const Folded net = fold_and_run(convolution() + R"(
    layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "bn" }
    layer { name: "scale" type: "Scale" bottom: "bn" top: "y" scale_param { bias_term: true } }
    layer { name: "sum" type: "Eltwise" bottom: "bn" bottom: "y" top: "sum" })");
  EXPECT_THAT(net.gone, ElementsAre("bn"));
  EXPECT_LE(relative_distance(net.plain, net.folded), 1e-14);
}

TEST(Fold, KeepsWhatItMust) {
  const std::string norm = R"(layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "y" )";
  // Batch statistics.
  EXPECT_THAT(fold_and_run(convolution() + norm + "batch_norm_param { use_global_stats: false } }").gone,
              IsEmpty());
  EXPECT_THAT(fold_and_run(convolution() + norm + "}", DType::f64, Phase::train).gone, IsEmpty());
  // Another layer reads the convolution's output.
  EXPECT_THAT(
      fold_and_run(convolution() + norm + R"(} layer { name: "relu" type: "ReLU" bottom: "conv" top: "z" })")
          .gone,
      IsEmpty());
  // Another layer shares the weights.
  const std::string shared = R"(param { name: "w" } )";
  EXPECT_THAT(fold_and_run(R"(
    layer { name: "conv" type: "Convolution" bottom: "x" top: "conv" param { name: "w" }
      convolution_param { num_output: 6 kernel_size: 3 bias_term: false } }
    layer { name: "twin" type: "Convolution" bottom: "x" top: "twin" param { name: "w" }
      convolution_param { num_output: 6 kernel_size: 3 bias_term: false } })" +
                           norm + "}")
                  .gone,
              IsEmpty());
  EXPECT_THAT(fold_and_run(R"(
    layer { name: "conv" type: "Deconvolution" bottom: "x" top: "conv" param { name: "w" }
      convolution_param { num_output: 6 kernel_size: 3 bias_term: false } }
    layer { name: "twin" type: "Deconvolution" bottom: "x" top: "twin" param { name: "w" }
      convolution_param { num_output: 6 kernel_size: 3 bias_term: false } })" +
                           norm + "}")
                  .gone,
              IsEmpty());
  // Not one value per channel.
  EXPECT_THAT(fold_and_run(convolution() + R"(
    layer { name: "scale" type: "Scale" bottom: "conv" top: "y" scale_param { axis: 0 } })")
                  .gone,
              IsEmpty());
  // No layer before it that could absorb it.
  EXPECT_THAT(fold_and_run(R"(layer { name: "bn" type: "BatchNorm" bottom: "x" top: "y" })").gone, IsEmpty());
}

/// The first of the layers that share a parameter is folded; the second still has it.
TEST(Fold, SharedScales) {
  const Folded net = fold_and_run(convolution("bias_term: false") + R"(
    layer { name: "first" type: "Scale" bottom: "conv" top: "y" param { name: "s" } }
    layer { name: "relu" type: "ReLU" bottom: "y" top: "y" }
    layer { name: "second" type: "Scale" bottom: "y" top: "z" param { name: "s" } })");
  EXPECT_THAT(net.gone, ElementsAre("first"));
  EXPECT_LE(relative_distance(net.plain, net.folded), 1e-14);
}

TEST(Fold, KeepsWeightedOutputs) {
  EXPECT_THAT(fold_and_run(convolution() + R"(
    layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "y" loss_weight: 0.5 })")
                  .gone,
              IsEmpty());
}

TEST(Fold, TakesDepthwiseConvolutionsForWhatTheyAre) {
  for (const char* type : {"DepthwiseConvolution", "ConvolutionDepthwise"}) {
    const std::string text =
        cat("layer { name: 'conv' type: '", type,
            "' bottom: 'x' top: 'conv' convolution_param { num_output: 8 kernel_size: 3 } } "
            "layer { name: 'bn' type: 'BatchNorm' bottom: 'conv' top: 'y' }");
    const Folded found = fold_and_run(text);
    EXPECT_THAT(found.gone, ElementsAre("bn"));
    EXPECT_LE(relative_distance(found.plain, found.folded), 1e-14);
  }
}

/// The convolution's channels are not those of the normalization.
TEST(Fold, KeepsNormalizationsOfOtherAxes) {
  for (const int outputs : {2, 4, 9}) {
    const std::string text =
        cat(R"(layer { name: "conv" type: "Convolution" bottom: "x" top: "conv" convolution_param {
      axis: 2 kernel_size: 3 num_output: )",
            outputs, R"(} } layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "y" })");
    EXPECT_THAT(fold_and_run(text).gone, IsEmpty());
  }
}

}  // namespace
}  // namespace banyan
