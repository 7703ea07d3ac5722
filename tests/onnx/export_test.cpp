// Nets as ONNX files: their structure, what is refused, and, where Python has onnx and onnxruntime, that they
// compute what the nets compute, single layers and the smaller nets of models/.
#include "banyan/onnx/export.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "onnx/net_runs.hpp"
#include "proto/onnx_subset.pb.h"

namespace banyan::onnx {
namespace {

using data::bad_input_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Five values of each of two sequences in `steps` steps, `cont` (any numbers will do) and `more` inputs.
Case recurrent(const std::string& type, const std::string& settings, std::vector<Shape> more = {},
               int outputs = 1, std::int64_t steps = 4) {
  std::vector<Shape> shapes = {{steps, 2, 5}, {steps, 2}};
  shapes.insert(shapes.end(), more.begin(), more.end());
  Case made =
      one(type, "recurrent_param { num_output: 3 " + settings + " }", shapes, Inputs::signed_values, outputs);
  made.parameters = Inputs::signed_values;  // else the gates are open
  return made;
}

Case lstm_of_oh(const std::string& settings, const std::vector<Shape>& shapes) {
  Case made = one("Lstm", "lstm_param { num_output: 3 " + settings + " }", shapes, Inputs::signed_values);
  made.parameters = Inputs::signed_values;
  return made;
}

/// What maximum pooling with `windows` and a second layer that undoes it make of planes.
Case undone(const std::string& windows, const std::string& layer, const Shape& shape = {2, 3, 4, 6}) {
  return {"layer { name: 'pool' type: 'Pooling' bottom: 'x0' top: 'small' top: 'mask' pooling_param { " +
              windows + " } } layer { name: 'it' bottom: 'small' bottom: 'mask' top: 'y' " + layer + " }",
          {shape}};
}

/// Every type and every setting that ends in other nodes.
std::vector<Case> all_cases() {
  const auto pool = [](const std::string& settings, const Shape& shape) {
    return one("Pooling", "pooling_param { " + settings + " }", {shape});
  };
  const auto conv = [](const std::string& type, const std::string& settings, const Shape& shape) {
    return one(type, "convolution_param { " + settings + " }", {shape});
  };
  return {
      conv("Convolution", "num_output: 6 kernel_size: 3 stride: 2 pad: 1 dilation: 2 group: 2", {2, 4, 9, 8}),
      conv("Convolution", "num_output: 3 kernel_h: 3 kernel_w: 1 pad_h: 2 stride_w: 2 stride_h: 1", kPlanes),
      conv("Convolution", "num_output: 3 kernel_size: 3 bias_term: false", {2, 4, 9}),
      conv("Convolution", "num_output: 3 kernel_size: 2 stride: 1 stride: 2 stride: 1", {2, 4, 3, 4, 5}),
      conv("DepthwiseConvolution", "num_output: 8 kernel_size: 3 pad: 1", kPlanes),
      conv("ConvolutionDepthwise", "num_output: 4 kernel_size: 3", kPlanes),
      conv("Deconvolution", "num_output: 6 kernel_size: 4 stride: 2 pad: 1 group: 2", kPlanes),
      conv("Deconvolution", "num_output: 2 kernel_size: 3 dilation: 2 bias_term: false", kPlanes),
      {"layer { name: 'a' type: 'Convolution' bottom: 'x0' bottom: 'x1' top: 'y' top: 'z' "
       "convolution_param { num_output: 2 kernel_size: 1 } }",
       {kPlanes, {1, 4, 3, 3}}},
      pool("kernel_size: 2 stride: 2", kPlanes),  // a last window beyond the border
      pool("kernel_size: 3 stride: 2 pad: 1", {1, 2, 8, 7}),
      pool("kernel_size: 3 stride: 2 pad: 1 round_mode: FLOOR", {1, 2, 8, 7}),
      pool("pool: AVE kernel_size: 3 stride: 2", {1, 2, 6, 5}),         // beyond the border
      pool("pool: AVE kernel_size: 3 stride: 2 pad: 1", {1, 2, 5, 7}),  // within the padding
      pool("pool: AVE kernel_size: 3 stride: 2 pad: 1", {1, 2, 6, 7}),  // beyond the padding
      pool("pool: AVE kernel_h: 3 kernel_w: 5 stride_h: 2 stride_w: 3 pad_h: 0 pad_w: 2", {1, 2, 6, 9}),
      pool("pool: AVE kernel_size: 2 stride: 2 pad: 1", {1, 2, 3, 4, 5}),
      pool("pool: AVE kernel_size: 3 stride: 2 pad: 1 avg_include_pad: false", {1, 2, 6, 7}),
      pool("pool: AVE global_pooling: true", kPlanes),
      pool("global_pooling: true", kPlanes),
      pool("global_pooling: true", {2, 3, 7}),
      one("Pooling", "pooling_param { kernel_size: 2 stride: 2 }", {{2, 3, 5, 6}}, {},
          2),  // beyond the border
      one("Pooling", "pooling_param { kernel_size: 2 stride: 3 pad: 1 }", {{2, 3, 5, 7}}, {}, 2),
      one("Pooling", "pooling_param { kernel_size: 3 stride: 3 }", {{2, 3, 9}}, {}, 2),
      one("Pooling", "pooling_param { global_pooling: true }", {kPlanes}, {}, 2),
      one("Pooling", "pooling_param { kernel_size: 3 stride: 2 pad: 1 }", {{2, 3, 6, 5}}, {},
          2),  // windows overlap
      undone("kernel_size: 2 stride: 2", "type: 'Upsample'"),
      undone("kernel_size: 3 stride: 1", "type: 'Upsample' upsample_param { upsample_h: 3 upsample_w: 3 }",
             {2, 3, 3, 3}),  // one window
      undone("kernel_size: 2 stride: 2", "type: 'Upsample' upsample_param { upsample_h: 5 upsample_w: 7 }",
             {2, 3, 5, 7}),
      undone("kernel_size: 3 stride: 3", "type: 'Unpooling' unpooling_param { kernel_size: 3 stride: 3 }",
             {2, 3, 6, 9}),
      one("Upsample"),
      one("Upsample", "upsample_param { scale_h: 3 scale_w: 1 }"),
      one("Interp", "interp_param { height: 9 width: 4 }"),
      one("Interp", "interp_param { zoom_factor: 2 pad_beg: -1 pad_end: -2 }", {{1, 2, 6, 7}}),
      one("BilinearInterpolation", "bilinear_interpolation_param { interpolation_factor: 3 }"),
      one("BilinearInterpolation", "", {kPlanes, {2, 1, 7, 9}}),
      one("Insanity"),
      one("CReLU"),
      one("CReLU", "crelu_param { negative_slope: 0.25 concat_axis: -2 }"),
      one("HardSwish"),
      one("Mish"),
      one("Concat", "concat_param { axis: 2 }", {kPlanes, {2, 4, 2, 6}}),
      one("Slice", "slice_param { axis: -1 slice_point: 1 slice_point: 4 }", {kPlanes}, {}, 3),
      one("Slice", "", {kPlanes}, {}, 2),
      one("Crop", "crop_param { axis: 2 offset: 1 offset: 2 }", {kPlanes, {2, 4, 3, 4}}),
      one("Crop", "crop_param { center_align: true }", {kPlanes, {2, 4, 3, 2}}),
      one("Padding", "padding_param { pad_beg: 2 pad_end: -1 }", {kPlanes}),
      one("Dropout"),
      one("SpatialDropout"),
      one("GradientScaler"),
      one("GradientReversal"),
      one("Flatten"),
      one("Flatten", "flatten_param { axis: -2 }"),
      one("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 10 } }"),
      one("Reshape", "reshape_param { shape { dim: -1 } }"),
      one("Permute", "permute_param { order: 0 order: 2 }"),
      one("Transpose", "transpose_param { dim: [0, 2, 3, 1] }"),
      one("ShuffleChannel", "shuffle_channel_param { group: 2 }"),
      one("Tile", "tile_param { axis: 2 tiles: 3 }"),
      one("Parameter", "parameter_param { shape { dim: 3 dim: 2 } }", {}),
      one("InnerProduct", "inner_product_param { num_output: 3 }"),
      one("InnerProduct", "inner_product_param { num_output: 3 transpose: true bias_term: false }", {{2, 7}}),
      one("InnerProduct", "inner_product_param { num_output: 3 axis: -1 }"),
      one("Embed", "embed_param { num_output: 3 input_dim: 4 }", {{2, 5}}, Inputs::whole),
      one("ReLU"),
      one("ReLU", "relu_param { negative_slope: 0.1 }"),
      one("PReLU"),
      one("PReLU", "", {{2, 4}}),
      one("PReLU", "prelu_param { channel_shared: true }"),
      one("ELU", "elu_param { alpha: 0.5 }"),
      one("ELU", "elu_param { alpha: 0.5 lambda: 1.5 }"),
      one("Sigmoid"),
      one("TanH"),
      one("AbsVal"),
      one("BNLL"),
      one("Swish"),
      one("Swish", "swish_param { beta: 2 }"),
      one("Clip", "clip_param { min: -0.3 max: 0.4 }"),
      one("Threshold", "threshold_param { threshold: 0.25 }"),
      one("Exp"),
      one("Exp", "exp_param { base: 2 scale: 0.5 shift: 1.5 }"),
      one("Log", "", {kPlanes}, Inputs::positive),
      one("Log", "log_param { base: 3 scale: 0.5 shift: 2 }"),
      one("Power"),
      one("Power", "power_param { power: 0.5 scale: 0.5 shift: 1.5 }"),
      one("Power", "power_param { power: 0 }"),
      one("Power", "power_param { power: 3 scale: 0 shift: 2 }"),
      one("BatchNorm", "batch_norm_param { eps: 0.01 }"),
      one("BatchNorm", "batch_norm_param { scale_bias: true }"),
      one("BatchNorm", "", {{2, 4}}),
      one("BN"),
      one("BN", "bn_param { bn_mode: INFERENCE eps: 0.1 }"),  // slope and bias only
      one("SyncBN", "bn_param { eps: 0.1 }"),
      one("Scale"),
      one("Scale", "scale_param { bias_term: true axis: 2 num_axes: -1 }"),
      one("Scale", "scale_param { num_axes: 0 bias_term: true }"),
      one("Scale", "scale_param { axis: 0 bias_term: true }", {kPlanes, {2, 4}}),
      one("Scale", "scale_param { axis: 2 }", {kPlanes, {5, 6}}),
      one("Bias"),
      one("Bias", "bias_param { axis: 0 }", {kPlanes, {2}}),
      one("Eltwise", "", {kPlanes, kPlanes, kPlanes}),
      one("Eltwise", "eltwise_param { coeff: 1 coeff: -0.5 }", {kPlanes, kPlanes}),
      one("Eltwise", "eltwise_param { operation: PROD }", {kPlanes, kPlanes, kPlanes}),
      one("Eltwise", "eltwise_param { operation: MAX }", {kPlanes, kPlanes}),
      one("Eltwise", "eltwise_param { coeff: 2 coeff: 3 }", {{2, 4}, {2, 4, 1, 1}}),
      one("Eltwise", "eltwise_param { operation: PROD }", {{2, 4, 1, 1}, {2, 4}}),
      one("Eltwise", "eltwise_param { operation: MAX }", {{3, 2, 1}, {3, 2}, {3, 2, 1, 1}}),
      one("LRN", "lrn_param { alpha: 0.5 k: 2 local_size: 3 }"),
      one("LRN", "lrn_param { norm_region: WITHIN_CHANNEL alpha: 0.5 local_size: 3 }"),
      one("MVN"),
      one("MVN", "mvn_param { across_channels: true eps: 0.1 }"),
      one("MVN", "mvn_param { normalize_variance: false }"),
      one("Normalize"),
      one("Normalize", "norm_param { }"),
      one("Normalize", "norm_param { across_spatial: false channel_shared: false }"),
      one("Normalize", "normalize_param { }"),
      one("Normalize", "normalize_param { }", {kPlanes}, {}, 2),
      one("Axpy", "", {{2, 4}, kPlanes, kPlanes}),
      one("ArgMax"),
      one("ArgMax", "argmax_param { axis: 1 }", {{2, 4, 30}}, Inputs::whole),  // with ties
      one("ArgMax", "argmax_param { axis: -1 }", {{2, 3, 40}}, Inputs::whole),
      one("Softmax"),
      one("Softmax", "softmax_param { axis: -1 }"),
      one("Reduction"),
      one("Reduction", "reduction_param { operation: MEAN axis: 1 }"),
      one("Reduction", "reduction_param { operation: ASUM axis: -2 coeff: 2 }"),
      one("Reduction", "reduction_param { operation: SUMSQ axis: 2 }"),
      recurrent("LSTM", ""),
      recurrent("LSTM", "", {}, 1, 1),
      recurrent("LSTM", "", {{2, 3, 2}}),  // a static input
      recurrent("LSTM", "expose_hidden: true", {{2, 6}, {1, 2, 3}, {1, 2, 3}}, 3),
      lstm_of_oh("", {{4, 2, 5}}),
      lstm_of_oh("", {{1, 2, 5}}),
      lstm_of_oh("clipping_threshold: 0.1", {{4, 2, 5}, {4, 2}}),
      lstm_of_oh("batch_size: 2", {{8, 5, 1, 1}, {8, 1}}),
      lstm_of_oh("", {{4, 5}}),
      recurrent("RNN", ""),
      recurrent("RNN", "", {{2, 6}}),
      recurrent("RNN", "expose_hidden: true", {{1, 2, 3}}, 2),
      one("ContinuationIndicator", "continuation_indicator_param { time_step: 3 batch_size: 2 }", {}),
      one("LSTMUnit", "", {{1, 4, 3}, {1, 4, 12}, {1, 4}}, {}, 2),
      // Layers in place, a normalization with its Scale, two readers of a blob, one output that is not
      // needed.
      {"layer { name: 'c' type: 'Convolution' bottom: 'x0' top: 'c' convolution_param { num_output: 4 "
       "kernel_size: 3 pad: 1 } }"
       "layer { name: 'n' type: 'BatchNorm' bottom: 'c' top: 'c' }"
       "layer { name: 's' type: 'Scale' bottom: 'c' top: 'c' scale_param { bias_term: true } }"
       "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }"
       "layer { name: 'd' type: 'Slice' bottom: 'c' top: 'd' top: 'e' }"
       "layer { name: 'q' type: 'Silence' bottom: 'e' }"
       "layer { name: 'sum' type: 'Eltwise' bottom: 'c' bottom: 'x0' top: 'sum' }"
       "layer { name: 'f' type: 'InnerProduct' bottom: 'sum' top: 'f' inner_product_param { num_output: 5 } }"
       "layer { name: 'o' type: 'Dropout' bottom: 'f' top: 'f' }"
       "layer { name: 'p' type: 'Softmax' bottom: 'f' top: 'p' }"},
  };
}

class Onnx : public NetRuns {
 protected:
  banyan_onnx::GraphProto graph_of(const Case& tested) {
    banyan_onnx::ModelProto model;
    EXPECT_TRUE(model.ParseFromString(export_net(model_of(tested)->net())));
    EXPECT_EQ(model.opset_import(0).version(), 17);
    return model.graph();
  }

