// Batch normalization and the activation after it in one tensor: where that is done, that gradients match
// those of the net that keeps both, and that memory use falls.
#include "banyan/net/in_place_abn.hpp"

#include <cmath>

#include "banyan/device/memory.hpp"
#include "banyan/net/fusion.hpp"
#include "net/graph_test_tools.hpp"
#include "net/net_test_tools.hpp"
#include "relative_distance.hpp"

namespace banyan {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

GraphLayer node(const std::string& name, std::vector<int> inputs, std::vector<int> outputs) {
  GraphLayer made = graph_layer(std::move(inputs), std::move(outputs));
  made.name = made.type = name;
  made.traits.backward_reads_outputs = false;
  return made;
}
GraphLayer norm(int input, int output) {
  GraphLayer made = node("norm", {input}, {output});
  made.traits.recovers_input = true;
  return made;
}
GraphLayer leaky(int input, int output) {
  GraphLayer made = node("leaky", {input}, {output});
  made.traits.activation = ops::relu_activation(0.5);
  made.traits.backward_reads_outputs = true;
  return made;
}

/// What is found after a layer that makes blob 0. `converted`: the layer whose input comes in another layout.
std::vector<InPlaceAbn> found_in(const std::vector<GraphLayer>& layers, int converted = -1) {
  std::vector<GraphLayer> all{node("before", {}, {0})};
  all.insert(all.end(), layers.begin(), layers.end());
  std::vector<bool> converts(all.size(), false);
  if (converted >= 0) converts[static_cast<std::size_t>(converted) + 1] = true;
  const Graph graph = graph_of(all);
  const std::vector<int> affines = find_affines(graph, converts);
  return find_in_place_abn(with_affines(graph, affines), converts, affines);
}

/// The reason given for the only normalization; empty if it works in place.
std::string reason(const std::vector<GraphLayer>& layers, int converted = -1) {
  const std::vector<InPlaceAbn> found = found_in(layers, converted);
  EXPECT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].activation < 0, !found[0].reason.empty());
  return found[0].reason;
}

TEST(FindInPlaceAbn, TakesNormalizationsWithAnInvertibleActivation) {
  const GraphLayer conv = node("conv", {0}, {1}), last = node("last", {3}, {9});
  EXPECT_EQ(reason({conv, norm(1, 2), leaky(2, 3), last}), "");
  EXPECT_EQ(reason({conv, norm(1, 3), leaky(3, 3), last}), "");
  EXPECT_EQ(found_in({conv, norm(1, 2), leaky(2, 3), last})[0].activation, 3);
  GraphLayer frozen = norm(1, 2);
  frozen.needs_backward = false;
  EXPECT_THAT(found_in({conv, frozen, leaky(2, 3), last}), IsEmpty());
  // Slopes of its own that learn, over what is frozen.
  GraphLayer first = norm(1, 2);
  first.propagate = {false};
  first.learns = true;
  EXPECT_EQ(reason({conv, first, leaky(2, 3), last}), "");
}

/// A backward pass for the sake of the Scale after it is none of its own.
TEST(FindInPlaceAbn, LeavesFrozenNormalizationsAlone) {
  const GraphLayer conv = node("conv", {0}, {1}), last = node("last", {4}, {9});
  GraphLayer frozen = norm(1, 2), scale = node("scale", {2}, {3});
  frozen.traits.fuses_affine = true;
  scale.traits.channel_slope = 0;
  scale.learns = true;
  EXPECT_EQ(reason({conv, frozen, scale, leaky(3, 4), last}), "");
  frozen.needs_backward = false;
  frozen.propagate = scale.propagate = {false};
  EXPECT_THAT(found_in({conv, frozen, scale, leaky(3, 4), last}), IsEmpty());
}

TEST(FindInPlaceAbn, NotWithoutSuchAnActivation) {
  const GraphLayer conv = node("conv", {0}, {1}), last = node("last", {3}, {9});
  EXPECT_THAT(reason({conv, norm(1, 3), node("scale", {3}, {3}), last}), HasSubstr("\"scale\" (scale)"));
  EXPECT_THAT(reason({conv, norm(1, 9)}), HasSubstr("its output is an output of the net"));
  EXPECT_THAT(reason({conv, norm(1, 2), leaky(2, 9)}), HasSubstr("\"leaky\" (leaky) is an output"));
  // Under another name.
  GraphLayer view = node("flatten", {3}, {9});
  view.traits.view = View::data_and_gradient;
  EXPECT_THAT(reason({conv, norm(1, 2), leaky(2, 3), view}), HasSubstr("is an output"));
  GraphLayer weighted = leaky(2, 3);
  weighted.loss_weights = {1};
  EXPECT_THAT(reason({conv, norm(1, 2), weighted, last}), HasSubstr("is an output"));
  EXPECT_THAT(reason({conv, norm(1, 2), leaky(2, 3), last}, 1), HasSubstr("the layout of its input"));
  EXPECT_THAT(reason({conv, norm(1, 2), leaky(2, 3), last}, 2), HasSubstr("\"leaky\" (leaky), not a ReLU"));
  EXPECT_THAT(reason({conv, norm(1, 2), leaky(2, 3), node("side", {2}, {5}), last}),
              HasSubstr("\"side\" (side) reads its output too"));
}

