// What runs tell about themselves: values, files, and that telling changes nothing.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "banyan/base/error.hpp"
#include "banyan/metrics/record_file.hpp"
#include "banyan/train/session.hpp"
#include "io/io_test_tools.hpp"
#include "metrics/kept.hpp"
#include "metrics/read_json.hpp"
#include "parallel/memory_wire.hpp"
#include "proto/tensorboard_subset.pb.h"
#include "train/part_bench.hpp"
#include "train/trainer_fixture.hpp"
#include "train/training_case.hpp"

namespace banyan {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

/// Normalization, dropout and batches that are dealt; accuracy is shown too.
const char* const kMetricsNet = R"(
layer { name: 'data' type: 'Data' top: 'data' top: 'label'
  data_param { source: 'DATA' backend: LMDB batch_size: 12 batch_size_is_total: true }
  transform_param { scale: 0.01 mean_value: 60 } }
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'
  convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'msra' } } }
layer { name: 'bn' type: 'SyncBN' bottom: 'conv' top: 'conv' bn_param { slope_filler { value: 1 } } }
layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' }
layer { name: 'drop' type: 'Dropout' bottom: 'conv' top: 'drop' dropout_param { dropout_ratio: 0.3 } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'drop' top: 'ip'
  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }
layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'accuracy' })";
const char* const kMetricsSolver =
    "base_lr: 0.05 momentum: 0.9 weight_decay: 0.001 lr_policy: 'step' gamma: 0.5 stepsize: 8 random_seed: 3 "
    "average_loss: 1 display: 2 test_iter: 5 test_interval: 5 snapshot: 6 ";

class RunMetricsTest : public testing::Test {
 protected:
  RunMetricsTest() { FLAGS_minloglevel = 2; }
  /// What a run tells. Metrics of everything, every 2 iterations.
  std::shared_ptr<Kept> told(TrainOptions options) const {
    auto kept = std::make_shared<Kept>();
    options.metrics.sinks = {kept};
    options.solver.metrics.histograms = options.solver.metrics.images = 2;
    Session session(options);
    while (session.iteration() < options.solver.max_iter) {
      session.step(1);
      if (session.iteration() % 2 == 0) continue;
      wait_for<metrics::Parameters>(*kept, session.iteration() - 1);
      wait_for<metrics::Pictures>(*kept, session.iteration() - 1);
    }
    session.train();
    return kept;
  }
  TrainOptions options(int devices, const TrainingFolder* folder = nullptr) const {
    TrainingCase of{kMetricsSolver, kMetricsNet};
    of.iterations = 12;
    return options_of(of, folder != nullptr ? *folder : folder_, devices);
  }
  const TrainingFolder folder_;
};

