// What OpenCV's reader of Caffe's files, which shares no code with ours, computes from our prototxt and
// .caffemodel, where Python has a cv2 with that reader (before version 5).
#include <filesystem>
#include <map>
#include <regex>

#include "banyan/io/binary_proto.hpp"
#include "banyan/net/parameter_values.hpp"
#include "onnx/net_runs.hpp"

namespace banyan {
namespace {

class OpenCv : public NetRuns {
 protected:
  /// NAME.prototxt, NAME.caffemodel, and NAME.npz with inputs and the output, of which there must be one.
  void write_run(Model& model, const std::string& prototxt, const std::string& name) {
    io::NamedArrays arrays;
    keep_inputs(arrays, model);
    run(model);
    const std::vector<Blob*> outputs = model.net().outputs();
    ASSERT_EQ(outputs.size(), 1U);
    keep(arrays, "out", model, outputs[0]->data, outputs[0]->shape);
    io::write_npz(path(name + ".npz"), arrays);
    io::write_binary_proto(path(name + ".caffemodel"), to_proto(model.net(), false));
    std::ostringstream text;
    text << std::ifstream(prototxt).rdbuf();
    std::ofstream(path(name + ".prototxt"))
        << std::regex_replace(text.str(), std::regex("round_mode: FLOOR"), "ceil_mode: false");
  }
  void compare() { NetRuns::compare("opencv_compare.py", "cv2, of OpenCV before 5"); }
};

/// Types, settings and spellings that OpenCV has. (It has no `k` of LRN, and adds MVN's eps to the variance,
/// not to the deviation.)
std::vector<Case> opencv_cases() {
  const auto pool = [](const std::string& settings, const Shape& shape) {
    return one("Pooling", "pooling_param { " + settings + " }", {shape});
  };
  const auto conv = [](const std::string& type, const std::string& settings, const Shape& shape) {
    return one(type, "convolution_param { " + settings + " }", {shape});
  };
  const Shape odd{2, 4, 9, 8};
  return {
      conv("Convolution", "num_output: 6 kernel_size: 3 stride: 2 pad: 1 dilation: 2 group: 2", odd),
      conv("Convolution", "num_output: 3 kernel_h: 3 kernel_w: 1 pad_h: 2 pad_w: 0 stride_w: 2 stride_h: 1",
           kPlanes),
      conv("Convolution", "num_output: 4 kernel_size: 3 bias_term: false group: 4", odd),
      conv("Convolution",
           "num_output: 3 kernel_size: 2 kernel_size: 3 kernel_size: 2 pad: 1 pad: 1 pad: 0 stride: 2 "
           "stride: 1 stride: 2",
           {2, 4, 5, 6, 7}),
      conv("Deconvolution", "num_output: 3 kernel_size: 4 stride: 2 pad: 1", kPlanes),
      conv("Deconvolution", "num_output: 4 kernel_size: 4 stride: 2 pad: 1 group: 4 bias_term: false",
           kPlanes),
      conv("Deconvolution", "num_output: 6 kernel_h: 3 kernel_w: 2 stride_h: 1 stride_w: 3 group: 2",
           kPlanes),
      one("InnerProduct", "inner_product_param { num_output: 5 }"),
      one("InnerProduct", "inner_product_param { num_output: 5 bias_term: false }"),
      one("InnerProduct", "inner_product_param { num_output: 5 axis: 2 }"),
      pool("kernel_size: 3 stride: 2", odd),
      pool("kernel_size: 3 stride: 2 pad: 1", odd),
      pool("kernel_size: 3 stride: 2 ceil_mode: false", {2, 4, 10, 8}),
      pool("kernel_h: 2 kernel_w: 3 stride_h: 1 stride_w: 2 pad_w: 1 pad_h: 0", odd),
      pool("pool: AVE kernel_size: 3 stride: 2", odd),
      pool("pool: AVE kernel_size: 3 stride: 2 pad: 1", odd),
      pool("pool: AVE kernel_size: 3 stride: 3 pad: 1", {2, 4, 10, 11}),
      pool("pool: AVE global_pooling: true", odd),
      pool("pool: MAX global_pooling: true", odd),
      one("LRN", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 }"),
      one("LRN", "lrn_param { local_size: 5 alpha: 0.5 beta: 0.6 }", {{2, 9, 3, 4}}),
      one("LRN", "lrn_param { norm_region: WITHIN_CHANNEL alpha: 0.5 local_size: 3 }"),
      one("BatchNorm", "batch_norm_param { eps: 0.01 }"),
      one("Scale", "scale_param { bias_term: true }"),
      one("Scale"),
      one("Scale", "scale_param { axis: 0 }", {kPlanes, {2, 4}}),
      one("MVN"),
      one("MVN", "mvn_param { across_channels: true }"),
      one("MVN", "mvn_param { normalize_variance: false }"),
      one("Normalize", "norm_param { across_spatial: false channel_shared: false }"),
      one("Normalize", "norm_param { across_spatial: true channel_shared: true }"),
      one("Softmax"),
      one("Softmax", "softmax_param { axis: -1 }"),
      one("ReLU"),
      one("ReLU", "relu_param { negative_slope: 0.1 }"),
      one("PReLU"),
      one("PReLU", "prelu_param { channel_shared: true }"),
      one("ELU"),
      one("Sigmoid"),
      one("TanH"),
      one("BNLL"),
      one("AbsVal"),
      one("Exp"),
      one("Exp", "exp_param { base: 2 scale: 0.5 shift: 1.5 }"),
      one("Power", "power_param { power: 2 scale: 0.5 shift: 1.5 }"),
      one("Power", "power_param { scale: 0.5 shift: -1.5 }"),
      one("Eltwise", "", {kPlanes, kPlanes, kPlanes}),
      one("Eltwise", "eltwise_param { coeff: 1 coeff: -0.5 }", {kPlanes, kPlanes}),
      one("Eltwise", "eltwise_param { operation: PROD }", {kPlanes, kPlanes}),
      one("Eltwise", "eltwise_param { operation: MAX }", {kPlanes, kPlanes}),
      one("Concat", "", {kPlanes, {2, 3, 5, 6}}),
      one("Concat", "concat_param { axis: 2 }", {kPlanes, {2, 4, 1, 6}}),
      one("Flatten"),
      one("Flatten", "flatten_param { axis: 2 }"),
      one("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 6 } }"),
      one("Reshape", "reshape_param { shape { dim: 2 dim: 2 } axis: 1 num_axes: 1 }"),
      one("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }"),
      one("Crop", "crop_param { axis: 2 offset: 1 offset: 2 }", {kPlanes, {2, 4, 3, 4}}),
      one("Crop", "crop_param { axis: 1 offset: 1 }", {kPlanes, {2, 2, 3, 4}}),
      one("ShuffleChannel", "shuffle_channel_param { group: 2 }"),
      one("Interp", "interp_param { height: 9 width: 13 }"),
      one("Interp", "interp_param { zoom_factor: 3 }"),
      one("ROIPooling", "roi_pooling_param { pooled_h: 3 pooled_w: 2 spatial_scale: 0.5 }",
          {{4, 4, 9, 8}, {2, 5}}, Inputs::whole),
      one("PriorBox",
          "prior_box_param { min_size: 4 max_size: 9 aspect_ratio: 2 flip: true clip: false variance: 0.1 "
          "variance: 0.1 variance: 0.2 variance: 0.2 }",
          {kPlanes, {1, 3, 20, 30}}),
      one("Dropout"),
      // The slices and the sum of both, so that there is one output.
      {"layer { name: 'd' type: 'Slice' bottom: 'x0' top: 'd' top: 'e' slice_param { slice_point: 1 } }"
       "layer { name: 'c' type: 'Convolution' bottom: 'e' top: 'c' convolution_param { num_output: 1 "
       "kernel_size: 1 } }"
       "layer { name: 's' type: 'Eltwise' bottom: 'c' bottom: 'd' top: 's' }"},
      // As BVLC's users write a normalization.
      {"layer { name: 'c' type: 'Convolution' bottom: 'x0' top: 'c' convolution_param { num_output: 4 "
       "kernel_size: 3 pad: 1 } }"
       "layer { name: 'n' type: 'BatchNorm' bottom: 'c' top: 'c' }"
       "layer { name: 's' type: 'Scale' bottom: 'c' top: 'c' scale_param { bias_term: true } }"
       "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }"
       "layer { name: 'sum' type: 'Eltwise' bottom: 'c' bottom: 'x0' top: 'sum' }"},
  };
}

TEST_F(OpenCv, ComputesWhatTheNetComputes) {
  const std::vector<Case> cases = opencv_cases();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].text);
    const auto model = model_of(cases[i]);
    fill_inputs(*model, cases[i].inputs);
    write_run(*model, path("net.prototxt"), cat("case_", i));
  }
  std::remove(path("net.prototxt").c_str());
  compare();
}