TEST(FindInPlaceAbn, NotWhereSomeoneElseNeedsTheInput) {
  const GraphLayer last = node("last", {3}, {9});
  const auto with = [&](const GraphLayer& before, std::vector<GraphLayer> between = {}) {
    std::vector<GraphLayer> layers{before};
    layers.insert(layers.end(), between.begin(), between.end());
    for (const GraphLayer& more : {norm(1, 2), leaky(2, 3), last}) layers.push_back(more);
    return reason(layers);
  };
  GraphLayer source = node("data", {}, {1}), sigmoid = node("sigmoid", {0}, {1}),
             split = node("split", {0}, {1, 4}), weighted = node("conv", {0}, {1});
  source.traits.source = sigmoid.traits.backward_reads_outputs = true;
  split.traits.view = View::data;
  weighted.loss_weights = {1};
  EXPECT_THAT(with(source), HasSubstr("its input comes from \"data\""));
  EXPECT_THAT(with(weighted), HasSubstr("its input has a loss weight"));
  EXPECT_THAT(with(sigmoid), HasSubstr("the backward pass of \"sigmoid\" (sigmoid) reads its input"));
  EXPECT_THAT(with(split, {node("side", {4}, {5})}), HasSubstr("\"side\" (side) reads its input too"));
  EXPECT_THAT(with(node("conv", {0}, {1}), {node("side", {1}, {5})}), HasSubstr("\"side\" (side) reads"));
  sigmoid.needs_backward = false;
  EXPECT_EQ(with(sigmoid), "");
}

std::string input(int batch, int size) {
  return cat("layer { name: 'in' type: 'Input' top: 'data' top: 'label' input_param { shape { dim: ", batch,
             " dim: 3 dim: ", size, " dim: ", size, " } shape { dim: ", batch, " } } } ");
}
std::string convolution(const std::string& bottom, const std::string& top, int outputs = 8) {
  return cat("layer { name: '", top, "' type: 'Convolution' bottom: '", bottom, "' top: '", top,
             "' convolution_param { num_output: ", outputs,
             " kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } } ");
}
const char* const kSlopes =
    "bn_param { slope_filler { type: 'uniform' min: -1.5 max: -0.5 } bias_filler { type: 'uniform' min: -0.5 "
    "max: 0.5 } }";
std::string layer(const std::string& type, const std::string& bottom, const std::string& top,
                  const std::string& more = "") {
  return cat("layer { name: '", top, "_", type, "' type: '", type, "' bottom: '", bottom, "' top: '", top,
             "' ", more, " } ");
}
std::string leaky_relu(const std::string& bottom, const std::string& top) {
  return layer("ReLU", bottom, top, "relu_param { negative_slope: 0.125 }");
}
std::string head(const std::string& bottom) {
  return "layer { name: 'ip' type: 'InnerProduct' bottom: '" + bottom +
         "' top: 'ip' inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } } "
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' } ";
}

/// Each dialect with each activation, in place and not, before a convolution and a Split; stored statistics;
/// after an activation, a layer that works in place in the file.
std::string every_kind() {
  return input(6, 10) + convolution("data", "a") + layer("SyncBN", "a", "a", kSlopes) + leaky_relu("a", "a") +
         convolution("a", "b") + layer("BN", "b", "b_n", kSlopes) + layer("ELU", "b_n", "b_e") +
         layer("Dropout", "b_e", "b_e", "dropout_param { dropout_ratio: 0.25 }") + convolution("b_e", "c") +
         layer("BatchNorm", "c", "c", "batch_norm_param { stats_batch_size: 4 }") +  // of 6
         layer("ELU", "c", "c", "elu_param { alpha: 0.5 lambda: 2 }") + convolution("c", "d") +
         layer("SyncBN", "d", "d_n", kSlopes) + leaky_relu("d_n", "d_r") +
         "layer { name: 'sum' type: 'Eltwise' bottom: 'c' bottom: 'd_r' top: 'sum' } " +
         convolution("sum", "e") +
         layer("BatchNorm", "e", "e_n", "batch_norm_param { use_global_stats: true eps: 1 }") +
         leaky_relu("e_n", "e_n") + head("e_n");
}