TEST_F(RunMetricsTest, TellTheRunInOrder) {
  const auto kept = told(options(2));
  EXPECT_THAT(kept->iterations_of<metrics::Start>(), ElementsAre(0));
  EXPECT_THAT(kept->iterations_of<metrics::Test>(), ElementsAre(0, 5, 10));
  EXPECT_THAT(kept->iterations_of<metrics::Train>(), ElementsAre(0, 2, 4, 6, 8, 10, 12));
  EXPECT_THAT(kept->iterations_of<metrics::Parameters>(), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(kept->iterations_of<metrics::Pictures>(), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(kept->iterations_of<metrics::Snapshot>(), ElementsAre(6, 12));
  EXPECT_THAT(kept->iterations_of<metrics::End>(), ElementsAre(12));
  EXPECT_FALSE(kept->iterations_of<metrics::Layers>().empty());
  EXPECT_EQ(kept->of<metrics::End>()[0].second.reason, "finished");

  const metrics::Start start = kept->of<metrics::Start>()[0].second;
  EXPECT_EQ(start.devices.size(), 2u);
  EXPECT_EQ(start.devices[1].name, "cpu:1");
  EXPECT_EQ(start.devices[1].batch, 6);
  EXPECT_EQ(start.samples_per_iteration, 12);
  ASSERT_EQ(start.datasets.size(), 2u);  // of the train net and the test net
  EXPECT_EQ(start.datasets[0].records, 50u);
  const auto conv = std::find_if(start.layers.begin(), start.layers.end(),
                                 [](const auto& layer) { return layer.type == "Convolution"; });
  ASSERT_NE(conv, start.layers.end());
  EXPECT_EQ(conv->blobs.at(0), (metrics::Dims{6, 3, 3, 3}));
  EXPECT_EQ(start.tree.value().links.size(), 1u);
  EXPECT_GT(start.memory.activations, 0);
  EXPECT_THAT(start.solver.text, HasSubstr("base_lr: 0.05"));
  EXPECT_THAT(start.solver.text, testing::Not(HasSubstr("convolution_param")));
  EXPECT_THAT(start.nets.at(0).text, HasSubstr("convolution_param"));

  const metrics::Snapshot snapshot = kept->of<metrics::Snapshot>()[0].second;
  EXPECT_EQ(snapshot.bytes,
            static_cast<std::int64_t>(fs::file_size(snapshot.model) + fs::file_size(snapshot.state)));
}

TEST_F(RunMetricsTest, TellWhatTheLogTells) {
  const LoggedLines log;
  const auto kept = told(options(2));
  for (const auto& [iteration, train] : kept->of<metrics::Train>()) {
    const bool last = iteration == 12;
    EXPECT_THAT(log.lines, testing::Contains(testing::MatchesRegex(cat(
                               "Iteration ", iteration, last ? "" : " \\(.*\\)", ", loss = ", train.loss))));
    if (last) continue;
    EXPECT_THAT(log.lines, testing::Contains(cat("Iteration ", iteration, ", lr = ", train.rate.value())));
    EXPECT_DOUBLE_EQ(train.epoch.value(), static_cast<double>(12 * (iteration + 1)) / 50);
    EXPECT_EQ(train.iterations, iteration == 0 ? 1 : 2);
    EXPECT_GT(train.samples_per_second.value(), 0);
    ASSERT_EQ(train.outputs.size(), 2u);
    EXPECT_THAT(log.lines,
                testing::Contains(cat("    Train net output #0: accuracy = ", train.outputs[0].values[0])));
    EXPECT_EQ(train.outputs[1].weight, 1);
  }
  for (const auto& [iteration, test] : kept->of<metrics::Test>()) {
    EXPECT_THAT(log.lines, testing::Contains(
                               cat("    Test net output #0: accuracy = ", test.outputs.at(0).values.at(0))));
    EXPECT_EQ(test.batches, 5);
  }
}

/// Every moment of a sampled iteration belongs to one share.
TEST_F(RunMetricsTest, TellWhereTheTimeGoes) {
  TrainOptions asked = options(2);
  for (const bool asynchronous : {false, true}) {
    asked.cpu.asynchronous = asynchronous;
    const auto kept = told(asked);
    std::set<std::int64_t> sampled;
    for (const auto& [iteration, train] : kept->of<metrics::Train>())
      for (const metrics::Train::Device& device : train.devices) {
        EXPECT_GT(device.memory_peak, 0);
        EXPECT_GE(device.waiting_for_data.value(), 0);
        EXPECT_LE(device.waiting_for_data.value(), 1);
        if (!device.sampled) continue;
        sampled.insert(*device.sampled);
        EXPECT_EQ(*device.sampled, iteration - 1);
        std::map<std::string, double> ms(device.milliseconds.begin(), device.milliseconds.end());
        EXPECT_GT(ms["compute"], 0);
        EXPECT_NEAR(ms["compute"] + ms["exposed"] + ms["update"] + ms["data"] + ms["other"], ms["iteration"],
                    1e-6);
      }
    EXPECT_THAT(sampled, ElementsAre(3, 5, 7, 9));  // the first iterations are not like the others
    int iterations = 0;
    for (const auto& [iteration, layers] : kept->of<metrics::Layers>()) {
      iterations += layers.sampled;
      std::map<std::string, metrics::Layers::Time> times;
      for (const metrics::Layers::Time& layer : layers.layers) times[layer.name] = layer;
      EXPECT_GT(times["conv"].forward, 0);
      EXPECT_GT(times["conv"].backward, 0);
      EXPECT_GT(times["data"].forward, 0);
    }
    EXPECT_EQ(iterations, 4);
  }
}

/// The clipping that follows logs the norm too.
TEST_F(RunMetricsTest, GradientNormIsWhatClippingSees) {
  const LoggedLines log;
  TrainOptions asked = options(3);
  asked.solver.clip_norm = 1e-6;
  asked.solver.display = 1;
  asked.solver.iter_size = 2;
  const auto kept = told(asked);
  const auto trained = kept->of<metrics::Train>();
  ASSERT_EQ(trained.size(), 13u);
  std::vector<std::string> clipped;
  for (const std::string& line : log.lines)
    if (line.starts_with("Gradient clipping")) clipped.push_back(line);
  ASSERT_EQ(clipped.size(), 12u);
  for (std::size_t i = 0; i < clipped.size(); ++i)
    EXPECT_THAT(clipped[i],
                HasSubstr(cat("(L2 norm ", trained[i].second.gradient_norm.value(), " > 1e-06)")));
}

/// Where gradients do not stay after the updates, they are measured before.
TEST_F(RunMetricsTest, GradientNormIsTheSameWhereGradientsDoNotStay) {
  TrainOptions asked = options(1);
  const auto trained = [&asked] {
    const auto kept = std::make_shared<Kept>();
    asked.metrics.sinks = {kept};
    Session(asked).train();
    return kept->of<metrics::Train>();
  };
  ASSERT_FALSE(keeps_gradients(asked));
  const auto found = trained();
  asked.solver.clip_norm = 1e30;
  const auto expected = trained();
  ASSERT_EQ(found.size(), expected.size());
  std::set<double> norms;
  for (std::size_t i = 0; i + 1 < found.size(); ++i) {  // the last one tells of a loss only
    const double norm = expected[i].second.gradient_norm.value();
    EXPECT_NEAR(found[i].second.gradient_norm.value(), norm, 1e-12 * norm);  // f64, added in another order
    norms.insert(norm);
  }
  EXPECT_GE(norms.size(), 6u);
}

/// Plain SGD: the change is the rate times the gradient.
TEST_F(RunMetricsTest, ParametersAreMeasuredExactly) {
  TrainOptions asked = options(2);
  asked.solver.display = 1;
  asked.solver.update.momentum = 0;
  asked.solver.update.weight_decay = 0;
  const auto kept = std::make_shared<Kept>();
  asked.metrics.sinks = {kept};
  asked.solver.metrics.histograms = 1;
  std::vector<std::map<std::string, Values>> values;
  std::map<std::string, Values> mean;
  {
    Session session(asked);
    for (int i = 0; i < 3; ++i) {
      auto& now = values.emplace_back();
      for (const auto& [layer, name] :
           {std::pair<std::string, std::string>{"conv", "conv.weight"}, {"ip", "ip.weight"}})
        now[name] = session.parameter(layer, 0);
      session.step(1);
      wait_for<metrics::Parameters>(*kept, i);
    }
    mean["bn.running_mean"] = session.parameter("bn", 2);
  }
  const auto norm = [](const std::vector<double>& v) {
    return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
  };
  const auto measured = kept->of<metrics::Parameters>();
  ASSERT_EQ(measured.size(), 3u);
  double squares = 0;
  for (const metrics::Parameters::Entry& entry : measured[1].second.entries) {
    squares += entry.gradient_norm.value_or(0) * entry.gradient_norm.value_or(0);
    EXPECT_EQ(entry.values.count, entry.count) << entry.name;  // few enough to take all
    EXPECT_EQ(entry.values.not_finite, 0);
    EXPECT_NEAR(std::sqrt(entry.values.sum_of_squares), entry.norm, 1e-12 * entry.norm) << entry.name;
    if (!values[1].contains(entry.name)) continue;
    EXPECT_EQ(entry.count, std::ssize(values[1][entry.name].values));
    EXPECT_NEAR(entry.norm, norm(values[2][entry.name].values), 1e-12 * entry.norm);
    const double change = 0.05F * entry.gradient_norm.value();
    // f64; the change is a difference of values a hundred times as large.
    EXPECT_NEAR(entry.update_ratio.value(), change / norm(values[1][entry.name].values),
                1e-12 * entry.update_ratio.value());
    EXPECT_NEAR(std::sqrt(entry.gradients.sum_of_squares), *entry.gradient_norm, 1e-12);
  }
  const auto trained = kept->of<metrics::Train>();
  EXPECT_NEAR(trained.at(1).second.gradient_norm.value(), std::sqrt(squares), 1e-12 * std::sqrt(squares));
  const auto& last = measured[2].second.entries;
  const auto running =
      std::find_if(last.begin(), last.end(), [](const auto& e) { return e.name == "bn.running_mean"; });
  ASSERT_NE(running, last.end());
  EXPECT_TRUE(running->statistic);
  EXPECT_FALSE(running->gradient_norm);
  EXPECT_NEAR(running->norm, norm(mean["bn.running_mean"].values), 1e-12);
  EXPECT_EQ(last.size(), 8u);  // conv 2, bn 4, ip 2
}

/// f64: rounding, amplified by twelve iterations, as in the tests of the promises.
TEST_F(RunMetricsTest, AreTheSameForAnyNumberOfDevices) {
  const auto one = told(options(1));
  for (const int devices : {2, 3, 4}) {
    const auto several = told(options(devices));
    const auto expected = one->of<metrics::Train>(), found = several->of<metrics::Train>();
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].first, expected[i].first);
      EXPECT_NEAR(found[i].second.loss, expected[i].second.loss, 1e-10);
      EXPECT_EQ(found[i].second.epoch, expected[i].second.epoch);
      EXPECT_EQ(found[i].second.gradient_norm.has_value(), i + 1 < found.size());
      EXPECT_NEAR(found[i].second.gradient_norm.value_or(0), expected[i].second.gradient_norm.value_or(0),
                  1e-9);
      for (std::size_t k = 0; k < found[i].second.outputs.size(); ++k)
        EXPECT_NEAR(found[i].second.outputs[k].values.at(0), expected[i].second.outputs[k].values.at(0),
                    1e-10);
    }
    const auto parameters = one->of<metrics::Parameters>(), of_several = several->of<metrics::Parameters>();
    ASSERT_EQ(of_several.size(), parameters.size());
    for (std::size_t i = 0; i < parameters.size(); ++i)
      for (std::size_t p = 0; p < parameters[i].second.entries.size(); ++p) {
        const auto &a = parameters[i].second.entries[p], &b = of_several[i].second.entries.at(p);
        EXPECT_EQ(a.name, b.name);
        EXPECT_NEAR(a.norm, b.norm, 1e-9) << a.name;
        EXPECT_NEAR(a.gradient_norm.value_or(0), b.gradient_norm.value_or(0), 1e-9) << a.name;
        EXPECT_EQ(a.values.count, b.values.count);
      }
    // The first device's samples: of one device the first 8, of several every second or third...
    EXPECT_EQ(several->of<metrics::Pictures>()[0].second.pictures.size(), 2u);
    const auto tests = one->of<metrics::Test>(), of_devices = several->of<metrics::Test>();
    for (std::size_t i = 0; i < tests.size(); ++i)
      EXPECT_NEAR(tests[i].second.outputs.at(0).values.at(0),
                  of_devices.at(i).second.outputs.at(0).values.at(0), 1e-10);
  }
}

