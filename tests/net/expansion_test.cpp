// Depthwise convolutions that run the 1 x 1 convolution before them: which ones, and what they compute.
#include "banyan/net/fusion.hpp"
#include "banyan/ops/processor.hpp"
#include "net/net_test_tools.hpp"

namespace banyan {
namespace {

std::string convolution(const std::string& name, const std::string& from, const std::string& settings) {
  return cat("layer { name: '", name, "' type: 'Convolution' bottom: '", from, "' top: '", name,
             "' convolution_param { ", settings,
             " weight_filler { type: 'msra' } bias_filler { value: 0.25 } } } ");
}

std::string input(int batch, int channels = 4) {
  return cat("layer { name: 'in' type: 'Input' top: 'data' input_param { shape { dim: ", batch,
             " dim: ", channels, " dim: 9 dim: 11 } } } ");
}

const std::string kStem = convolution("stem", "data", "num_output: 5 kernel_size: 3 pad: 1");
const std::string kExpand = convolution("expand", "stem", "num_output: 20 kernel_size: 1");
const std::string kClip =
    "layer { name: 'clip' type: 'Clip' bottom: 'expand' top: 'expand' clip_param { min: 0 max: 6 } } ";
const std::string kDepthwise =
    convolution("depthwise", "expand", "num_output: 20 group: 20 kernel_size: 3 pad: 1 stride: 2");
const std::string kRelu = "layer { name: 'relu' type: 'ReLU' bottom: 'depthwise' top: 'depthwise' } ";
const std::string kProject = convolution("out", "depthwise", "num_output: 5 kernel_size: 1");

NetOptions tested(std::int64_t expansion_bytes) {
  NetOptions options;
  options.phase = Phase::test;
  options.channels_last = true;
  options.parameters_stay = true;
  options.expansion_bytes = expansion_bytes;
  options.seed = 3;
  return options;
}

std::vector<float> output_of(NetBench& bench, Net& net, int phase = 0) {
  Tensor& data = net.find_blob("data")->data;
  copy_from_host(bench.context, wavy<float>(data.count(), phase).data(), data);
  net.forward(bench.pass);
  return values_of<float>(bench.context, net.find_blob("out")->data);
}

int expansions_of(const Net& net) {
  const auto begin = net.plan().steps.begin();
  return static_cast<int>(std::count_if(begin, begin + static_cast<std::ptrdiff_t>(net.plan().backward),
                                        [](const PlanStep& step) { return step.expansion >= 0; }));
}

/// Each sum of the two nets is rounded in another order: a few roundings of its terms.
void expect_close(const std::vector<float>& found, const std::vector<float>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  float largest = 0;
  for (const float value : wanted) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 1e-5F * largest) << i;
}

class Expansion : public testing::Test {
 protected:
  void SetUp() override {
    if (ops::instruction_set() == ops::InstructionSet::baseline)
      GTEST_SKIP() << "needs kernels for AVX2 or AVX-512";
  }
};

TEST_F(Expansion, ComputesWhatBothLayersDoInLessMemory) {
  for (const std::string& text : {input(3) + kStem + kExpand + kClip + kDepthwise + kRelu + kProject,
                                  input(3) + kStem + kExpand + kDepthwise + kProject,
                                  input(3) + kStem + kExpand + kClip + kDepthwise + kProject}) {
    NetBench bench;
    const auto apart = bench.make(text, tested(0));
    ASSERT_EQ(expansions_of(*apart), 0);
    const auto expected = output_of(bench, *apart);
    CpuDeviceOptions device;
    device.asynchronous = true;
    device.threads = 2;
    NetBench other(device);
    const auto together = other.make(text, tested(1));
    ASSERT_EQ(expansions_of(*together), 1);
    EXPECT_LT(together->plan().bytes, apart->plan().bytes);
    for (int pass = 0; pass < 2; ++pass) expect_close(output_of(other, *together), expected);
  }
}

TEST_F(Expansion, IsForLargeBlobs) {
  NetBench bench;
  const std::string text = input(3) + kStem + kExpand + kClip + kDepthwise + kProject;
  constexpr std::int64_t kSample = 20 * 9 * 11 * 4;
  EXPECT_EQ(expansions_of(*bench.make(text, tested(kSample))), 1);
  EXPECT_EQ(expansions_of(*bench.make(text, tested(kSample + 1))), 0);
}

TEST_F(Expansion, FollowsTheBatchInParts) {
  NetBench bench;
  const std::string text = input(6) + kStem + kExpand + kClip + kDepthwise + kRelu + kProject;
  NetOptions in_parts = tested(1);
  in_parts.cache = 1;
  const auto apart = bench.make(text, tested(0)), together = bench.make(text, in_parts);
  ASSERT_FALSE(together->plan().parts.empty());
  const auto& run = together->plan().parts[0];
  EXPECT_EQ(together->layers()[run.first]->name(), "stem");
  EXPECT_EQ(together->layers()[run.end - 1]->name(), "out");
  for (const int batch : {6, 1, 9, 0, 4}) {
    for (Net* net : {apart.get(), together.get()}) {
      net->find_blob("data")->shape.set_dim(0, batch);
      net->reshape();
    }
    ASSERT_EQ(expansions_of(*together), 1);
    expect_close(output_of(bench, *together, batch), output_of(bench, *apart, batch));
  }
}

TEST_F(Expansion, LeavesLayersApartWhoseBlobIsSeen) {
  NetBench bench;
  const std::string plain = input(3) + kStem + kExpand + kClip + kDepthwise + kProject;
  ASSERT_EQ(expansions_of(*bench.make(plain, tested(1))), 1);
  const std::string silence = "layer { name: 'silence' type: 'Silence' bottom: 'expand' } ";
  const std::string elu = "layer { name: 'elu' type: 'ELU' bottom: 'expand' top: 'expand' } ";
  const std::string power =
      "layer { name: 'power' type: 'Power' bottom: 'expand' top: 'expand' power_param { scale: 2 } } ";
  const std::string weighted =
      "layer { name: 'expand' type: 'Convolution' bottom: 'stem' top: 'expand' loss_weight: 1 "
      "convolution_param { "
      "num_output: 20 kernel_size: 1 weight_filler { type: 'msra' } } } ";
  const std::string strided = convolution("expand", "stem", "num_output: 20 kernel_size: 1 stride: 2");
  const std::string padded = convolution("expand", "stem", "num_output: 20 kernel_size: 1 pad: 1");
  const std::string wide =
      convolution("expand", "stem", "num_output: 20 kernel_h: 1 kernel_w: 3 pad_h: 0 pad_w: 1");
  const std::string grouped = convolution("expand", "stem", "num_output: 20 kernel_size: 1 group: 5");
  const std::string groups = convolution("depthwise", "expand", "num_output: 20 group: 4 kernel_size: 3");
  const std::string few = convolution("expand", "stem", "num_output: 4 kernel_size: 1") +
                          convolution("depthwise", "expand", "num_output: 4 group: 4 kernel_size: 3");
  for (const std::string& text :
       {input(3) + kStem + kExpand + kClip + kDepthwise + silence + kProject,
        input(3) + kStem + kExpand + elu + kDepthwise + kProject,
        input(3) + kStem + kExpand + power + kDepthwise + kProject,
        input(3) + kStem + weighted + kDepthwise + kProject,
        input(3) + kStem + strided + kDepthwise + kProject, input(3) + kStem + padded + kDepthwise + kProject,
        input(3) + kStem + wide + kDepthwise + kProject, input(3) + kStem + grouped + kDepthwise + kProject,
        input(3) + kStem + kExpand + groups + kProject, input(3) + kStem + few + kProject}) {
    const auto net = bench.make(text, tested(1));
    EXPECT_EQ(expansions_of(*net), 0) << text;
    expect_close(output_of(bench, *net), output_of(bench, *bench.make(text, tested(0))));
  }
}

/// The user's input is contiguous: a convolution takes it as it is, but not the operator for both.
TEST_F(Expansion, LeavesLayersApartThatReadContiguousInput) {
  NetBench bench;
  const std::string text =
      input(3) + convolution("expand", "data", "num_output: 20 kernel_size: 1") + kDepthwise + kProject;
  const auto net = bench.make(text, tested(1));
  const bool contiguous = net->find_blob("data")->layout == Layout::contiguous;
  EXPECT_EQ(expansions_of(*net), contiguous ? 0 : 1);
  expect_close(output_of(bench, *net), output_of(bench, *bench.make(text, tested(0))));
}

TEST_F(Expansion, IsOnlyForNetsWhoseParametersStayAndThatNobodyObserves) {
  const std::string text = input(3) + kStem + kExpand + kClip + kDepthwise + kProject;
  NetBench bench;
  NetOptions changing = tested(1), training = tested(1), separate = tested(1), alone = tested(1),
             wide = tested(1), contiguous = tested(1);
  changing.parameters_stay = false;
  training.phase = Phase::train;
  separate.reuse_memory = false;
  alone.fuse = false;
  wide.dtype = DType::f64;
  contiguous.channels_last = false;
  for (const NetOptions& options : {changing, training, separate, alone, wide, contiguous})
    EXPECT_EQ(expansions_of(*bench.make(text, options)), 0);
  CpuDeviceOptions rounded;
  rounded.math = Math::bf16_in_f32;
  EXPECT_EQ(expansions_of(*NetBench(rounded).make(text, tested(1))), 0);
  const auto expected = output_of(bench, *bench.make(text, tested(0)));
  const auto observed = bench.make(text, tested(1)), probed = bench.make(text, tested(1));
  expect_close(output_of(bench, *observed), expected);
  int calls = 0;
  observed->observe_layers({}, [&](int, bool) { ++calls; });
  probed->probe_layers([&](int layer) {
    ++calls;
    for (const Blob* output : probed->outputs_of(layer)) EXPECT_TRUE(output->data.defined()) << output->name;
  });
  for (Net* net : {observed.get(), probed.get()}) {
    EXPECT_EQ(expansions_of(*net), 0);
    EXPECT_EQ(output_of(bench, *net), expected);
  }
  EXPECT_EQ(calls, 2 * static_cast<int>(observed->layers().size()));
}

/// Between a forward and a backward pass, what a Filter chose must stay.
TEST(Probes, LeaveANetAsItIsThatStoresEveryBlob) {
  NetBench bench;
  NetOptions options;
  options.phase = Phase::train;
  const auto net = bench.make(
      "layer { name: 'in' type: 'Input' top: 'data' top: 'chosen' input_param { shape { dim: 4 dim: 3 } "
      "shape { dim: 4 } } } "
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: 2 "
      "} } "
      "layer { name: 'filter' type: 'Filter' bottom: 'ip' bottom: 'chosen' top: 'kept' } "
      "layer { name: 'loss' type: 'Reduction' bottom: 'kept' top: 'loss' loss_weight: 1 } ",
      options);
  net->set_input("chosen", {0, 1, 0, 1});
  net->forward(bench.pass);
  ASSERT_EQ(net->find_blob("kept")->shape[0], 2);
  net->probe_layers([](int) {});
  net->probe_layers({});
  EXPECT_EQ(net->find_blob("kept")->shape[0], 2);
  net->backward(bench.pass);
}

TEST_F(Expansion, IsInThePlan) {
  NetBench bench;
  const auto net = bench.make(input(3) + kStem + kExpand + kClip + kDepthwise + kRelu + kProject, tested(1));
  EXPECT_THAT(to_text(net->graph(), net->plan()),
              testing::HasSubstr("begins with expand and a clip to 0 ... 6; ends with a ReLU"));
}

/// Random chains and branches of the layers that such blocks consist of.
std::string random_blocks(unsigned seed) {
  std::mt19937 engine(seed);
  const auto below = [&](unsigned bound) { return engine() % bound; };
  std::string text = input(1 + static_cast<int>(below(4)), 3), last = "data";
  int channels = 3;
  for (unsigned block = 0; block < 2 + below(3); ++block) {
    const auto name = [&](const char* part) { return cat(part, block); };
    const auto end = [&](const std::string& blob) {
      const bool in_place = below(3) != 0;
      const std::string top = in_place ? blob : blob + "e";
      const char* const kinds[] = {"type: 'Clip' clip_param { min: 0 max: 2 }", "type: 'ReLU'",
                                   "type: 'ReLU' relu_param { negative_slope: 0.1 }", "type: 'ELU'"};
      if (below(4) == 0) return blob;
      text += cat("layer { name: '", blob, "_end' ", kinds[below(4)], " bottom: '", blob, "' top: '", top,
                  "' } ");
      return top;
    };
    const int expanded = 8 + static_cast<int>(below(30)), narrow = 2 + static_cast<int>(below(9));
    text += convolution(
        name("e"), last,
        cat("num_output: ", expanded, " kernel_size: 1 bias_term: ", below(2) ? "true" : "false"));
    const std::string middle = end(name("e"));
    if (below(6) == 0) text += convolution(name("side"), middle, "num_output: 3 kernel_size: 1");
    text +=
        convolution(name("d"), middle,
                    cat("num_output: ", expanded, " group: ", expanded, " kernel_size: ", 1 + 2 * below(2),
                        " pad: 1 stride: ", 1 + below(2), " bias_term: ", below(2) ? "true" : "false"));
    const std::string wide = end(name("d"));
    text += convolution(name("p"), wide, cat("num_output: ", narrow, " kernel_size: 1"));
    std::string out = name("p");
    if (below(3) == 0) {
      text += convolution(name("q"), wide, cat("num_output: ", narrow, " kernel_size: 1")) +
              cat("layer { name: '", name("sum"), "' type: 'Eltwise' bottom: '", out, "' bottom: '",
                  name("q"), "' top: '", name("sum"), "' } ");
      out = name("sum");
    }
    last = end(out);
    channels = narrow;
  }
  return text + convolution("out", last, cat("num_output: ", channels, " kernel_size: 1"));
}

TEST_F(Expansion, IsInRandomNets) {
  constexpr unsigned kNets = 60;
  int found = 0;
  for (unsigned seed = 0; seed < kNets; ++seed) {
    const std::string text = random_blocks(seed);
    SCOPED_TRACE(cat("seed ", seed, ": ", text));
    CpuDeviceOptions device;
    device.threads = 1 + static_cast<int>(seed % 2);
    device.asynchronous = seed % 3 == 0;
    NetBench bench(device);
    NetOptions options = tested(seed % 4 == 0 ? 4000 : 1);
    options.cache = seed % 5 == 0 ? 0 : 2000 * (seed % 5);
    const auto net = bench.make(text, options);
    found += expansions_of(*net);
    expect_close(output_of(bench, *net), output_of(bench, *bench.make(text, tested(0))));
  }
  EXPECT_GE(found, static_cast<int>(kNets) * 3 / 4);
}

}  // namespace
}  // namespace banyan
