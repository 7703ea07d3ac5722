// Nets with a Filter: whatever number of samples passes, they compute what a net computes that gets only
// these samples.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "banyan/tensor/values.hpp"
#include "banyan/train/session.hpp"
#include "net/net_test_tools.hpp"
#include "train/training_case.hpp"

namespace banyan {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kSamples = 6, kClasses = 4;
constexpr std::int64_t kImage = 3 * 6 * 6;

std::string input(int samples, bool selector) {
  return cat("layer { name: 'in' type: 'Input' top: 'data' top: 'label' ", selector ? "top: 'selector' " : "",
             "input_param { shape { dim: ", samples, " dim: 3 dim: 6 dim: 6 } shape { dim: ", samples, " } ",
             selector ? cat("shape { dim: ", samples, " dim: 1 } ") : std::string(), "} }\n");
}
/// Layers that treat each sample by itself.
const char* const kBefore = R"(
layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1'
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }
layer { name: 'relu1' type: 'ReLU' bottom: 'conv1' top: 'conv1' }
)";
/// Layers and losses whose results depend on which samples are in the batch.
std::string behind(const std::string& maps, const std::string& label) {
  std::string text = R"(
layer { name: 'conv2' type: 'Convolution' bottom: 'MAPS' top: 'conv2'
  convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'bn2' type: 'BatchNorm' bottom: 'conv2' top: 'conv2' batch_norm_param { eps: 0.01 } }
layer { name: 'scale2' type: 'Scale' bottom: 'conv2' top: 'conv2' scale_param { bias_term: true } }
layer { name: 'relu2' type: 'ReLU' bottom: 'conv2' top: 'conv2' }
layer { name: 'conv3' type: 'Convolution' bottom: 'conv2' top: 'conv3'
  convolution_param { num_output: 6 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }
layer { name: 'bn3' type: 'BN' bottom: 'conv3' top: 'bn3' bn_param { eps: 0.01 slope_filler { value: 1 } } }
layer { name: 'sum3' type: 'Eltwise' bottom: 'conv2' bottom: 'bn3' top: 'sum3' }
layer { name: 'elu3' type: 'ELU' bottom: 'sum3' top: 'elu3' }
layer { name: 'pool3' type: 'Pooling' bottom: 'elu3' top: 'pool3' pooling_param { kernel_size: 2 stride: 2 } }
layer { name: 'flat3' type: 'Flatten' bottom: 'pool3' top: 'flat3' }
layer { name: 'ip' type: 'InnerProduct' bottom: 'flat3' top: 'ip'
  inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'LABEL' top: 'loss' }
layer { name: 'one' type: 'InnerProduct' bottom: 'pool3' top: 'one'
  inner_product_param { num_output: 1 weight_filler { type: 'xavier' } } }
layer { name: 'distance' type: 'EuclideanLoss' bottom: 'one' bottom: 'LABEL' top: 'distance' loss_weight: 0.1 }
layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip' bottom: 'LABEL' top: 'accuracy' }
)";
  for (const auto& [word, name] : {std::pair{std::string("MAPS"), maps}, {std::string("LABEL"), label}})
    for (std::size_t at; (at = text.find(word)) != std::string::npos;) text.replace(at, word.size(), name);
  return text;
}
const char* const kFilter =
    "layer { name: 'filter' type: 'Filter' bottom: 'conv1' bottom: 'label' bottom: 'selector' top: 'some' "
    "top: 'some_labels' } ";

std::string filtered_net(const std::string& settings = "") {
  return settings + input(kSamples, true) + kBefore + kFilter + behind("some", "some_labels");
}
std::string net_without_filter(int samples) {
  return input(samples, false) + kBefore + behind("conv1", "label");
}

using Numbers = std::vector<double>;

/// Data and labels of the samples that the selector keeps, in the pass of this number.
struct Batch {
  Numbers data, labels;
};
Batch batch_of(const Numbers& selector, int pass) {
  const Numbers all = wavy<double>(kSamples * kImage, pass);
  Batch batch;
  for (int s = 0; s < kSamples; ++s) {
    if (selector[static_cast<std::size_t>(s)] == 0) continue;
    batch.data.insert(batch.data.end(), all.begin() + s * kImage, all.begin() + (s + 1) * kImage);
    batch.labels.push_back((s * 3 + pass) % kClasses);
  }
  return batch;
}
const Numbers kAll(kSamples, 1);