TEST_F(RunMetricsTest, ChangeNoBitOfTraining) {
  for (const int devices : {1, 3})
    for (const bool asynchronous : {false, true}) {
      const TrainingFolder without_folder, with_folder;
      TrainOptions without = options(devices, &without_folder), with = options(devices, &with_folder);
      for (TrainOptions* either : {&without, &with}) {
        either->precision = RunPrecision::f32;
        either->solver.update.rule = ops::UpdateRule::adam;
        either->solver.update.momentum2 = 0.99;
        either->solver.update.delta = 1e-8;
        either->solver.iter_size = 2;
      }
      with.cpu.asynchronous = asynchronous;
      with.solver.display = 1;
      train(without);
      told(with);
      const Trained a = read_trained(without_folder, 12), b = read_trained(with_folder, 12);
      EXPECT_EQ(a.model_bytes, b.model_bytes);
      EXPECT_EQ(a.losses(), b.losses());
      ASSERT_EQ(a.state.history_size(), b.state.history_size());
      for (int i = 0; i < a.state.history_size(); ++i)
        EXPECT_EQ(a.state.history(i).SerializeAsString(), b.state.history(i).SerializeAsString());
    }
}

TEST_F(RunMetricsTest, AreTakenWithoutADisplayToo) {
  const LoggedLines log;
  TrainOptions asked = options(2);
  asked.solver.display = 0;
  asked.solver.max_iter = 201;
  const auto kept = told(asked);
  EXPECT_THAT(kept->iterations_of<metrics::Train>(), ElementsAre(0, 100, 200));
  for (const std::string& line : log.lines) EXPECT_THAT(line, testing::Not(HasSubstr("lr = ")));
}

