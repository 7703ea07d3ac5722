// Promises 1 and 2 on GPUs: GPUs match CPU devices up to rounding, N of them equal one, and runs repeat and
// resume bit-identically.
#include <fstream>
#include <random>

#include "banyan/observe/timeline.hpp"
#include "banyan/train/kernel_differences.hpp"
#include "gpu/gpu_training.hpp"
#include "metrics/kept.hpp"
#include "train/joined_run.hpp"
#include "train/promise_cases.hpp"

namespace banyan {
namespace {

class GpuPromises : public GpuTraining, public testing::WithParamInterface<Variant> {};
INSTANTIATE_TEST_SUITE_P(Gpu, GpuPromises, testing::ValuesIn(variants()),
                         [](const auto& info) { return info.param.name; });

TEST_P(GpuPromises, AreOneCpuDeviceInF64) {
  const Trained one = train_case(GetParam().what, 1);
  for (const auto& [number, tree] :
       std::vector<std::pair<int, std::string>>{{1, "auto"}, {2, "auto"}, {3, "chain"}, {4, "pairs"}})
    expect_the_same_run(one, GetParam().what, gpu_devices(number), tree);
}

/// 1e-4: sums of a few hundred terms in another order cost about 100 ulp (6e-8 each).
TEST_P(GpuPromises, AgreeWithTheCpuInTheFirstIterationInF32) {
  const StepInF32 step = first_step_in_f32(GetParam().what);
  ASSERT_GT(step.largest_gradient, 0);
  for (const int number : {1, 2}) expect_the_same_step(step, gpu_devices(number), 1e-4);
}

/// Products and convolutions on GPUs add in an order of their own, as a permuted batch does.
TEST_F(GpuTraining, F32DriftIsThatOfAPermutedBatch) {
  expect_the_drift_of_a_permuted_batch({gpu_devices(1), gpu_devices(2), gpu_devices(4)});
}

TEST_F(GpuTraining, GivesTheSameBits) {
  for (const int number : {1, 2, 4}) {
    TrainingCase what{kSolver, data_layer() + kBody + classifier()};
    what.precision = RunPrecision::f32;
    EXPECT_EQ(train_case(what, gpu_devices(number)).model_bytes,
              train_case(what, gpu_devices(number)).model_bytes);
  }
}

/// Messages between processes go through host memory. Two parts have one sum, whatever the order.
TEST_F(GpuTraining, TwoProcessesHaveTheBitsOfTwoGpus) {
  TrainingCase what{std::string(kSolver) + "clip_gradients: 0.5", data_layer() + kBody + classifier()};
  what.precision = RunPrecision::f32;
  const Trained two = train_case(what, gpu_devices(2));
  const Joined joined = train_joined(what, {1, 1}, [](int process, TrainOptions& options) {
    options.devices = {gpu_devices(2)[static_cast<std::size_t>(process)]};
  });
  ASSERT_THAT(joined.errors, testing::Each(""));
  EXPECT_EQ(joined.trained.model_bytes, two.model_bytes);
}

/// The root devices' differences and parameters go through pinned memory.
TEST_F(GpuTraining, WorkersOfAParameterServerAreOneProcess) {
  TrainingCase what{std::string(kSolver) + "clip_gradients: 0.5 iter_size: 2",
                    data_layer() + kBody + classifier()};
  what.iterations = 8;
  const Trained two = train_case(what, gpu_devices(2));
  const Joined served = train_joined(
      what, {1, 2},
      [](int process, TrainOptions& options) {
        options.devices = gpu_devices(3);
        if (process == 0) options.devices.resize(1);
        if (process == 1) options.devices.erase(options.devices.begin());
      },
      TrainingFolder(), ParameterServerOptions{});
  ASSERT_THAT(served.errors, testing::Each(""));
  EXPECT_LE(largest_difference(two.values(), served.trained.values()), 1e-10);
}

TEST_F(GpuTraining, RepeatsAndResumesBitForBit) {
  TrainingCase what{std::string(kSolver) + "snapshot: 7 type: 'Adam'",
                    data_layer("epoch_end: PARTIAL") + kBody + classifier()};
  what.precision = RunPrecision::f32;
  expect_the_same_bits_when_repeated_and_resumed(what);
}

/// Everything that a run can tell, of GPUs; telling it changes no bit.
TEST_F(GpuTraining, MetricsChangeNoBitAndAreThoseOfTheCpu) {
  TrainingCase what{kSolver, data_layer() + kBody + classifier()};
  what.iterations = 8;
  const auto told = [&](const std::vector<DeviceChoice>& devices, Trained& trained) {
    const TrainingFolder folder;
    TrainOptions options = options_of(what, folder, devices);
    auto kept = std::make_shared<Kept>();
    options.metrics.sinks = {kept};
    options.solver.display = 2;
    options.solver.metrics.histograms = options.solver.metrics.images = 4;
    FLAGS_minloglevel = 2;
    train(options);
    trained = read_trained(folder, what.iterations);
    return kept;
  };
  Trained on_cpu, on_gpus;
  const auto expected = told(cpu_devices(1), on_cpu)->of<metrics::Train>();
  for (const int number : {1, 3}) {
    const auto kept = told(gpu_devices(number), on_gpus);
    EXPECT_EQ(on_gpus.model_bytes, train_case(what, gpu_devices(number)).model_bytes);
    const auto found = kept->of<metrics::Train>();
    ASSERT_EQ(found.size(), expected.size());
    int sampled = 0;
    for (std::size_t i = 0; i + 1 < found.size(); ++i) {
      // f64: rounding, amplified by a few iterations.
      EXPECT_NEAR(found[i].second.loss, expected[i].second.loss, 1e-9);
      EXPECT_NEAR(found[i].second.gradient_norm.value(), expected[i].second.gradient_norm.value(), 1e-9);
      for (const metrics::Train::Device& device : found[i].second.devices) {
        EXPECT_GT(device.memory_peak, 0);
        if (!device.sampled) continue;
        ++sampled;
        double sum = 0, whole = 0;
        for (const auto& [name, ms] : device.milliseconds) {
          if (name == "compute" || name == "exposed" || name == "update" || name == "data" || name == "other")
            sum += ms;
          if (name == "iteration") whole = ms;
        }
        EXPECT_GT(whole, 0);
        EXPECT_NEAR(sum, whole, 1e-6);
      }
    }
    EXPECT_GE(sampled, number);
    const auto parameters = kept->of<metrics::Parameters>();
    ASSERT_FALSE(parameters.empty());
    for (const metrics::Parameters::Entry& entry : parameters[0].second.entries) {
      EXPECT_EQ(entry.values.not_finite, 0);
      EXPECT_NEAR(std::sqrt(entry.values.sum_of_squares), entry.norm, 1e-9) << entry.name;
    }
    EXPECT_FALSE(kept->of<metrics::Pictures>().empty());
  }
}

/// What CPU devices find, GPUs find; watching changes no bit.
TEST_F(GpuTraining, EarlyWarningsSeeDeadRectifiers) {
  TrainingCase what{kSolver, data_layer() + kBody + R"(
    layer { name: 'lost' type: 'InnerProduct' bottom: 'data' top: 'lost'
      inner_product_param { num_output: 7 weight_filler { type: 'xavier' } bias_filler { value: -1000 } } }
    layer { name: 'dead' type: 'ReLU' bottom: 'lost' top: 'dead' }
    layer { name: 'nothing' type: 'Reduction' bottom: 'dead' top: 'nothing' loss_weight: 1 })" +
                                 classifier()};
  what.iterations = 50;
  what.precision = RunPrecision::f32;
  FLAGS_minloglevel = google::FATAL;
  for (const int number : {1, 2}) {
    const TrainingFolder folder;
    TrainOptions options = options_of(what, folder, gpu_devices(number));
    const auto kept = std::make_shared<Kept>();
    options.metrics.sinks = {kept};
    options.warnings = true;
    options.solver.display = 20;
    train(options);
    std::vector<std::string> texts;
    for (const auto& [iteration, warning] : kept->of<metrics::Warning>()) texts.push_back(warning.text);
    EXPECT_THAT(texts, testing::ElementsAre(testing::HasSubstr("no gradient reaches layer \"lost\""),
                                            testing::HasSubstr("in layer \"dead\" 100 % of the channels")));
    EXPECT_EQ(read_trained(folder, what.iterations).model_bytes,
              train_case(what, gpu_devices(number)).model_bytes);
  }
}

TEST_F(GpuTraining, CheckpointsGiveTheSameBits) {
  const TrainingCase plain{kSolver, data_layer() + kBody + classifier()};
  TrainingCase cut = plain;
  cut.net = "checkpoint: '3' " + plain.net;
  for (const int number : {1, 2})
    EXPECT_EQ(train_case(cut, gpu_devices(number)).values(), train_case(plain, gpu_devices(number)).values());
}

/// Activations recovered from outputs are off by 1e-15; 20 iterations amplify that by less than 1e5.
TEST_F(GpuTraining, InPlaceAbnIsThePlainNet) {
  TrainingCase plain{kSolver, data_layer() + kBody + classifier()};
  const std::string relu = "type: 'ReLU' bottom: 'bn1' top: 'bn1'";
  plain.net.insert(plain.net.find(relu) + relu.size(), " relu_param { negative_slope: 0.1 }");
  TrainingCase in_place = plain;
  in_place.net = "in_place_abn: true " + plain.net;
  for (const int number : {1, 2}) {
    const Trained expected = train_case(plain, gpu_devices(number)),
                  found = train_case(in_place, gpu_devices(number));
    EXPECT_NE(found.values(), expected.values()) << "nothing was done in place";
    EXPECT_LE(largest_difference(expected.values(), found.values()), 1e-10);
  }
}

TEST_F(GpuTraining, RecordsWhatRanOnEveryGpu) {
  TrainingCase what{kSolver, data_layer() + kBody + classifier()};
  what.iterations = 3;
  const TrainingFolder folder;
  TrainOptions options = options_of(what, folder, gpu_devices(2));
  options.timeline = std::make_shared<Timeline>();
  FLAGS_minloglevel = 2;
  EXPECT_EQ(train(options), 0);
  int exchanges = 0, layers = 0;
  for (const Track* track : options.timeline->tracks())
    track->for_each([&](const TimeSpan& span) {
      EXPECT_LE(span.begin, span.end) << *span.name;
      exchanges += span.kind == SpanKind::exchange ? 1 : 0;
      layers += span.kind == SpanKind::forward ? 1 : 0;
    });
  EXPECT_GT(exchanges, 0);
  EXPECT_GT(layers, 2 * 3 * 8);
}

/// The nets of models/, on synthetic images: `batch` of channels x size x size.
struct Model {
  const char* name;
  const char* net;
  int channels, size, batch, iterations;
  std::vector<int> gpus;  ///< numbers of them
};
void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }

class GpuModels : public GpuTraining, public testing::WithParamInterface<Model> {
 protected:
  static void write_data(const std::string& path, const Model& model) {
    data::LmdbWriter writer(path);
    std::mt19937 random(1);
    std::vector<std::uint8_t> pixels(model.channels * model.size * model.size);
    for (int i = 0; i < 3 * model.batch; ++i) {
      for (auto& pixel : pixels)
        pixel = static_cast<std::uint8_t>(random() % 128 + static_cast<unsigned>(i % 10) * 12);
      writer.put(std::to_string(100 + i),
                 data::raw_datum(model.channels, model.size, model.size, pixels.data(), i % 10));
    }
    writer.close();
  }
  static TrainingCase case_of(const Model& model, const std::string& data) {
    // For installed programs, the environment names the folder with models/.
    const char* source = std::getenv("BANYAN_SOURCE");
    std::ifstream file(std::string(source != nullptr ? source : BANYAN_SOURCE) + "/models/" + model.net);
    std::string net{std::istreambuf_iterator<char>(file), {}};
    for (const char* source :
         {"run/cifar10/train_lmdb", "run/mnist/train_lmdb", "run/cifar10/test_lmdb", "run/mnist/test_lmdb"})
      for (std::size_t at; (at = net.find(source)) != std::string::npos;)
        net.replace(at, std::string(source).size(), data);
    for (const char* size : {"batch_size: 128", "batch_size: 64"})
      for (std::size_t at; (at = net.find(size)) != std::string::npos;)
        net.replace(at, std::string(size).size(), "batch_size: " + std::to_string(model.batch));
    TrainingCase what{
        "base_lr: 0.01 momentum: 0.9 weight_decay: 0.0005 lr_policy: 'fixed' random_seed: 3 display: 0 ",
        net};
    what.iterations = model.iterations;
    return what;
  }
};
INSTANTIATE_TEST_SUITE_P(
    Gpu, GpuModels,
    testing::Values(Model{"LeNet", "lenet/train_test.prototxt", 1, 28, 8, 3, {1, 2, 4}},
                    Model{"SyncBnLeNet", "lenet/sync_bn_train_test.prototxt", 1, 28, 8, 3, {1, 2, 4}},
                    Model{"ResNet20", "cifar10_resnet20/train_test.prototxt", 3, 32, 4, 2, {1, 2, 4}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(GpuModels, AreTheCpusModels) {
  const TrainingFolder data;
  write_data(data.path() + "/model", GetParam());
  TrainingCase what = case_of(GetParam(), data.path() + "/model");
  const Trained one = train_case(what, 1);
  for (const int number : GetParam().gpus) expect_the_same_run(one, what, gpu_devices(number));
  what.precision = RunPrecision::f32;
  const double first = train_case(what, 1).losses()[0];
  EXPECT_NEAR(train_case(what, gpu_devices(2)).losses()[0], first, 1e-4 * std::abs(first));
}

}  // namespace
}  // namespace banyan