  void write_case(const Case& tested, const std::string& name) {
    const auto model = model_of(tested);
    fill_inputs(*model, tested.inputs);
    write_run(*model, name);
  }

  /// NAME.onnx, and NAME.npz with inputs and what the net makes of them.
  void write_run(Model& model, const std::string& name) {
    Net& net = model.net();
    io::NamedArrays arrays;
    // What a recurrent layer carries from one pass to the next.
    const auto keep_states = [&](const std::string& prefix, const std::string& suffix) {
      bool any = false;
      for (const auto& layer : net.layers()) {
        const char* state = "h";
        for (const Tensor* carried : layer->carried()) {
          any = true;
          keep(arrays, cat(prefix, layer->name(), "/", state, suffix), model, *carried,
               Shape{1, carried->shape()[0], carried->shape()[1]});
          state = "c";
        }
      }
      return any;
    };
    keep_inputs(arrays, model);
    run(model);
    if (keep_states("in/", "_before")) run(model);
    for (const Blob* output : net.outputs())
      keep(arrays, "out/" + output->name, model, output->data, output->shape);
    keep_states("out/", "_after");
    write_net(net, path(name + ".onnx"));
    io::write_npz(path(name + ".npz"), arrays);
  }

  void compare() { NetRuns::compare("compare.py", "onnx and onnxruntime"); }
};

TEST_F(Onnx, CasesCoverEveryType) {
  std::string texts = "'Input' 'Split'";  // in every net with inputs; where a blob has two readers
  for (const Case& tested : all_cases()) texts += tested.text;
  for (const std::string& type : exported_types()) EXPECT_THAT(texts, HasSubstr("'" + type + "'"));
}

TEST_F(Onnx, ComputesWhatTheNetComputes) {
  const std::vector<Case> cases = all_cases();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].text);
    write_case(cases[i], cat("case_", i));
  }
  compare();
}