/// Where a run keeps a timeline anyway, the samples are taken from it, and once that is full from one of
/// their own.
TEST_F(RunMetricsTest, GoWithATrace) {
  for (const std::int64_t spans : {Timeline::kMostSpans, std::int64_t{300}}) {
    TrainOptions asked = options(2);
    asked.timeline = std::make_shared<Timeline>(spans);
    const auto kept = told(asked);
    EXPECT_EQ(asked.timeline->dropped() > 0, spans == 300);
    int sampled = 0;
    for (const auto& [iteration, train] : kept->of<metrics::Train>())
      for (const metrics::Train::Device& device : train.devices) sampled += device.sampled.has_value();
    // While the timeline fills up a sample is lost.
    EXPECT_GE(sampled, spans == 300 ? 6 : 8);
  }
}

TEST_F(RunMetricsTest, WarningsAreRecords) {
  const auto kept = std::make_shared<Kept>();
  TrainOptions asked = options(1);
  asked.metrics.sinks = {kept};
  {
    Session session(asked);
    session.step(3);
    FLAGS_minloglevel = google::WARNING;
    LOG(WARNING) << "the third\nof May";
    FLAGS_minloglevel = google::FATAL;
    session.step(1);
  }
  const auto warnings = kept->of<metrics::Warning>();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].first, 3);
  EXPECT_EQ(warnings[0].second.text, "the third\nof May");
  EXPECT_EQ(kept->of<metrics::End>()[0].second.reason, "stopped");
}

