// The trace of a small training run, read back from its file.
#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <map>
#include <set>

#include "banyan/base/error.hpp"
#include "banyan/observe/activity.hpp"
#include "banyan/train/trace_file.hpp"
#include "metrics/read_json.hpp"
#include "train/trainer_fixture.hpp"

namespace banyan {
namespace {

struct TraceEvent {
  std::string phase, name, category, id;
  int device = 0, track = 0;
  double begin = 0, length = 0;  ///< microseconds
  std::map<std::string, std::string> arguments;
};

std::string text_of(const google::protobuf::Value& value) {
  return value.has_number_value() ? std::to_string(static_cast<std::int64_t>(value.number_value()))
                                  : value.string_value();
}

std::vector<TraceEvent> parse_trace(const std::string& json) {
  if (!kReadsJson) return {};
  google::protobuf::Struct root;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(json, &root).ok()) << json.substr(0, 500);
  std::vector<TraceEvent> events;
  for (const auto& value : root.fields().at("traceEvents").list_value().values()) {
    const auto& fields = value.struct_value().fields();
    const auto text = [&](const char* key) {
      return fields.contains(key) ? fields.at(key).string_value() : std::string();
    };
    const auto number = [&](const char* key) {
      return fields.contains(key) ? fields.at(key).number_value() : 0;
    };
    TraceEvent& event = events.emplace_back();
    event.phase = text("ph");
    event.name = text("name");
    event.category = text("cat");
    event.id = text("id");
    event.device = static_cast<int>(number("pid")) - 1;
    event.track = static_cast<int>(number("tid"));
    event.begin = number("ts");
    event.length = number("dur");
    if (fields.contains("args"))
      for (const auto& [key, argument] : fields.at("args").struct_value().fields())
        event.arguments[key] = text_of(argument);
  }
  return events;
}

/// Events of one track: any two must be disjoint or nested.
void expect_nested(std::vector<TraceEvent> events) {
  std::stable_sort(events.begin(), events.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.length > b.length;
  });
  constexpr double kRounding = 1e-3;  // doubles of microseconds since the start, written to 1 ns
  std::vector<const TraceEvent*> open;
  for (const TraceEvent& event : events) {
    while (!open.empty() && open.back()->begin + open.back()->length <= event.begin + kRounding)
      open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(event.begin + event.length, open.back()->begin + open.back()->length + kRounding)
          << event.name << " in " << open.back()->name;
    }
    open.push_back(&event);
  }
}

class Trace : public TrainerRun {
 protected:
  static constexpr int kIterations = 4, kDevices = 2;
  /// Two synchronized batch norms, and enough parameters for several buckets.
  static std::string net() {
    return R"(
      layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
              convolution_param { num_output: 8 kernel_size: 3 weight_filler { type: "xavier" } } }
      layer { name: "bn1" type: "SyncBN" bottom: "conv" top: "bn1"
              bn_param { slope_filler { type: "constant" value: 1 } bias_filler { type: "constant" } } }
      layer { name: "ip1" type: "InnerProduct" bottom: "bn1" top: "ip1"
              inner_product_param { num_output: 1024 weight_filler { type: "xavier" } } }
      layer { name: "bn2" type: "SyncBN" bottom: "ip1" top: "bn2"
              bn_param { slope_filler { type: "constant" value: 1 } bias_filler { type: "constant" } } }
      layer { name: "ip2" type: "InnerProduct" bottom: "bn2" top: "ip2"
              inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" })";
  }
  std::vector<TraceEvent> traced_training(bool asynchronous) {
    TrainOptions options = this->options(kDevices, lmdb_source());
    options.solver.nets.clear_net_param();
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(lmdb_source() + net(),
                                                              options.solver.nets.mutable_net_param()));
    options.solver.max_iter = kIterations;
    options.solver.clip_norm.reset();
    options.cpu.asynchronous = asynchronous;
    with_trace(path("trace.json"), [&](const std::shared_ptr<Timeline>& timeline) {
      options.timeline = timeline;
      EXPECT_EQ(train(options), 0);
    });
    return parse_trace(file("trace.json"));
  }
};

class TraceOf : public Trace, public testing::WithParamInterface<bool> {};