/// Losses, accuracy and gradients of parameters.
struct Found {
  Numbers shown, gradients;
};
Found run(NetBench& bench, Net& net, const Batch& batch) {
  net.set_input("data", batch.data);
  net.set_input("label", batch.labels);
  net.zero_gradients();
  Found found;
  net.forward(bench.pass);
  for (const Blob* output : net.outputs())
    for (const double value : values_of(bench.context, output->data).values) found.shown.push_back(value);
  found.shown.push_back(loss_of(bench, net));
  std::vector<Numbers> of_parameters(net.parameters().size());
  net.backward(bench.pass, [&](int layer) {
    for (std::size_t p = 0; p < of_parameters.size(); ++p)
      if (const LearnableParameter& parameter = net.parameters()[p];
          parameter.ready_layer == layer && parameter.learns())
        of_parameters[p] = values_of(bench.context, parameter.grad).values;
  });
  for (const Numbers& values : of_parameters)
    found.gradients.insert(found.gradients.end(), values.begin(), values.end());
  net.check_results();
  return found;
}

void expect_near(const Numbers& found, const Numbers& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << i;
}

const std::vector<Numbers> kSelectors = {
    kAll, {1, 0, 1, 1, 0, 0}, {0, 0, 0, 0, 1, 0}, {0, 0, 0, 0, 0, 0}, {0, -1, 0.5, 1, 2, 1}, kAll};

/// Passes of one net with all selectors in turn, each against a net of its own without a Filter.
void expect_the_kept_samples_alone(const std::string& settings, const NetOptions& options, double tolerance) {
  NetBench bench, other;
  bench.pass.update_statistics = other.pass.update_statistics = true;
  const auto net = bench.make(filtered_net(settings), options);
  for (std::size_t pass = 0; pass < kSelectors.size(); ++pass) {
    SCOPED_TRACE(cat(settings, ", pass ", pass));
    const Numbers& selector = kSelectors[pass];
    const Batch kept = batch_of(selector, static_cast<int>(pass));
    const auto samples = static_cast<int>(kept.labels.size());
    net->set_input("selector", selector);
    const Found found = run(bench, *net, batch_of(kAll, static_cast<int>(pass)));
    EXPECT_EQ(net->find_blob("some")->data.shape()[0], samples);
    EXPECT_EQ(net->find_blob("ip")->shape, (Shape{samples, kClasses}));
    if (samples == 0) {
      EXPECT_THAT(found.shown, Each(0));
      EXPECT_THAT(found.gradients, Each(0));
      continue;
    }
    const auto alone = other.make(net_without_filter(samples), options);
    const Found expected = run(other, *alone, kept);
    expect_near(found.shown, expected.shown, tolerance);
    expect_near(found.gradients, expected.gradients, tolerance);
  }
}

TEST(ChosenSamples, AreComputedAsIfTheyWereAlone) {
  // Sums over the samples before the Filter have other terms, 0 for those that do not pass.
  NetOptions options = f64_options();
  expect_the_kept_samples_alone("", options, 1e-12);
  options.keep_gradients = false;
  expect_the_kept_samples_alone("", options, 1e-12);
  options = f64_options();
  options.reuse_memory = false;
  expect_the_kept_samples_alone("", options, 1e-12);
  options = f64_options();
  expect_the_kept_samples_alone("checkpoint: '3' ", options, 1e-12);
  expect_the_kept_samples_alone("checkpoint: 'auto' ", options, 1e-12);
  expect_the_kept_samples_alone("force_backward: true ", options, 1e-12);
}

TEST(ChosenSamples, AreComputedAsIfTheyWereAloneInF32) {
  NetOptions options;
  options.seed = 5;
  for (const bool channels_last : {false, true}) {
    options.channels_last = channels_last;
    expect_the_kept_samples_alone("", options, 1e-4);
  }
}