TEST_F(RunMetricsTest, AFailureIsTheEnd) {
  const auto kept = std::make_shared<Kept>();
  TrainOptions asked = options(2);
  asked.metrics.sinks = {kept};
  install_fault_injector([](const Activity& activity, Stage stage, const char*) {
    if (stage == Stage::backward && activity.state().iteration == 5) runtime_failure("a fuse has blown");
  });
  EXPECT_THROW(train(asked), Error);
  install_fault_injector(nullptr);
  const auto ends = kept->of<metrics::End>();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].first, 5);
  EXPECT_EQ(ends[0].second.reason, "failed");
  EXPECT_THAT(ends[0].second.error, HasSubstr("a fuse has blown"));
}

TEST_F(RunMetricsTest, OneProcessSpeaksForAll) {
  const auto expected = told(options(4))->of<metrics::Train>();
  parallel::MemoryHub hub({2, 2});
  const std::vector<std::shared_ptr<Kept>> kept = {std::make_shared<Kept>(), std::make_shared<Kept>()};
  std::vector<std::thread> processes;
  for (int p = 0; p < 2; ++p)
    processes.emplace_back([&, p] {
      const auto uplink = hub.join(p);
      TrainOptions asked = options(2);
      asked.uplink = uplink.get();
      asked.metrics.sinks = {kept[static_cast<std::size_t>(p)]};
      train(asked);
      uplink->leave();
    });
  for (std::thread& process : processes) process.join();
  EXPECT_TRUE(kept[1]->of<metrics::Start>().empty());
  const auto found = kept[0]->of<metrics::Train>();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i + 1 < found.size(); ++i) {
    EXPECT_NEAR(found[i].second.loss, expected[i].second.loss, 1e-10);
    EXPECT_NEAR(found[i].second.gradient_norm.value(), expected[i].second.gradient_norm.value(), 1e-9);
  }
}

// --- files ---