TEST_P(TraceOf, EveryLayerBucketAndExchangeIsThere) {
  const std::vector<TraceEvent> events = traced_training(GetParam());
  if (!kReadsJson) GTEST_SKIP() << kWhyNotRead;
  std::map<int, std::string> devices;
  std::map<int, std::string> tracks;
  std::map<int, std::vector<TraceEvent>> nested;                      // by track
  std::map<std::pair<int, std::string>, std::set<std::string>> seen;  // by device and title: iterations
  std::map<std::pair<int, std::string>, int> counts;
  std::map<std::pair<int, std::string>, double> begun;  // asynchronous ones
  for (const TraceEvent& event : events) {
    const std::pair<int, std::string> key{event.device, event.name};
    if (event.phase == "M" && event.name == "process_name")
      devices[event.device] = event.arguments.at("name");
    if (event.phase == "M" && event.name == "thread_name") tracks[event.track] = event.arguments.at("name");
    if (event.phase == "M") continue;
    EXPECT_FALSE(event.arguments.contains("unfinished")) << event.name;
    if (event.phase == "X") nested[event.track].push_back(event);
    if (event.phase == "b") {
      EXPECT_FALSE(begun.contains(key)) << event.name;
      begun[key] = event.begin;
    }
    if (event.phase == "e") {
      ASSERT_TRUE(begun.contains(key)) << event.name;
      EXPECT_GE(event.begin, begun[key]);
      begun.erase(key);
      continue;
    }
    ++counts[key];
    seen[key].insert(event.arguments.contains("iteration") ? event.arguments.at("iteration") : "");
  }
  EXPECT_TRUE(begun.empty());
  EXPECT_THAT(devices, testing::ElementsAre(testing::Pair(0, "cpu:0"), testing::Pair(1, "cpu:1")));
  for (const auto& [track, in_track] : nested) expect_nested(in_track);

  std::set<std::string> all_iterations;
  for (int i = 0; i < kIterations; ++i) all_iterations.insert(std::to_string(i));
  for (int device = 0; device < kDevices; ++device) {
    const auto expect_each_iteration = [&](const std::string& title, int times) {
      EXPECT_THAT((seen[{device, title}]), testing::IsSupersetOf(all_iterations))
          << title << " on " << device;
      if (times > 0) {
        EXPECT_EQ((counts[{device, title}]), times * kIterations) << title << " on " << device;
      }
    };
    expect_each_iteration("iteration", 1);
    for (const std::string layer : {"images", "conv", "bn1", "ip1", "bn2", "ip2", "loss"})
      expect_each_iteration(layer + " forward", 0);  // tests have it too
    for (const std::string layer : {"conv", "bn1", "ip1", "bn2", "ip2", "loss"})
      expect_each_iteration(layer + " backward", 1);
    for (const std::string layer : {"bn1", "bn2"})
      for (const char* direction : {" exchange forward", " exchange backward"})
        expect_each_iteration(layer + direction, 1);
    expect_each_iteration("loss exchange divisor", 1);
    expect_each_iteration("images data", 0);
    int buckets = 0;
    while (counts.contains({device, "bucket " + std::to_string(buckets) + " climb"})) ++buckets;
    EXPECT_GE(buckets, 4);
    int updates = 0;
    for (int bucket = 0; bucket < buckets; ++bucket) {
      const std::string title = "bucket " + std::to_string(bucket);
      expect_each_iteration(title + " climb", 1);
      expect_each_iteration(title + " descent", 1);
      // One device updates a bucket, the other copies it, chunk by chunk.
      const int updated = counts[{device, title + " update"}],
                copied = counts[{device, title + " broadcast"}];
      EXPECT_EQ(updated, copied == 0 ? kIterations : 0);
      EXPECT_EQ(copied % kIterations, 0);
      updates += counts[{0, title + " update"}] + counts[{1, title + " update"}];
    }
    EXPECT_EQ(updates, buckets * kIterations);
    EXPECT_GT((counts[{device, "test"}]), 0);
    EXPECT_GT((counts[{device, "snapshot"}]), 0);
  }
  const auto prefetched = std::count_if(events.begin(), events.end(),
                                        [](const TraceEvent& event) { return event.category == "prefetch"; });
  EXPECT_GE(prefetched, kIterations * kDevices);
}

INSTANTIATE_TEST_SUITE_P(Streams, TraceOf, testing::Bool(),
                         [](const auto& info) { return info.param ? "Asynchronous" : "Inline"; });

TEST_F(Trace, IsWrittenAfterAnErrorToo) {
  EXPECT_THROW(with_trace(path("trace.json"),
                          [](const std::shared_ptr<Timeline>& timeline) {
                            Activity activity("cpu:0");
                            activity.trace_to(timeline->add_device("cpu:0"));
                            activity.open_span(DeviceTrack::solver, SpanKind::test, "")->begin =
                                steady_nanoseconds();
                            runtime_failure("gone wrong");
                          }),
               Error);
  const auto events = parse_trace(file("trace.json"));
  if (!kReadsJson) GTEST_SKIP() << kWhyNotRead;
  const auto test =
      std::find_if(events.begin(), events.end(), [](const auto& e) { return e.name == "test"; });
  ASSERT_NE(test, events.end());
  EXPECT_TRUE(test->arguments.contains("unfinished"));
}

TEST_F(Trace, AFileThatCannotBeMadeIsRefusedAtTheStart) {
  expect_refusal(train_with("solver", {"--cpu=2", "--trace=" + path("nowhere/trace.json")}),
                 {"--trace=", "nowhere/trace.json", "No such file"});
  expect_refusal(train_with("solver", {"--cpu=2", "--trace=" + path("db")}), {"--trace=", "folder"});
  EXPECT_FALSE(std::filesystem::exists(path("run/s_iter_2.solverstate")));
}