TEST_F(OpenCv, ComputesWhatTheDeployNetsOfModelsCompute) {
  if (std::system("command -v python3 >/dev/null") != 0) GTEST_SKIP() << "models/generate.py needs python3";
  constexpr double kChain = 2, kResidual = 0.5;
  const std::map<std::string, double> generated = {
      {"cifar10_resnet56", kResidual}, {"densenet121", kChain}, {"googlenet", kChain},
      {"mobilenet_v1", kChain},        {"resnet18", kResidual}, {"shufflenet_v1", kResidual},
      {"sphereface20", kResidual},     {"squeezenet", kChain}};
  std::map<std::string, double> files;
  std::string names;
  for (const auto& [net, gain] : generated) {
    names += " " + net;
    files[path("models/" + net + "/deploy.prototxt")] = gain;
  }
  ASSERT_EQ(
      std::system(("python3 -B '" BANYAN_SOURCE "/models/generate.py' --out='" + path("models") + "'" + names)
                      .c_str()),
      0);
  for (const char* net : {"cifar10_quick", "lenet"})
    files[cat(BANYAN_SOURCE "/models/", net, "/deploy.prototxt")] = kChain;
  std::size_t number = 0;
  for (const auto& [file, gain] : files) {
    SCOPED_TRACE(file);
    const auto model = model_of_file(file);
    fill_as_trained(*model, gain);
    fill_inputs(*model, Inputs::signed_values, number);
    write_run(*model, file, cat("net_", number++));
  }
  compare();
}

/// Any nets with weights: BANYAN_DEPLOY_NETS is a folder of NAME.prototxt with NAME.caffemodel.
TEST_F(OpenCv, ComputesWhatYourNetsCompute) {
  const char* folder = std::getenv("BANYAN_DEPLOY_NETS");
  if (folder == nullptr) GTEST_SKIP() << "BANYAN_DEPLOY_NETS names no folder";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".prototxt") continue;
    SCOPED_TRACE(entry.path());
    ModelOptions options;
    options.model = entry.path();
    options.weights = {std::filesystem::path(entry.path()).replace_extension("caffemodel")};
    Model model(options);
    fill_inputs(model, Inputs::pixels);
    write_run(model, entry.path(), entry.path().stem());
    std::filesystem::copy_file(options.weights[0], path(entry.path().stem().string() + ".caffemodel"),
                               std::filesystem::copy_options::overwrite_existing);
  }
  compare();
}

}  // namespace
}  // namespace banyan