class MetricsFiles : public TrainerRun {
 protected:
  void SetUp() override {
    TrainerRun::SetUp();
    write("solver", solver_for("net", "max_iter: 20 snapshot: 5 display: 2 test_iter: 2 test_interval: 4"));
    write("endless",
          solver_for("net", "max_iter: 1000000 snapshot: 25 display: 1 test_iter: 2 test_interval: 10"));
  }
  std::string folder() const { return path("metrics"); }
  int train_it(const std::string& solver, std::vector<std::string> flags = {},
               rlim_t largest_file = 0) const {
    flags.insert(flags.end(), {"--solver=" + path(solver), "--cpu=2", "--metrics=" + folder()});
    return run(flags, largest_file);
  }
  std::vector<JsonMembers> lines(bool killed = false) const {
    std::string text = file("metrics/metrics.jsonl");
    if (killed) text.resize(text.rfind('\n') + 1);
    return read_json_lines(text);
  }
  /// Iterations of the lines of one kind.
  std::vector<std::int64_t> iterations(const std::string& kind, bool killed = false) const {
    std::vector<std::int64_t> found;
    for (const JsonMembers& line : lines(killed))
      if (text(line, "kind") == kind) found.push_back(static_cast<std::int64_t>(number(line, "iteration")));
    return found;
  }
  /// Steps of a curve in the event files, in the order in which TensorBoard reads them.
  /// `killed`: the last run was, perhaps while it wrote its last record.
  std::vector<std::int64_t> steps(const std::string& tag, bool killed = false) const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(folder()))
      if (entry.path().string().find("tfevents") != std::string::npos) files.push_back(entry.path().string());
    std::sort(files.begin(), files.end());
    std::vector<std::int64_t> found;
    for (const std::string& file : files) {
      const std::int64_t whole = metrics::read_frames(file, [&](const std::string& record) {
        banyan_tensorboard::Event event;
        EXPECT_TRUE(event.ParseFromString(record));
        for (const auto& value : event.summary().value())
          if (value.tag() == tag) found.push_back(event.step());
        return true;
      });
      if (killed && file == files.back()) continue;
      EXPECT_EQ(whole, static_cast<std::int64_t>(fs::file_size(file))) << file;
    }
    return found;
  }
  void expect_no_step_twice(const std::string& curve, bool killed = false) const {
    const std::vector<std::int64_t> found = steps(curve, killed);
    EXPECT_FALSE(found.empty());
    EXPECT_TRUE(std::is_sorted(found.begin(), found.end(), std::less_equal<>()))
        << testing::PrintToString(found);
  }
  static std::vector<std::int64_t> every(std::int64_t step, std::int64_t end) {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < end; i += step) all.push_back(i);
    return all;
  }
};

TEST_F(MetricsFiles, HoldTheRun) {
  ASSERT_EQ(train_it("solver", {"--histograms=4", "--images=4"}), 0) << file("log");
  EXPECT_EQ(steps("train/loss"), every(2, 21));
  EXPECT_EQ(steps("test0/loss"), every(4, 21));
  for (const char* curve : {"norm/conv.weight", "input/data"}) {
    EXPECT_FALSE(steps(curve).empty());  // what comes before the last one is written is left out
    for (const std::int64_t step : steps(curve)) EXPECT_EQ(step % 4, 0);
  }
  if (!kReadsJson) GTEST_SKIP() << kWhyNotRead;
  EXPECT_EQ(iterations("train"), every(2, 21));
  EXPECT_EQ(iterations("test"), every(4, 21));
  EXPECT_EQ(iterations("parameters"), steps("norm/conv.weight"));
  EXPECT_THAT(iterations("snapshot"), ElementsAre(5, 10, 15, 20));
  EXPECT_THAT(iterations("end"), ElementsAre(20));
  const JsonMembers start = lines().at(0);
  const auto& words = member(start, "command_line").list_value();
  EXPECT_THAT(words.values(0).string_value(), HasSubstr("trainer"));
  EXPECT_EQ(words.values(words.values_size() - 1).string_value(), "--metrics=" + folder());
  // The same run tells the same losses and outputs.
  for (const JsonMembers& line : lines())
    if (text(line, "kind") == "train" && number(line, "iteration") < 20) {
      EXPECT_THAT(file("log"),
                  HasSubstr(cat("Iteration ", number(line, "iteration"), ", lr = ", number(line, "rate"))));
    }
}

TEST_F(MetricsFiles, AResumedRunContinuesThem) {
  ASSERT_EQ(train_it("solver", {"--histograms=2"}), 0) << file("log");
  const std::string uninterrupted = file("metrics/metrics.jsonl");
  ASSERT_EQ(train_it("solver", {"--histograms=2", "--snapshot=" + path("run/s_iter_10.solverstate")}), 0)
      << file("log");
  EXPECT_EQ(steps("train/loss"), every(2, 21));
  EXPECT_EQ(steps("test0/loss"), every(4, 21));
  expect_no_step_twice("norm/conv.weight");
  if (!kReadsJson) GTEST_SKIP() << kWhyNotRead;
  EXPECT_EQ(iterations("train"), every(2, 21));
  EXPECT_EQ(iterations("parameters"), steps("norm/conv.weight"));
  EXPECT_EQ(iterations("test"), every(4, 21));
  EXPECT_THAT(iterations("start"), ElementsAre(0, 10));
  EXPECT_THAT(iterations("end"), ElementsAre(20));
  EXPECT_THAT(iterations("snapshot"), ElementsAre(5, 10, 15, 20));
  // Bit for bit.
  std::map<double, double> losses;
  for (const JsonMembers& line : read_json_lines(uninterrupted))
    if (text(line, "kind") == "train") losses[number(line, "iteration")] = number(line, "loss");
  for (const JsonMembers& line : lines())
    if (text(line, "kind") == "train") {
      EXPECT_EQ(number(line, "loss"), losses.at(number(line, "iteration")));
    }
}

