// TRT (NVIDIA): the layers of the net that it names, and Accuracy layers.
#include <fstream>

#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"
#include "io_test_tools.hpp"

namespace banyan::io {
namespace {

class UpgradeTrt : public ::testing::Test {
 protected:
  caffe::NetParameter upgraded(const std::string& settings, const std::string& deploy,
                               const std::string& bottoms = "bottom: 'x' bottom: 'label'") const {
    std::ofstream(folder_.file("deploy")) << deploy;
    caffe::NetParameter net = parse_net_text(
        "layer { name: 'd' type: 'DummyData' top: 'x' top: 'label' include { phase: TEST } }\n"
        "layer { name: 't' type: 'TRT' " +
            bottoms + " top: 'y' include { phase: TEST } trt_param { " + settings + " } }",
        "test");
    upgrade_net(net, "test");
    return net;
  }
  std::string settings(const std::string& more) const {
    return "deploy: '" + folder_.file("deploy") + "' " + more;
  }
  std::string refusal(const std::string& settings, const std::string& deploy,
                      const std::string& bottoms = "bottom: 'x' bottom: 'label'") const {
    return error_of([&] { upgraded(settings, deploy, bottoms); });
  }
  TemporaryFolder folder_;
};

constexpr const char* kDeploy =
    "input: 'x' input_shape { dim: 1 dim: 4 }\n"
    "layer { name: 'i' type: 'InnerProduct' bottom: 'x' top: 'i' inner_product_param { num_output: 7 } }\n"
    "layer { name: 'r' type: 'ReLU' bottom: 'i' top: 'i' }\n"
    "layer { name: 'p' type: 'Softmax' bottom: 'i' top: 'prob' }";

TEST_F(UpgradeTrt, TheLayersOfTheNetTakeItsPlace) {
  const std::string phase = "include { phase: TEST } ";
  EXPECT_EQ(
      to_text(upgraded(settings("model: 'm' calibrator: 'c' top_k: 5 deploy_outputs: 'prob'"), kDeploy)),
      to_text(parse_net_text(
          "layer { name: 'd' type: 'DummyData' top: 'x' top: 'label' " + phase + "}\n" +
              "layer { name: 'i' type: 'InnerProduct' bottom: 'x' top: 'i' " + phase +
              "inner_product_param { num_output: 7 } }\n"
              "layer { name: 'r' type: 'ReLU' bottom: 'i' top: 'i' " +
              phase + "}\nlayer { name: 'p' type: 'Softmax' bottom: 'i' top: 'y' " + phase +
              "}\n"
              "layer { name: 't_top_1' type: 'Accuracy' bottom: 'y' bottom: 'label' top: 't_top_1' " +
              phase +
              "accuracy_param { top_k: 1 } }\n"
              "layer { name: 't_top_5' type: 'Accuracy' bottom: 'y' bottom: 'label' top: 't_top_5' " +
              phase + "accuracy_param { top_k: 5 } }",
          "expected")));
  // An output in place.
  EXPECT_EQ(upgraded(settings("deploy_outputs: 'i'"), kDeploy).layer(3).bottom(0), "y");
  EXPECT_EQ(upgraded(settings("deploy_outputs: 'i'"), kDeploy).layer_size(), 5);
}

TEST_F(UpgradeTrt, SaysWhatIsMissing) {
  const std::string output = "deploy_outputs: 'prob' ";
  expect_contains(refusal(output, kDeploy), "layer \"t\" (TRT): trt_param.deploy is missing");
  expect_contains(refusal("deploy: '/none/deploy' " + output, kDeploy), "/none/deploy");
  expect_contains(refusal(settings(""), kDeploy), "deploy_outputs must name one blob of that net; found 0");
  expect_contains(refusal(settings("deploy_outputs: 'q'"), kDeploy), "\"q\", which no layer of ");
  expect_contains(refusal(settings(output), kDeploy, "bottom: 'label' bottom: 'x'"),
                  "its data are \"label\", but the input of ");
  expect_contains(refusal(settings(output), kDeploy, "bottom: 'x'"), "takes two bottoms");
  expect_contains(refusal(settings(output), "layer { type: 'Convolutio"), "trt_param.deploy: ");
  const std::string itself =
      "layer { name: 't' type: 'TRT' bottom: 'x' bottom: 'label' top: 'y' trt_param { " + settings(output) +
      " } }";
  expect_contains(refusal(settings(output), itself), "has a TRT layer itself");
}

/// A file with other faults is not said to have an unknown type.
TEST_F(UpgradeTrt, IsNoUnknownType) {
  const std::string told =
      error_of([] { parse_net_text("layer { name: 't' type: 'TRT' trt_param { deploi: 'd' } }", "n"); });
  expect_contains(told, "unknown field \"deploi\"");
  EXPECT_EQ(told.find("unknown type"), std::string::npos) << told;
}

}  // namespace
}  // namespace banyan::io