/// Deploy nets of models/ that run in a moment. (The others have the same layers, but for those of the
/// cases.)
TEST_F(Onnx, ComputesWhatTheDeployNetsOfModelsCompute) {
  if (std::system("command -v python3 >/dev/null") != 0) GTEST_SKIP() << "models/generate.py needs python3";
  const std::string made = path("models");
  constexpr double kChain = 2, kResidual = 0.5;
  const std::map<std::string, double> written = {{"cifar10_resnet56/deploy", kResidual},
                                                 {"cifar10_resnet56/sync_bn_deploy", kResidual},
                                                 {"densenet121/deploy", kChain},
                                                 {"googlenet/deploy", kChain},
                                                 {"inception_bn/deploy", kChain},
                                                 {"mnist_autoencoder/deploy", kChain},
                                                 {"mnist_siamese/deploy", kChain},
                                                 {"mobilenet_v1/deploy", kChain},
                                                 {"mobilenet_v2/sync_bn_deploy", kResidual},
                                                 {"resnet18/deploy", kResidual},
                                                 {"shufflenet_v1/deploy", kResidual},
                                                 {"squeezenet/deploy", kChain},
                                                 {"tsn_rgb/deploy", kChain}};
  std::map<std::string, double> files;
  std::string names;
  for (const auto& [net, gain] : written) {
    names += " " + net.substr(0, net.find('/'));
    files[made + "/" + net] = gain;
  }
  ASSERT_EQ(
      std::system(("python3 -B '" BANYAN_SOURCE "/models/generate.py' --out='" + made + "'" + names).c_str()),
      0);
  for (const char* net : {"cifar10_quick/deploy", "lenet/deploy", "lenet/sync_bn_deploy"})
    files[cat(BANYAN_SOURCE "/models/", net)] = kChain;
  files[BANYAN_SOURCE "/models/cifar10_resnet20/deploy"] = kResidual;
  std::size_t number = 0;
  for (const auto& [file, gain] : files) {
    SCOPED_TRACE(file);
    const auto model = model_of_file(file + ".prototxt");
    fill_as_trained(*model, gain);
    fill_inputs(*model, Inputs::signed_values, number);
    write_run(*model, cat("net_", number++));
  }
  compare();
}