/// Whenever it is killed, the files can be read but for a record that was being written, and the next run
/// continues them.
TEST_F(MetricsFiles, SurviveKills) {
  for (int kill = 0; kill < 4; ++kill) {
    const auto trainer = start({"--solver=" + path("endless"), "--cpu=2", "--metrics=" + folder(),
                                "--histograms=7", "--snapshot=latest"});
    ASSERT_TRUE(trainer->reaches(30 * (kill + 1) + 3 * kill)) << trainer->text();
    trainer->signal(SIGKILL);
    trainer->wait();
    const std::vector<std::int64_t> loss = steps("train/loss", true);
    const std::int64_t saved = 25 * (kill + 1);  // what came before a snapshot was written before it
    EXPECT_GE(std::ssize(loss), saved);
    EXPECT_EQ(loss, every(1, std::ssize(loss)));
    expect_no_step_twice("norm/conv.weight", true);
    if (!kReadsJson) continue;
    const std::vector<std::int64_t> trained = iterations("train", true);
    EXPECT_EQ(trained, every(1, std::ssize(trained)));
    EXPECT_EQ(std::ssize(iterations("start", true)), kill + 1);
    EXPECT_TRUE(iterations("end", true).empty());
  }
}

/// From the beginning, because there was no snapshot yet.
TEST_F(MetricsFiles, ARunKilledBeforeItsFirstSnapshotBeginsAgain) {
  {
    const auto trainer =
        start({"--solver=" + path("endless"), "--cpu=2", "--metrics=" + folder(), "--snapshot=latest"});
    ASSERT_TRUE(trainer->says("Iteration 9 ", 60)) << trainer->text();
    trainer->signal(SIGKILL);
    trainer->wait();
  }
  for (const auto& entry : fs::directory_iterator(path("run"))) fs::remove(entry);
  ASSERT_EQ(train_it("solver", {"--snapshot=latest"}), 0) << file("log");
  EXPECT_EQ(steps("train/loss"), every(2, 21));
  if (!kReadsJson) GTEST_SKIP() << kWhyNotRead;
  EXPECT_THAT(iterations("start"), ElementsAre(0));
  EXPECT_EQ(iterations("train"), every(2, 21));
}

TEST_F(MetricsFiles, AFullDiskIsAWarningAndTrainingGoesOn) {
  write("long", solver_for("net", "max_iter: 400 display: 1 snapshot_after_train: false"));
  constexpr rlim_t kLimit = 400'000;  // the log needs half of it
  ASSERT_EQ(train_it("long", {"--histograms=1"}, kLimit), 0) << file("log");
  const std::string log = file("log");
  const std::string what = "training goes on";
  std::size_t warnings = 0;
  for (std::size_t at = 0; (at = log.find(what, at)) != std::string::npos; ++at) ++warnings;
  EXPECT_GE(warnings, 1u);
  EXPECT_LE(warnings, 20u);  // not one for each record that finds no room
  EXPECT_THAT(log, HasSubstr("Iteration 399, lr = "));
  const std::vector<std::int64_t> loss = steps("train/loss");  // whole records only
  EXPECT_GT(loss.size(), 5u);
  EXPECT_TRUE(std::is_sorted(loss.begin(), loss.end()));
  if (!kReadsJson) GTEST_SKIP() << kWhyNotRead;
  EXPECT_GT(lines().size(), 5u);
}