TEST_F(Trace, CtrlCLeavesATrace) {
  write("endless", solver_for("net", "max_iter: 100000000"));
  const auto trainer = start({"--solver=" + path("endless"), "--cpu=2", "--trace=" + path("trace.json")});
  ASSERT_TRUE(trainer->says("Learning Rate Policy"));
  trainer->signal(SIGINT);
  EXPECT_EQ(trainer->wait(), 0) << trainer->text();
  const auto events = parse_trace(file("trace.json"));
  if (!kReadsJson) GTEST_SKIP() << kWhyNotRead;
  EXPECT_TRUE(std::any_of(events.begin(), events.end(), [](const auto& e) { return e.name == "iteration"; }));
}

TEST_F(Trace, TimeOfSeveralDevicesTellsSharesAndWritesATrace) {
  ASSERT_EQ(run({"time", "--model=" + path("net"), "--cpu=2", "--iterations=3", "--json",
                 "--trace=" + path("trace.json")}),
            0)
      << file("log");
  for (const char* part :
       {"Average Forward-Backward: ", "       ip\tbackward: ", "exposed communication", "SyncBN exchange",
        "(skew of the devices)", "hidden communication", "Samples per second: ", "(batch 4)",
        "\"exposed_sync_bn\": ", "\"samples_per_iteration\": 4"})
    EXPECT_THAT(file("log"), testing::HasSubstr(part));
  const auto events = parse_trace(file("trace.json"));
  if (!kReadsJson) GTEST_SKIP() << kWhyNotRead;
  EXPECT_EQ(std::count_if(events.begin(), events.end(), [](const auto& e) { return e.name == "iteration"; }),
            2 * (2 + 3));  // two iterations to warm up
}

TEST_F(Trace, TimeOfOneDeviceHasUpdatesIfAskedTo) {
  ASSERT_EQ(run({"time", "--model=" + path("net"), "--cpu=1", "--iterations=3", "--json"}), 0) << file("log");
  EXPECT_THAT(file("log"), testing::Not(testing::HasSubstr("hidden communication")));
  EXPECT_THAT(file("log"), testing::HasSubstr("\"update\": 0,"));
  ASSERT_EQ(run({"time", "--model=" + path("net"), "--cpu=1", "--iterations=3", "--json", "--updates",
                 "--trace=" + path("trace.json")}),
            0)
      << file("log");
  for (const char* part :
       {"Average Forward-Backward: ", "       ip\tbackward: ", "exposed communication          0.000 ms",
        "hidden communication           0.000 ms", "(batch 2)", "\"samples_per_iteration\": 2"})
    EXPECT_THAT(file("log"), testing::HasSubstr(part));
  EXPECT_THAT(file("log"), testing::Not(testing::HasSubstr("\"update\": 0,")));
  expect_refusal(run({"time", "--model=" + path("net"), "--cpu=1", "--updates", "--phase=TEST"}),
                 {"--phase=TEST and --updates exclude each other"});
  expect_refusal(run({"time", "--model=" + path("net"), "--cpu=1", "--updates", "--data"}),
                 {"--data and --updates exclude each other"});
}

TEST_F(Trace, TimeNeedsNoDataWhereShapesAreGiven) {
  std::filesystem::remove_all(path("db"));
  for (const char* devices : {"--cpu=1", "--cpu=2"}) {
    ASSERT_EQ(run({"time", "--model=" + path("net"), devices, "--iterations=2", "--shape=data:6,3,8,8"}), 0)
        << file("log");
    EXPECT_THAT(file("log"), testing::HasSubstr(devices[6] == '1' ? "(batch 6)" : "(batch 12)"));
  }
  expect_refusal(run({"time", "--model=" + path("net"), "--cpu=2", "--shape=pixels:6,3,8,8"}), {"pixels"});
}

TEST_F(Trace, TimeOfADetectorNeedsNoFilesOfNames) {
  write("deploy", R"(
    layer { name: 'loc' type: 'Input' top: 'loc' input_param { shape { dim: 1 dim: 4 } } }
    layer { name: 'conf' type: 'Input' top: 'conf' input_param { shape { dim: 1 dim: 2 } } }
    layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
    layer { name: 'map' type: 'Input' top: 'map' input_param { shape { dim: 1 dim: 1 dim: 1 dim: 1 } } }
    layer { name: 'priors' type: 'PriorBox' bottom: 'map' bottom: 'data' top: 'priors'
      prior_box_param { min_size: 4 variance: 0.1 } }
    layer { name: 'out' type: 'DetectionOutput' bottom: 'loc' bottom: 'conf' bottom: 'priors' top: 'out'
      detection_output_param { num_classes: 2 save_output_param { output_directory: 'nowhere/out'
        output_format: 'VOC' label_map_file: 'nowhere/map' name_size_file: 'nowhere/sizes' } } })");
  ASSERT_EQ(run({"time", "--model=" + path("deploy"), "--cpu=1", "--phase=TEST", "--iterations=2"}), 0)
      << file("log");
  EXPECT_THAT(file("log"),
              testing::HasSubstr("\"nowhere/map\" does not exist; it runs without, and saves nothing"));
}

}  // namespace
}  // namespace banyan