TEST_F(Onnx, NamesAreThoseOfTheNet) {
  const auto graph = graph_of(all_cases().back());
  ASSERT_EQ(graph.input_size(), 1);
  EXPECT_EQ(graph.input(0).name(), "x0");
  const auto& shape = graph.input(0).type().tensor_type().shape();
  ASSERT_EQ(shape.dim_size(), 4);
  EXPECT_EQ(shape.dim(3).dim_value(), 6);
  std::vector<std::string> outputs, nodes;
  for (const auto& output : graph.output()) outputs.push_back(output.name());
  EXPECT_THAT(outputs, ElementsAre("d", "p"));
  std::set<std::string> written = {"x0"};
  for (const auto& constant : graph.initializer()) EXPECT_TRUE(written.insert(constant.name()).second);
  for (const auto& node : graph.node()) {
    nodes.push_back(node.op_type());
    for (const std::string& input : node.input()) EXPECT_EQ(written.count(input), 1u) << input;
    for (const std::string& output : node.output()) EXPECT_TRUE(written.insert(output).second) << output;
  }
  // The Scale is a part of the normalization; Split and Silence are nothing.
  EXPECT_THAT(nodes, ElementsAre("Conv", "BatchNormalization", "Relu", "Split", "Sum", "Flatten", "Gemm",
                                 "Identity", "Softmax"));
}