struct Results {
  std::vector<double> losses, gradients, statistics;
  bool operator==(const Results&) const = default;
};

/// Two passes whose gradients add up.
template <class T>
Results results_of(const std::string& text, NetOptions options = {}, const CpuDeviceOptions& device = {},
                   const std::function<void(Net&)>& prepare = {}) {
  NetBench bench(device);
  options.dtype = DTypeOf<T>::value;
  options.seed = 5;
  const auto net = bench.make(text, options);
  if (prepare) prepare(*net);
  bench.pass.update_statistics = true;
  feed<T>(bench, *net, 5);
  net->zero_gradients();
  Results results;
  for (int pass = 0; pass < 2; ++pass) {
    bench.pass.draw = pass;
    net->forward(bench.pass);
    net->backward(bench.pass);
    net->check_results();
    results.losses.push_back(loss_of(bench, *net));
  }
  for (const T value : values_of<T>(bench.context, net->flat_gradients())) results.gradients.push_back(value);
  for (const T value : values_of<T>(bench.context, net->statistics())) results.statistics.push_back(value);
  return results;
}

const std::string kOn = "in_place_abn: true ";

template <class T>
class InPlaceAbnNet : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(InPlaceAbnNet, Types);

TYPED_TEST(InPlaceAbnNet, HasTheGradientsOfThePlainNet) {
  // The normalized values are recovered with a few roundings of the output, amplified by |bias / slope| (here
  // at most 1) and, where an ELU is flat, by exp(-x), x > -5: together less than 200 epsilon per element,
  // over five layers.
  const double tolerance = 1000 * static_cast<double>(std::numeric_limits<TypeParam>::epsilon());
  for (const bool channels_last : {false, true}) {
    NetOptions options;
    options.channels_last = channels_last;
    const Results plain = results_of<TypeParam>(every_kind(), options);
    const Results in_place = results_of<TypeParam>(kOn + every_kind(), options);
    EXPECT_EQ(in_place.losses, plain.losses);  // forward passes are the same
    EXPECT_EQ(in_place.statistics, plain.statistics);
    EXPECT_LE(relative_distance(plain.gradients, in_place.gradients), tolerance);
    EXPECT_NE(in_place.gradients, plain.gradients) << "nothing was done in place";
  }
}

TYPED_TEST(InPlaceAbnNet, HasTheSameBitsHoweverItRuns) {
  const Results usual = results_of<TypeParam>(kOn + every_kind());
  for (const char* checkpoint : {"auto", "2", "4"})
    EXPECT_TRUE(results_of<TypeParam>(cat("checkpoint: '", checkpoint, "' ", kOn, every_kind())) == usual)
        << checkpoint;
  NetOptions alone;
  alone.fuse = false;
  EXPECT_TRUE(results_of<TypeParam>(kOn + every_kind(), alone) == usual);
  EXPECT_TRUE(results_of<TypeParam>(kOn + every_kind(), {}, {},
                                    [](Net& net) { net.observe_layers({}, {}); }) == usual);
  CpuDeviceOptions asynchronous;
  asynchronous.asynchronous = true;
  asynchronous.max_delay_us = 20;
  EXPECT_TRUE(results_of<TypeParam>(kOn + every_kind(), {}, asynchronous) == usual);
}

TEST(InPlaceAbn, WorksOverTheInput) {
  NetBench bench;
  const auto net = bench.make(kOn + every_kind(), {});
  ASSERT_EQ(net->plan().in_place_abn.size(), 5u);
  for (const InPlaceAbn& found : net->plan().in_place_abn) {
    EXPECT_EQ(found.reason, "");
    const Tensor& before = net->inputs_of(found.norm)[0]->data;
    EXPECT_TRUE(before.same_memory(net->outputs_of(found.norm)[0]->data));
    EXPECT_TRUE(before.same_memory(net->outputs_of(found.activation)[0]->data));
  }
  // What backward still needs is not overwritten, although the file asks for it.
  EXPECT_FALSE(net->find_blob("b_e")->data.same_memory(
      net->outputs_of(net->plan().in_place_abn[1].activation)[0]->data));
}

