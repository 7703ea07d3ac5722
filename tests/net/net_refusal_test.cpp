// What a Net refuses to build, and the messages.
#include "net/net_test_tools.hpp"
#include "net/small_nets.hpp"

namespace banyan {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& text, NetOptions options = f64_options()) {
  return message_of([&] {
    NetBench bench;
    bench.make(text, options);
  });
}

TEST(NetRefusal, NamesUnknownTypes) {
  const auto message = refusal("layer { name: 'x' type: 'Convolutoin' top: 'y' }");
  EXPECT_THAT(message, HasSubstr("unknown type \"Convolutoin\" (did you mean \"Convolution\"?)"));
}

TEST(NetRefusal, NamesLayerAndFileOfABadSetting) {
  NetOptions options = f64_options();
  options.origin = "train.prototxt";
  const auto message = refusal(
      std::string(kSource) + "layer { name: 'c9' type: 'Convolution' bottom: 'data' top: 'c' }", options);
  EXPECT_THAT(message, HasSubstr("while setting up layer \"c9\" (Convolution)"));
  EXPECT_THAT(message, HasSubstr("in the net of train.prototxt"));
}

TEST(NetRefusal, ChecksConnectionsAndArity) {
  EXPECT_THAT(refusal(std::string(kSource) + inner_product("ip", "dada", "ip", 2)),
              HasSubstr("did you mean \"data\"?"));
  EXPECT_THAT(refusal(std::string(kSource) + "layer { name: 'e' type: 'Eltwise' bottom: 'data' top: 'e' }"),
              HasSubstr("layer \"e\" (Eltwise) takes at least 2 bottoms, found 1"));
  EXPECT_THAT(refusal(std::string(kSource) + inner_product("ip", "data", "label", 2)),
              HasSubstr("is produced twice"));
}

TEST(NetRefusal, ReductionsOfTheBatchOnSeveralDevices) {
  NetOptions options = f64_options();
  options.devices = 2;
  const std::string sum =
      std::string(kSource) +
      "layer { name: 'r' type: 'Reduction' bottom: 'data' top: 'r' reduction_param { operation: SUMSQ } ";
  EXPECT_THAT(refusal(sum + "} layer { name: 'p' type: 'Power' bottom: 'r' top: 'p' }", options),
              HasSubstr("layer \"r\" (Reduction) reduces the batch, of which each device has a share"));
  EXPECT_THAT(refusal("layer { name: 'w' type: 'Parameter' top: 'w' parameter_param { shape { dim: 3 } } }"
                      "layer { name: 'r' type: 'Reduction' bottom: 'w' top: 'r' loss_weight: 1 }",
                      options),
              HasSubstr("the same on every device"));
  NetBench bench;
  EXPECT_NO_THROW(bench.make(sum + "loss_weight: 1 }", options));
  EXPECT_NO_THROW(bench.make(sum + "} layer { name: 's' type: 'Silence' bottom: 'r' }", options));
  options.devices = 1;
  EXPECT_NO_THROW(bench.make(sum + "} layer { name: 'p' type: 'Power' bottom: 'r' top: 'p' }", options));
}

TEST(NetRefusal, RowsOfTheBatchOnSeveralDevices) {
  NetOptions options = f64_options();
  options.devices = 2;
  const std::string
      rows =
          "layer { name: 'w' type: 'Parameter' top: 'w' parameter_param { shape { dim: 3 dim: 2 } } } "
          "layer { name: 'v' type: 'ReLU' bottom: 'w' top: 'v' } ",
      end = "' top: 'y' inner_product_param { bias_term: false } }";
  const std::string batch =
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 4 dim: 2 } } } " + rows;
  for (const char* type : {"InnerProduct", "InnerDistance"}) {
    const std::string layer = batch + "layer { name: 'p' type: '" + type + "' bottom: 'x' bottom: '";
    EXPECT_THAT(refusal(layer + "x" + end, options),
                HasSubstr("compares each sample with all of input 2, of which each device has a share"));
    NetBench bench;
    EXPECT_NO_THROW(bench.make(layer + "v" + end, options));
    options.devices = 1;
    EXPECT_NO_THROW(bench.make(layer + "x" + end, options));
    options.devices = 2;
  }
}

TEST(NetRefusal, NormalizedParametersThatAreShared) {
  const std::string data =
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 4 dim: 2 } } } ";
  const auto product = [](const std::string& name) {
    return "layer { name: '" + name + "' type: 'InnerProduct' bottom: 'x' top: '" + name +
           "' param { name: 'w' } inner_product_param { num_output: 2 bias_term: false normalize: true } } ";
  };
  EXPECT_THAT(
      refusal(data + product("a") + product("b")),
      HasSubstr("parameter \"w\" is shared by layer \"a\" (InnerProduct) and layer \"b\" (InnerProduct), "
                "which is not possible where it is normalized"));
}

TEST(NetRefusal, AnEmptyPhase) {
  EXPECT_THAT(refusal("layer { name: 'in' type: 'Input' top: 'x' include { phase: TEST } }"),
              HasSubstr("no layer for phase TRAIN"));
}

TEST(NetRefusal, DoubledNamesOfLayersWithParameters) {
  EXPECT_THAT(
      refusal(std::string(kSource) + inner_product("ip", "data", "a", 2) + inner_product("ip", "a", "b", 2)),
      HasSubstr("two layers are named \"ip\""));
}

TEST(NetRefusal, TooManyParamEntries) {
  EXPECT_THAT(
      refusal(std::string(kSource) + inner_product("ip", "data", "a", 2, "param {} param {} param {}")),
      HasSubstr("layer \"ip\" (InnerProduct) has 3 `param` entries but only 2 parameters"));
}

TEST(NetRefusal, LearnedBatchNormStatistics) {
  EXPECT_THAT(refusal(std::string(kSource) + "layer { name: 'bn' type: 'BatchNorm' bottom: 'data' top: 'y' "
                                             "param { lr_mult: 0 } param { lr_mult: 1 } }"),
              HasSubstr("layer \"bn\" (BatchNorm): blob 1 is a running statistic"));
}

TEST(NetRefusal, SharersThatDoNotFit) {
  const std::string shared = "param { name: 'w' } param { name: 'b' }";
  EXPECT_THAT(
      refusal(std::string(kSource) + inner_product("p", "data", "a", 2, shared) +
              inner_product("q", "a", "b", 2, shared)),
      HasSubstr("layer \"q\" (InnerProduct) shares parameter \"w\" of shape 2 192 (384) with layer \"p\""));
  EXPECT_THAT(
      refusal(std::string(kSource) + inner_product("p", "data", "a", 2, "param { name: 'w' lr_mult: 1 }") +
              inner_product("q", "data", "b", 2, "param { name: 'w' lr_mult: 2 }")),
      HasSubstr("parameter \"w\" has lr_mult 1 in layer \"p\" (InnerProduct) and 2 in layer \"q\""));
}

}  // namespace
}  // namespace banyan