/// Every plan gives the bits of the plain one, in 16 bits and with in-place ABN too.
TEST(ChosenSamples, HaveTheSameBitsHoweverTheyRun) {
  const auto run_all = [](const std::string& settings, const NetOptions& options, bool observed = false,
                          bool asynchronous = false) {
    CpuDeviceOptions device;
    device.asynchronous = asynchronous;
    device.max_delay_us = 2;
    NetBench bench(device);
    const auto net = bench.make(filtered_net(settings), options);
    Numbers all;
    for (std::size_t pass = 0; pass < kSelectors.size(); ++pass) {
      // In the middle of a run, after a pass with fewer samples.
      if (observed && pass == 2) net->observe_layers({}, {});
      net->set_input("selector", kSelectors[pass]);
      const Found found = run(bench, *net, batch_of(kAll, static_cast<int>(pass)));
      all.insert(all.end(), found.shown.begin(), found.shown.end());
      all.insert(all.end(), found.gradients.begin(), found.gradients.end());
    }
    return all;
  };
  for (const std::string storage : {"", "storage: BF16 "}) {
    NetOptions options;
    options.seed = 5;
    options.channels_last = true;
    options.fuse_scale = false;
    NetOptions separate = options, alone = options;
    separate.reuse_memory = separate.fuse = false;
    alone.fuse = false;
    const Numbers expected = run_all(storage, separate);
    EXPECT_GT(*std::max_element(expected.begin(), expected.end()), 0);
    EXPECT_EQ(run_all(storage, options), expected);
    EXPECT_EQ(run_all(storage, alone), expected);
    EXPECT_EQ(run_all(storage, options, true), expected);
    EXPECT_EQ(run_all(storage, options, false, true), expected);
    EXPECT_EQ(run_all(storage + "checkpoint: '2' ", options), expected);
  }
  NetOptions options = f64_options();
  expect_near(run_all("in_place_abn: true ", options), run_all("", options), 1e-8);
}

/// The inputs' shapes change too, with the plan.
TEST(ChosenSamples, FollowABatchOfAnotherSize) {
  NetBench bench;
  const auto net = bench.make(filtered_net(), f64_options());
  net->set_input("selector", {0, 0, 1, 0, 0, 0});
  run(bench, *net, batch_of(kAll, 0));
  for (const int samples : {9, 2}) {
    for (const auto& [name, shape] : {std::pair<const char*, Shape>{"data", {samples, 3, 6, 6}},
                                      {"label", {samples}},
                                      {"selector", {samples, 1}}})
      net->find_blob(name)->shape = shape;
    net->reshape();
    EXPECT_EQ(net->find_blob("ip")->data.shape(), (Shape{samples, kClasses}));
    Numbers selector(static_cast<std::size_t>(samples), 1);
    selector[0] = 0;
    net->set_input("selector", selector);
    run(bench, *net, {wavy<double>(samples * kImage), Numbers(static_cast<std::size_t>(samples), 1)});
    EXPECT_EQ(net->find_blob("ip")->data.shape(), (Shape{samples - 1, kClasses}));
  }
}

std::string two_inputs(const std::string& more) {
  return "layer { name: 'in' type: 'Input' top: 'x' top: 'keep' top: 'y' input_param { shape { dim: 4 dim: 2 "
         "} shape { dim: 4 } shape { dim: 4 dim: 2 } } } "
         "layer { name: 'f' type: 'Filter' bottom: 'x' bottom: 'keep' top: 'some' } " +
         more;
}

TEST(ChosenSamples, MayBeChosenAgain) {
  NetBench bench;
  const auto net = bench.make(
      two_inputs("layer { name: 'g' type: 'Filter' bottom: 'y' bottom: 'keep' top: 'other' } "
                 "layer { name: 'sum' type: 'Eltwise' bottom: 'some' bottom: 'other' top: 'sum' } "
                 "layer { name: 'cut' type: 'Slice' bottom: 'sum' top: 'left' top: 'right' slice_param { "
                 "axis: 1 } } "
                 "layer { name: 'h' type: 'Filter' bottom: 'left' bottom: 'right' top: 'last' } "
                 "layer { name: 'loss' type: 'Reduction' bottom: 'last' top: 'loss' loss_weight: 1 }"),
      f64_options());
  net->set_input("x", {1, 0, 2, 1, 3, 1, 4, 0});
  net->set_input("y", {10, 0, 20, 0, 30, 0, 40, 0});
  const auto loss = [&](const Numbers& keep) {
    net->set_input("keep", keep);
    net->forward(bench.pass);
    return loss_of(bench, *net);
  };
  EXPECT_EQ(loss({1, 1, 1, 1}), 55);
  EXPECT_EQ(loss({1, 0, 1, 1}), 33);
  EXPECT_EQ(loss({1, 0, 0, 1}), 0);
  EXPECT_EQ(net->find_blob("sum")->shape, (Shape{2, 2}));
  EXPECT_EQ(loss({0, 0, 0, 0}), 0);
  EXPECT_EQ(loss({0, 1, 1, 0}), 55);
}

