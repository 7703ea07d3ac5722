// Runs that go wrong, and what they say; a healthy one says nothing.
#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "banyan/base/error.hpp"
#include "banyan/train/session.hpp"
#include "metrics/kept.hpp"
#include "train/part_bench.hpp"
#include "train/training_case.hpp"
#include "train/vitals.hpp"

namespace banyan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string data(int batch) {
  return cat(
      "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'DATA' backend: LMDB ",
      "batch_size: ", batch, " batch_size_is_total: true } transform_param { scale: 0.01 mean_value: 60 } }");
}
const std::string kConvolution = R"(
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'
  convolution_param { num_output: 10 kernel_size: 3 weight_filler { type: 'msra' } } }
layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' })";
const std::string kClassifier = R"(
layer { name: 'ip' type: 'InnerProduct' bottom: 'conv' top: 'ip'
  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' })";
const std::string kHealthy = data(12) + kConvolution + kClassifier;
const std::string kWarningSolver =
    "base_lr: 0.01 momentum: 0.9 lr_policy: 'fixed' random_seed: 3 average_loss: 1 display: 20 ";

class WarningRuns : public testing::Test {
 protected:
  WarningRuns() { FLAGS_minloglevel = google::FATAL; }
  ~WarningRuns() override { install_fault_injector(nullptr); }
  TrainOptions options(const std::string& net, int devices, const std::string& solver = kWarningSolver,
                       int iterations = 100) const {
    TrainingCase of{solver, net};
    of.iterations = iterations;
    of.precision = RunPrecision::f32;
    TrainOptions asked = options_of(of, folder_, devices);
    asked.warnings = true;
    return asked;
  }
  /// Texts with advice, of a run to the end; without `times` not those that follow from how busy the machine
  /// is.
  std::vector<std::string> said(TrainOptions asked, bool times = false) const {
    const auto kept = std::make_shared<Kept>();
    asked.metrics.sinks = {kept};
    run_training(asked);
    std::vector<std::string> found = texts(*kept);
    std::erase_if(found, [&](const std::string& text) {
      return !times &&
             (text.starts_with("starved by data") || text.starts_with("devices are out of balance"));
    });
    return found;
  }
  static std::vector<std::string> texts(const Kept& kept) {
    std::vector<std::string> texts;
    for (const auto& [iteration, warning] : kept.of<metrics::Warning>()) {
      EXPECT_FALSE(warning.advice.empty()) << warning.text;
      texts.push_back(warning.text + "; " + warning.advice);
    }
    return texts;
  }
  const TrainingFolder folder_;
};

TEST_F(WarningRuns, AHealthyOneIsSilent) {
  for (const int devices : {1, 2, 3}) {
    EXPECT_THAT(said(options(kHealthy, devices)), IsEmpty()) << devices;
    TrainOptions several =
        options(kHealthy, devices,
                kWarningSolver + "iter_size: 2 test_iter: 5 test_interval: 50 clip_gradients: 10 ");
    several.solver.test.batches = {};  // those of the data do not fit into its 50 records
    several.solver.test.interval = 0;
    EXPECT_THAT(said(several), IsEmpty()) << devices;
  }
  TrainOptions asynchronous = options(kHealthy, 2);
  asynchronous.cpu.asynchronous = true;
  EXPECT_THAT(said(asynchronous), IsEmpty());
}

TEST_F(WarningRuns, WithoutMetricsTheyAreInTheLog) {
  const LoggedLines log;
  TrainOptions asked = options(kHealthy, 2, kWarningSolver + "test_iter: 3 test_interval: 50 ", 4);
  run_training(asked);
  EXPECT_THAT(log.lines,
              testing::Contains(HasSubstr("test0, layer \"data\": a test takes 36 of 50 records")));
  asked.warnings = false;
  const std::size_t before = log.lines.size();
  run_training(asked);
  for (std::size_t i = before; i < log.lines.size(); ++i)
    EXPECT_THAT(log.lines[i], testing::Not(HasSubstr("a test takes")));
}

/// A fixed convolution, and rectifiers that begin dead.
TEST_F(WarningRuns, DeadRectifiersAndWeightsThatNothingReaches) {
  const std::string dead = data(12) + R"(
    layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'first' param { lr_mult: 0 } param { lr_mult: 0 }
      convolution_param { num_output: 10 kernel_size: 3 weight_filler { type: 'msra' } } }
    layer { name: 'relu' type: 'ReLU' bottom: 'first' top: 'relu' }
    layer { name: 'conv2' type: 'Convolution' bottom: 'relu' top: 'conv2'
      convolution_param { num_output: 8 kernel_size: 3 weight_filler { type: 'msra' } bias_filler { value: -1000 } } }
    layer { name: 'dead' type: 'ReLU' bottom: 'conv2' top: 'conv' })" +
                           kClassifier;
  for (const int devices : {1, 2, 3})
    for (const bool asynchronous : {false, true}) {
      TrainOptions asked = options(dead, devices);
      asked.cpu.asynchronous = asynchronous;
      const std::vector<std::string> found = said(asked);
      EXPECT_THAT(found, ElementsAre(HasSubstr("no gradient reaches layer \"conv2\""),
                                     HasSubstr("dead ReLUs: in layer \"dead\" 100 %")))
          << devices;
    }
}