/// Who does not give the states begins with zeros.
TEST_F(Onnx, StatesOfRecurrentLayersAreOptionalInputsAndOutputs) {
  const auto graph = graph_of(recurrent("LSTM", ""));
  std::vector<std::string> inputs, outputs;
  for (const auto& input : graph.input()) inputs.push_back(input.name());
  for (const auto& output : graph.output()) outputs.push_back(output.name());
  EXPECT_THAT(inputs, ElementsAre("x0", "x1", "it/h_before", "it/c_before"));
  EXPECT_THAT(outputs, ElementsAre("y", "it/h_after", "it/c_after"));
  int defaults = 0;
  for (const auto& constant : graph.initializer())
    if (constant.name().ends_with("_before")) {
      ++defaults;
      EXPECT_THAT(std::vector<std::int64_t>(constant.dims().begin(), constant.dims().end()),
                  ElementsAre(1, 2, 3));
      EXPECT_EQ(constant.raw_data(), std::string(6 * sizeof(float), '\0'));
    }
  EXPECT_EQ(defaults, 2);
}

TEST_F(Onnx, BatchNormDividesByItsFactor) {
  const auto model = model_of(one("BatchNorm", "", {{1, 2}}));
  Net& net = model->net();
  std::vector<Parameter>& parameters = net.layers().at(1)->parameters();
  set_values(model->context(), {2, 4}, parameters[0].value);
  set_values(model->context(), {8, 16}, parameters[1].value);
  set_values(model->context(), {4}, parameters[2].value);
  banyan_onnx::ModelProto made;
  ASSERT_TRUE(made.ParseFromString(export_net(net)));
  std::vector<std::vector<float>> constants;
  for (const auto& constant : made.graph().initializer()) {
    std::vector<float> values(constant.raw_data().size() / sizeof(float));
    std::memcpy(values.data(), constant.raw_data().data(), constant.raw_data().size());
    constants.push_back(values);
  }
  EXPECT_THAT(constants, ElementsAre(ElementsAre(1, 1), ElementsAre(0, 0), ElementsAre(0.5, 1),
                                     ElementsAre(2, 4)));  // slope, bias, mean, variance
}