TEST(InPlaceAbn, HalvesTheMemory) {
  std::string deep = input(4, 16), bottom = "data";
  for (int i = 0; i < 24; ++i) {
    const std::string name = "c" + std::to_string(i);
    deep += convolution(bottom, name) +
            layer("SyncBN", name, name, "bn_param { slope_filler { value: 1 } }") + leaky_relu(name, name);
    bottom = name;
  }
  deep += head(bottom);
  std::vector<std::int64_t> planned;
  std::vector<std::size_t> peaks;
  for (const std::string& text : {deep, kOn + deep}) {
    reset_peak_of_all_devices();
    const std::size_t before = memory_of_all_devices().in_use;
    NetBench bench;
    const auto net = bench.make(text, f64_options());
    feed<double>(bench, *net, 5);
    net->forward(bench.pass);
    net->backward(bench.pass);
    peaks.push_back(memory_of_all_devices().peak - before);
    planned.push_back(net->plan().bytes);
    EXPECT_EQ(net->plan_without_in_place_abn().bytes, planned[0]);
    EXPECT_EQ(net->plan().bytes, planned.back());
  }
  // Two tensors of each of 24 blocks become one; besides them there are data and gradients in flight.
  EXPECT_LT(static_cast<double>(planned[1]), 0.56 * static_cast<double>(planned[0]));
  // What is planned is what is allocated, except what a normalization keeps per channel: of_output (2), the
  // slope's stand-in and the record, each rounded up to the allocator's granularity.
  const auto fewer = static_cast<double>(peaks[0]) - static_cast<double>(peaks[1]);
  EXPECT_NEAR(fewer, static_cast<double>(planned[0] - planned[1]), 24 * 3 * 256);
}

TEST(InPlaceAbn, SaysWhyNot) {
  NetBench bench;
  const auto reasons = [&](const std::string& text) {
    std::vector<std::string> found;
    const auto net = bench.make(kOn + text, {});
    for (const InPlaceAbn& one : net->plan().in_place_abn) found.push_back(one.reason);
    return found;
  };
  const std::string start = input(2, 6) + convolution("data", "a");
  EXPECT_THAT(reasons(start + layer("BN", "a", "n") + layer("ReLU", "n", "n") + head("n")),
              ElementsAre("after it comes \"n_ReLU\" (ReLU), not a ReLU with negative_slope > 0 or an ELU "
                          "with alpha > 0"));
  EXPECT_THAT(
      reasons(start + layer("BN", "a", "n") + leaky_relu("n", "n") +
              "layer { name: 'sum' type: 'Eltwise' bottom: 'a' bottom: 'n' top: 'sum' } " + head("sum")),
      ElementsAre("\"sum\" (Eltwise) reads its input too"));
  EXPECT_THAT(
      reasons(start + layer("ReLU", "a", "a") + layer("BN", "a", "n") + leaky_relu("n", "n") + head("n")),
      ElementsAre("the backward pass of \"a_ReLU\" (ReLU) reads its input"));
  EXPECT_THAT(reasons(input(2, 6) + layer("BN", "data", "n") + leaky_relu("n", "n") + head("n")),
              ElementsAre("its input comes from \"in\" (Input)"));
  NetOptions test;
  test.phase = Phase::test;
  EXPECT_THAT(bench.make(kOn + every_kind(), test)->plan().in_place_abn, IsEmpty());
  EXPECT_THAT(bench.make(every_kind(), {})->plan().in_place_abn, IsEmpty());
}

/// With a slope of 0 the normalized values, which its gradient needs, cannot be recovered.
TEST(InPlaceAbn, RefusesSlopesThatCannotBeUndone) {
  const auto text = [](const std::string& slope, const std::string& bias) {
    return kOn + input(2, 6) + convolution("data", "a") +
           layer("BN", "a", "n",
                 "bn_param { slope_filler { value: " + slope + " } bias_filler { value: " + bias + " } }") +
           leaky_relu("n", "n") + head("n");
  };
  EXPECT_NO_THROW(results_of<float>(text("0.001", "1")));
  EXPECT_NO_THROW(results_of<double>(text("0.00001", "1")));
  for (const std::string& wrong : {text("0", "0"), text("0.0001", "1")}) try {
      results_of<float>(wrong);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::runtime);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("\"n_BN\" (BN): the slope of channel 0 is 0, or so small"),
                                      HasSubstr("in_place_abn: false")));
    }
}

/// Pruned channels of a frozen stem.
TEST(InPlaceAbn, FrozenNormalizationsMayHaveSlopesOfZero) {
  const std::string text =
      input(2, 6) +
      "layer { name: 'a' type: 'Convolution' bottom: 'data' top: 'a' param { lr_mult: 0 } "
      "param { lr_mult: 0 } convolution_param { num_output: 8 kernel_size: 3 "
      "weight_filler { type: 'msra' } } } " +
      layer("BatchNorm", "a", "n") +
      layer("Scale", "n", "s", "scale_param { filler { value: 0 } bias_term: true }") + leaky_relu("s", "s") +
      head("s");
  Results plain, in_place;
  EXPECT_NO_THROW(plain = results_of<float>(text));
  EXPECT_NO_THROW(in_place = results_of<float>(kOn + text));
  EXPECT_TRUE(in_place == plain);
}

}  // namespace
}  // namespace banyan