TEST_F(WarningRuns, LostInRounding) {
  EXPECT_THAT(
      said(options(kHealthy, 2, "base_lr: 1e-30 lr_policy: 'fixed' random_seed: 3 display: 20 ")),
      ElementsAre(HasSubstr("the weights of layers \"conv\", \"ip\" have not moved since iteration 0")));
}

TEST_F(WarningRuns, VanishingGradients) {
  std::string deep = data(12), below = "data";
  for (int i = 0; i < 22; ++i) {
    const std::string name = cat("ip", i);
    deep += cat("layer { name: '", name, "' type: 'InnerProduct' bottom: '", below, "' top: '", name,
                "' inner_product_param { num_output: 8 weight_filler { type: 'xavier' } } }",
                "layer { name: 'sigmoid", i, "' type: 'Sigmoid' bottom: '", name, "' top: '", name, "' }");
    below = name;
  }
  deep += "layer { name: 'last' type: 'InnerProduct' bottom: '" + below +
          "' top: 'last' inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }"
          "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'last' bottom: 'label' top: 'loss' }";
  EXPECT_THAT(said(options(deep, 2)), testing::Contains(HasSubstr("gradients vanish: in layer")));
}

/// Twice too large a rate: it rises steadily, then steps become larger than the weights, then nothing is
/// finite.
TEST_F(WarningRuns, ARateThatIsTooLarge) {
  const std::string linear = data(10) + R"(
    layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'
      inner_product_param { num_output: 1 bias_term: false weight_filler { type: 'constant' value: 0.001 } } }
    layer { name: 'loss' type: 'EuclideanLoss' bottom: 'ip' bottom: 'label' top: 'loss' })";
  for (const int devices : {1, 2}) {
    const std::vector<std::string> found =
        said(options(linear, devices, "base_lr: 0.05 lr_policy: 'fixed' random_seed: 3 display: 20 ", 400));
    EXPECT_THAT(found, testing::Contains(HasSubstr("gradients explode")));
    EXPECT_THAT(found, testing::Contains(HasSubstr("is not finite")));
    EXPECT_LE(found.size(), 3u);
  }
}

/// The decay takes the bias away from what the labels ask for.
TEST_F(WarningRuns, ARisingLoss) {
  const std::string decaying = data(50) + R"(
    layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'
      inner_product_param { num_output: 1 weight_filler { value: 0.001 } bias_filler { value: 2 } } }
    layer { name: 'loss' type: 'EuclideanLoss' bottom: 'ip' bottom: 'label' top: 'loss' })";
  EXPECT_THAT(
      said(options(decaying, 2,
                   "base_lr: 1e-6 weight_decay: 2000 lr_policy: 'fixed' random_seed: 3 display: 20 ", 400)),
      ElementsAre(HasSubstr("the loss has risen in each of the last")));
}