/// Two Filters with one selector, whose outputs meet: gradients that share memory grow and shrink with them.
TEST(ChosenSamples, OfTwoFiltersMayMeet) {
  NetBench bench;
  const auto net = bench.make(
      "layer { name: 'in' type: 'Input' top: 'keep' input_param { shape { dim: 4 } } } "
      "layer { name: 'x' type: 'Parameter' top: 'x' parameter_param { shape { dim: 4 dim: 2 } } } "
      "layer { name: 'y' type: 'Parameter' top: 'y' parameter_param { shape { dim: 4 dim: 2 } } } "
      "layer { name: 'f' type: 'Filter' bottom: 'x' bottom: 'keep' top: 'some' } "
      "layer { name: 'half' type: 'Power' bottom: 'some' top: 'half' power_param { scale: 0.5 } } "
      "layer { name: 'g' type: 'Filter' bottom: 'y' bottom: 'keep' top: 'other' } "
      "layer { name: 'sum' type: 'Eltwise' bottom: 'half' bottom: 'other' top: 'sum' } "
      "layer { name: 'loss' type: 'Reduction' bottom: 'sum' top: 'loss' loss_weight: 1 reduction_param { "
      "operation: MEAN } }",
      f64_options());
  for (const Numbers& keep : {Numbers{0, 1, 1, 0}, {1, 0, 1, 1}, {0, 0, 0, 0}, {1, 1, 1, 1}, {0, 0, 0, 1}}) {
    net->set_input("keep", keep);
    net->zero_gradients();
    net->forward(bench.pass);
    net->backward(bench.pass);
    const double values = 2 * std::accumulate(keep.begin(), keep.end(), 0.0);
    for (std::size_t p = 0; p < 2; ++p) {
      Numbers expected;
      for (const double kept : keep)
        expected.insert(expected.end(), 2, kept == 0 ? 0 : kept / values * (p == 0 ? 0.5 : 1));
      expect_near(values_of<double>(bench.context, net->parameters()[p].grad), expected, 1e-15);
    }
  }
  // One that keeps another number.
  EXPECT_THAT(
      message_of([&] {
        const auto other = bench.make(
            "layer { name: 'in' type: 'Input' top: 'x' top: 'a' top: 'b' input_param { shape { dim: 4 } } } "
            "layer { name: 'f' type: 'Filter' bottom: 'x' bottom: 'a' top: 'some' } "
            "layer { name: 'g' type: 'Filter' bottom: 'x' bottom: 'b' top: 'other' } "
            "layer { name: 'sum' type: 'Eltwise' bottom: 'some' bottom: 'other' top: 'sum' }",
            f64_options());
        other->set_input("a", {1, 1, 1, 1});
        other->set_input("b", {1, 0, 1, 1});
        other->forward(bench.pass);
      }),
      AllOf(HasSubstr("inputs must have one shape; \"some\" is 4 (4), \"other\" is 3 (3)"),
            HasSubstr("for 3 of 4 samples, chosen by \"g\" (Filter)")));
}