TEST_F(MetricsFiles, WhatCannotBeWrittenIsRefusedAtTheStart) {
  const auto refused = [&](const std::string& where, const std::vector<std::string>& words,
                           rlim_t limit = 0) {
    const int code = run({"--solver=" + path("solver"), "--metrics=" + where}, limit);
    std::vector<std::string> all = {"--metrics=" + where};
    all.insert(all.end(), words.begin(), words.end());
    expect_refusal(code, all);
    EXPECT_EQ(message().find('\n'), message().size() - 1) << message();  // one line
    EXPECT_THAT(file("log"), testing::Not(HasSubstr("Solving")));
  };
  refused(path("net"), {});  // a file
  refused(path("net") + "/metrics", {"Not a directory"});
  refused("/proc/banyan", {"No such file or directory"});  // nobody can write there, not even root
  refused(path("full"), {"File too large"}, 10'000);
  expect_refusal(run({"--solver=" + path("solver"), "--histograms=2"}),
                 {"--histograms", "--metrics is missing"});
  expect_refusal(run({"--solver=" + path("solver"), "--metrics=" + folder(), "--images=-1"}),
                 {"--images=-1"});
}

TEST_F(MetricsFiles, AnotherRunIsReplacedOnlyWhenAsked) {
  ASSERT_EQ(train_it("solver"), 0) << file("log");
  const std::string first = file("metrics/metrics.jsonl");
  expect_refusal(train_it("solver"),
                 {"--metrics=" + folder(), "holds the metrics of another run", "--snapshot", "--overwrite"});
  EXPECT_EQ(file("metrics/metrics.jsonl"), first);
  ASSERT_EQ(train_it("solver", {"--overwrite"}), 0) << file("log");
  EXPECT_EQ(steps("train/loss"), every(2, 21));
  if (!kReadsJson) GTEST_SKIP() << kWhyNotRead;
  EXPECT_EQ(iterations("train"), every(2, 21));
}

TEST_F(MetricsFiles, AFolderIsWrittenByOneRunAtATime) {
  const auto trainer = start({"--solver=" + path("endless"), "--cpu=2", "--metrics=" + folder()});
  ASSERT_TRUE(trainer->says("Iteration 5 ", 60)) << trainer->text();
  const TrainerProcess second(folder_, path("log2"),
                              {"--solver=" + path("solver"), "--metrics=" + folder(), "--overwrite"});
  EXPECT_EQ(const_cast<TrainerProcess&>(second).wait(), 2);
  EXPECT_THAT(second.text(), HasSubstr("is being written by another run"));
  trainer->signal(SIGINT);
  EXPECT_EQ(trainer->wait(), 0);
}

TEST_F(MetricsFiles, TheSolverCanAskForThem) {
  write("asking",
        solver_for("net", cat("max_iter: 4 display: 2 metrics: '", folder(), "' metrics_histograms: 2")));
  ASSERT_EQ(train_with("asking"), 0) << file("log");
  EXPECT_EQ(steps("train/loss"), every(2, 5));
  EXPECT_FALSE(steps("norm/conv.weight").empty());
}

TEST_F(MetricsFiles, ASessionThatGoesBackCutsThem) {
  TrainOptions asked = options(2, lmdb_source(), "display: 1");
  asked.solver.metrics.folder = folder();
  {
    Session session(asked);
    session.step(3);
    const std::string snapshot = session.snapshot();
    session.step(2);
    session.restore(snapshot);
    session.step(3);
  }
  EXPECT_EQ(steps("train/loss"), every(1, 6));
  if (!kReadsJson) GTEST_SKIP() << kWhyNotRead;
  EXPECT_EQ(iterations("train"), every(1, 6));
  EXPECT_THAT(iterations("start"), ElementsAre(0, 3));
}

/// The files as TensorBoard's own reader sees them.
TEST_F(MetricsFiles, AreReadByTensorBoard) {
  ASSERT_EQ(train_it("solver", {"--histograms=4", "--images=4"}), 0) << file("log");
  ASSERT_EQ(
      train_it("solver", {"--histograms=4", "--images=4", "--snapshot=" + path("run/s_iter_10.solverstate")}),
      0)
      << file("log");
  const char* python = std::getenv("BANYAN_PYTHON");
  const std::string command =
      cat("'", python != nullptr ? python : "python3", "' '", BANYAN_SOURCE,
          "/tests/metrics/tensorboard_reads.py' '", folder(), "' > '", path("read"), "' 2>&1");
  const int status = std::system(command.c_str());
  if (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127) GTEST_SKIP() << file("read");
  EXPECT_EQ(status, 0) << file("read");
}

}  // namespace
}  // namespace banyan