/// On the device itself, in the iteration itself.
TEST_F(WarningRuns, TheLayerThatIsNotFiniteIsNamed) {
  const auto with = [](const std::string& scale, const std::string& more) {
    std::string net = data(12);
    net.replace(net.find("scale: 0.01"), 11, scale);
    return net + more;
  };
  const std::string linear = R"(
    layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'
      inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
    layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' })";
  const std::string normalized = R"(
    layer { name: 'bn' type: 'SyncBN' bottom: 'conv' top: 'conv' bn_param { slope_filler { value: 1 } } })";
  const std::string bursting = R"(
    layer { name: 'first' type: 'Power' bottom: 'conv' top: 'first' power_param { scale: 1e30 } }
    layer { name: 'second' type: 'Power' bottom: 'first' top: 'second' power_param { scale: 1e30 } }
    layer { name: 'ip' type: 'InnerProduct' bottom: 'second' top: 'ip'
      inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
    layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' })";
  for (const int devices : {1, 2, 3}) {
    EXPECT_THAT(said(options(with("scale: 1e38", linear), devices)),
                ElementsAre(testing::AllOf(
                    HasSubstr("the loss of iteration 0 is not finite; the first such values are "
                              "in output \"data\" of layer \"data\" (Data)"),
                    HasSubstr("look at the data"))));
    EXPECT_THAT(said(options(with("scale: 0.01", kConvolution + normalized + bursting), devices)),
                ElementsAre(testing::AllOf(HasSubstr("in output \"second\" of layer \"second\" (Power)"),
                                           HasSubstr("a smaller base_lr"))));
  }
  // Where nobody waits for the loss it is found at a display, when all is lost.
  TrainOptions asynchronous = options(with("scale: 0.01", kConvolution + bursting), 2);
  asynchronous.cpu.asynchronous = true;
  EXPECT_THAT(said(asynchronous),
              ElementsAre(HasSubstr("the loss is not finite since iteration 0; nor are the parameters of "
                                    "all layers, the last of which is \"ip\"")));
}