TEST(ChosenSamples, AreNoneOfTheNetsOutputs) {
  NetBench bench;
  const auto net = bench.make(
      two_inputs("layer { name: 'r' type: 'Reduction' bottom: 'some' top: 'sum' } "
                 "layer { name: 'each' type: 'Power' bottom: 'some' top: 'each' power_param { scale: 2 } }"),
      f64_options());
  std::vector<std::string> names;
  for (const Blob* output : net->outputs()) names.push_back(output->name);
  EXPECT_THAT(names, ElementsAre("sum", "y"));
  net->set_input("x", {1, 2, 3, 4, 5, 6, 7, 8});
  net->set_input("keep", {0, 1, 0, 0});
  net->forward(bench.pass);
  // But they can be read.
  EXPECT_THAT(values_of<double>(bench.context, net->find_blob("each")->data), ElementsAre(6, 8));
}

TEST(ChosenSamples, AreRefusedByWhatNeedsAFixedNumber) {
  NetBench bench;
  const auto refused = [&](const std::string& more) {
    return message_of([&] { bench.make(two_inputs(more), f64_options()); });
  };
  EXPECT_THAT(refused("layer { name: 'sum' type: 'Eltwise' bottom: 'some' bottom: 'y' top: 'sum' }"),
              AllOf(HasSubstr("layer \"sum\" (Eltwise)"),
                    HasSubstr("while reshaping layer \"sum\" (Eltwise) for 0 of 4 samples, chosen by \"f\" "
                              "(Filter)")));
  EXPECT_THAT(refused("layer { name: 'loss' type: 'EuclideanLoss' bottom: 'some' bottom: 'y' top: 'loss' }"),
              HasSubstr("must have the same batch"));
  EXPECT_THAT(refused("layer { name: 'four' type: 'Reshape' bottom: 'some' top: 'four' reshape_param { shape "
                      "{ dim: 4 dim: 2 } } }"),
              AllOf(HasSubstr("\"four\" (Reshape)"), HasSubstr("for 0 of 4 samples")));
  EXPECT_THAT(
      refused(
          "layer { name: 'steps' type: 'Reshape' bottom: 'some' top: 'steps' reshape_param { shape { dim: "
          "1 dim: -1 dim: 2 } } }"
          "layer { name: 'cont' type: 'Reduction' bottom: 'steps' top: 'cont' reduction_param { axis: 2 "
          "} }"
          "layer { name: 'lstm' type: 'LSTM' bottom: 'steps' bottom: 'cont' top: 'lstm' recurrent_param "
          "{ num_output: 2 } }"),
      HasSubstr("layer \"lstm\" (LSTM) goes on in each pass with the states of the one before, which belong "
                "to other samples behind layer \"f\" (Filter)"));
}

/// In training, a net without the samples that a Filter leaves out learns the same.
TEST(ChosenSamples, TeachWhatTheyTeachAlone) {
  FLAGS_minloglevel = 2;
  const TrainingFolder folder;
  const std::vector<Numbers> selectors = {{1, 0, 1, 1, 0, 1}, {0, 0, 1, 1, 1, 1}, {1, 1, 1, 1, 0, 0}};
  std::vector<Numbers> learned, tested;
  for (const bool filters : {true, false}) {
    const TrainingCase what{
        std::string(kFixedSolver) + "test_iter: 1 test_interval: 1000 test_initialization: false",
        filters ? filtered_net() : net_without_filter(4)};
    Session session(options_of(what, folder, 1));
    for (std::size_t pass = 0; pass < selectors.size(); ++pass) {
      const Batch batch = batch_of(filters ? kAll : selectors[pass], static_cast<int>(pass));
      for (const int net : {-1, 0}) {
        if (filters) session.set_input("selector", selectors[pass], 0, net);
        session.set_input("data", batch.data, 0, net);
        session.set_input("label", batch.labels, 0, net);
      }
      session.step(1);
    }
    Numbers& values = learned.emplace_back();
    for (const char* layer : {"conv1", "conv2", "bn2", "scale2", "conv3", "bn3", "ip", "one"})
      for (const double value : session.parameter(layer, 0).values) values.push_back(value);
    Numbers& shown = tested.emplace_back();
    const std::vector<TestResult> results = session.test();
    for (const auto& output : results.at(0).outputs)
      shown.insert(shown.end(), output.values.begin(), output.values.end());
  }
  expect_near(learned[0], learned[1], 1e-10);
  expect_near(tested[0], tested[1], 1e-10);
  EXPECT_EQ(tested[0].size(), 3u);
}

}  // namespace
}  // namespace banyan