TEST_F(Onnx, RefusesByName) {
  const auto refused = [&](const Case& tested) {
    return bad_input_of([&] { export_net(model_of(tested)->net()); });
  };
  EXPECT_THAT(refused(one("SPP", "spp_param { pyramid_height: 2 }")),
              HasSubstr("layer \"it\" (SPP) cannot become ONNX; the types that can: "));
  EXPECT_THAT(refused(one("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 }")),
              HasSubstr("layer \"it\" (Pooling): STOCHASTIC pooling; ONNX cannot express it"));
  const auto overlapping = undone("kernel_size: 3 stride: 2", "type: 'Upsample'", {2, 3, 6, 6});
  EXPECT_THAT(refused(overlapping), AllOf(HasSubstr("layer \"it\" (Upsample): positions that several pixels"),
                                          HasSubstr("the mask \"mask\" is no second output")));
  EXPECT_THAT(refused(one("Unpooling", "unpooling_param { unpool: MAX kernel_size: 2 stride: 2 }",
                          {kPlanes, kPlanes})),
              HasSubstr("the mask \"x1\" is no second output of a Pooling layer"));
  EXPECT_THAT(refused(one("Unpooling", "unpooling_param { unpool: FIXED kernel_size: 2 stride: 2 }")),
              HasSubstr("layer \"it\" (Unpooling): unpool FIXED; ONNX cannot express it"));
  // 7 values, windows of 2 at 0, 4 and, rounded up, 8.
  EXPECT_THAT(refused(one("Pooling", "pooling_param { kernel_size: 2 stride: 4 }", {{1, 1, 7, 7}})),
              HasSubstr("the last window of 2 begins at 8, outside of the 7 values"));
  EXPECT_THAT(refused(one("ArgMax", "argmax_param { top_k: 2 }")), HasSubstr("top_k or out_max_val"));
  EXPECT_THAT(refused(one("InnerProduct", "inner_product_param { num_output: 2 normalize: true }")),
              HasSubstr("layer \"it\" (InnerProduct): normalize; ONNX cannot express it"));
  EXPECT_THAT(refused(one("InnerProduct", "inner_product_param { bias_term: false }", {{1, 2}, {3, 2}})),
              HasSubstr("weights as second input"));
  EXPECT_THAT(refused(one("Scale", "scale_param { max_value: 2 }")), HasSubstr("min_value or max_value"));
  EXPECT_THAT(refused(one("Dropout", "phase: TRAIN")), HasSubstr("has phase: TRAIN"));
  EXPECT_THAT(refused(one("BatchNorm", "batch_norm_param { use_global_stats: false }")),
              HasSubstr("statistics of the batch"));
  EXPECT_THAT(refused(one("BN", "bn_param { bn_mode: LEARN }")), HasSubstr("statistics of the batch"));
  EXPECT_THAT(refused(one("Convolution", "convolution_param { num_output: 2 kernel_size: 2 axis: 2 }")),
              HasSubstr("axis other than 1"));
}

}  // namespace
}  // namespace banyan::onnx