TEST_F(WarningRuns, DevicesOutOfBalance) {
  install_fault_injector([](const Activity& activity, Stage stage, const char* layer) {
    if (stage == Stage::forward && activity.device() == "cpu:1" && std::string(layer) == "ip")
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  const std::vector<std::string> found =
      said(options(kHealthy, 2, "base_lr: 0.01 lr_policy: 'fixed' random_seed: 3 display: 3 ", 60), true);
  EXPECT_THAT(found, testing::Contains(HasSubstr("devices are out of balance: cpu:1 needs")));
}

TEST_F(WarningRuns, StatisticsOfFewSamples) {
  std::string net = data(12) + kConvolution + R"(
    layer { name: 'bn' type: 'BN' bottom: 'conv' top: 'conv' bn_param { slope_filler { value: 1 } } })" +
                    kClassifier;
  EXPECT_THAT(said(options(net, 1)), IsEmpty());
  EXPECT_THAT(said(options(net, 2)),
              ElementsAre(testing::AllOf(HasSubstr("from 6 samples (layer \"bn\")"),
                                         HasSubstr("--sync_bn=on makes them of 12 samples"))));
  TrainOptions synchronized = options(net, 2);
  synchronized.sync_bn = SyncBatchNorm::on;
  EXPECT_THAT(said(synchronized), IsEmpty());
}

TEST_F(WarningRuns, AnotherBatchAfterASnapshot) {
  const std::string larger = data(36) + kConvolution + kClassifier;
  EXPECT_THAT(said(options(kHealthy, 2, kWarningSolver, 30)), IsEmpty());
  for (const std::string& net : {kHealthy, larger}) {
    TrainOptions resumed = options(net, 2, kWarningSolver, 60);
    resumed.snapshot = folder_.path() + "/out_iter_30.solverstate";
    const std::vector<std::string> found = said(resumed);
    if (net == kHealthy) {
      EXPECT_THAT(found, IsEmpty());
    } else {
      EXPECT_THAT(found,
                  ElementsAre(HasSubstr("an update takes 36 samples, before the snapshot it took 12")));
    }
  }
  EXPECT_THAT(said(options(kHealthy, 2, kWarningSolver + "base_batch_size: 48 ", 4)),
              ElementsAre(HasSubstr("base_lr 0.01 is meant for 48 samples per update (base_batch_size)")));
  EXPECT_THAT(said(options(kHealthy, 2, kWarningSolver + "base_batch_size: 48 lr_scaling: LINEAR ", 4)),
              IsEmpty());
}

TEST_F(WarningRuns, WatchingChangesNoBit) {
  for (const int devices : {1, 3})
    for (const bool asynchronous : {false, true}) {
      const TrainingFolder without_folder, with_folder;
      TrainingCase of{
          "base_lr: 0.05 momentum: 0.9 lr_policy: 'fixed' random_seed: 3 display: 10 iter_size: 2 ",
          kHealthy};
      of.iterations = 45;
      of.precision = RunPrecision::f32;
      TrainOptions without = options_of(of, without_folder, devices),
                   with = options_of(of, with_folder, devices);
      with.warnings = true;
      with.cpu.asynchronous = asynchronous;
      run_training(without);
      run_training(with);
      const Trained a = read_trained(without_folder, 45), b = read_trained(with_folder, 45);
      EXPECT_EQ(a.model_bytes, b.model_bytes);
      EXPECT_EQ(a.losses(), b.losses());
    }
}

// --- what a device measures ---

/// Where the dropout runs in the same step, what it drops is not dead: half of the units are active.
TEST(Vitals, WhatADropoutDroppedIsNotDead) {
  for (const int samples : {1, 64}) {
    PartBench bench;
    const auto net = bench.net(
        cat("layer { name: 'in' type: 'DummyData' top: 'in' dummy_data_param { shape { dim: ", samples,
            " dim: 20 } data_filler { type: 'gaussian' std: 1 } } }",
            R"(
    layer { name: 'ip' type: 'InnerProduct' bottom: 'in' top: 'ip' inner_product_param { num_output: 40 weight_filler { type: 'msra' } } }
    layer { name: 'relu' type: 'ReLU' bottom: 'ip' top: 'relu' }
    layer { name: 'drop' type: 'Dropout' bottom: 'relu' top: 'drop' dropout_param { dropout_ratio: 0.9 } }
    layer { name: 'loss' type: 'Reduction' bottom: 'drop' top: 'loss' loss_weight: 1 })"),
        Phase::train, DType::f32);
    const auto& steps = net->plan().steps;
    ASSERT_TRUE(
        std::any_of(steps.begin(), steps.end(), [](const auto& step) { return step.drop_layer == 3; }));
    Vitals vitals(*net, {});
    Pass pass = bench.pass();
    vitals.begin();
    net->forward(pass);
    vitals.end();
    const std::vector<bool> alive = vitals.read(bench.context).alive.at(0);
    if (samples == 1)
      EXPECT_TRUE(alive.empty());  // nobody can tell
    else
      EXPECT_GT(std::count(alive.begin(), alive.end(), true), 30);
  }
}

TEST(Vitals, SeeChannelsThatAreFusedIntoOtherLayers) {
  PartBench bench;
  const auto net = bench.net(R"(
    layer { name: 'in' type: 'DummyData' top: 'in' dummy_data_param { shape { dim: 3 dim: 2 dim: 4 dim: 4 } data_filler { type: 'gaussian' std: 1 } } }
    layer { name: 'conv' type: 'Convolution' bottom: 'in' top: 'conv' convolution_param { num_output: 3 kernel_size: 3 weight_filler { type: 'msra' } } }
    layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'relu' }
    layer { name: 'leaky' type: 'ReLU' bottom: 'relu' top: 'leaky' relu_param { negative_slope: 0.1 } }
    layer { name: 'ip' type: 'InnerProduct' bottom: 'leaky' top: 'ip' inner_product_param { num_output: 4 weight_filler { type: 'msra' } } }
    layer { name: 'last' type: 'ReLU' bottom: 'ip' top: 'ip' }
    layer { name: 'loss' type: 'Reduction' bottom: 'ip' top: 'loss' loss_weight: 1 })",
                             Phase::train, DType::f32);
  EXPECT_THAT(rectifiers_of(*net), ElementsAre(2, 5));
  Tensor bias = net->parameters()[1].value, last_bias = net->parameters()[3].value;
  set_values(bench.context, {9, -9, 9}, bias);
  set_values(bench.context, {1000, 1000, 1000, -1000}, last_bias);
  std::vector<Updater::OwnedPiece> owned;
  for (int p = 0; p < 4; ++p) {
    const LearnableParameter& parameter = net->parameters()[static_cast<std::size_t>(p)];
    owned.push_back({p,
                     0,
                     parameter.value.reshaped(Shape{parameter.count}),
                     parameter.grad.reshaped(Shape{parameter.count}),
                     {}});
  }
  Vitals vitals(*net, owned);
  Pass pass = bench.pass();
  net->forward(pass);
  EXPECT_THAT(vitals.read(bench.context).alive, ElementsAre(IsEmpty(), IsEmpty()))
      << "before it was asked to look";
  vitals.begin();
  net->forward(pass);
  vitals.end();
  net->backward(pass);
  const VitalSigns signs = vitals.read(bench.context);
  EXPECT_THAT(signs.alive, ElementsAre(ElementsAre(true, false, true), ElementsAre(true, true, true, false)));
  EXPECT_EQ(signs.parameters[1].values, 3 * 81);
  EXPECT_EQ(signs.parameters[3].values, 4e6);
  EXPECT_EQ(signs.parameters[3].gradient, 3 * 9.0) << "of three samples, in three units that live";
}

}  // namespace
}  // namespace banyan
