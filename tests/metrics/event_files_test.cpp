#include "banyan/metrics/event_files.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <map>

#include "banyan/metrics/record_file.hpp"
#include "io/io_test_tools.hpp"
#include "metrics/example_run.hpp"
#include "proto/tensorboard_subset.pb.h"

namespace banyan::metrics {
namespace {

namespace fs = std::filesystem;
namespace tb = banyan_tensorboard;
using testing::ElementsAre;
using testing::Pair;

std::vector<tb::Event> events_of(const std::string& path) {
  std::vector<tb::Event> events;
  const std::int64_t bytes = read_frames(path, [&](const std::string& record) {
    EXPECT_TRUE(events.emplace_back().ParseFromString(record));
    return true;
  });
  EXPECT_EQ(bytes, static_cast<std::int64_t>(fs::file_size(path)));
  return events;
}

class EventFilesTest : public testing::Test {
 protected:
  /// Returns the path of the file.
  std::string write(std::int64_t iteration, Existing existing, const std::vector<Record>& records) {
    EventFiles files(folder_.path(), iteration, existing);
    for (const Record& record : records) files.write(record);
    return files.path();
  }
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path())) found.push_back(entry.path().string());
    std::sort(found.begin(), found.end());
    return found;
  }
  std::vector<tb::Event> events() const {
    std::vector<tb::Event> all;
    for (const std::string& file : files())
      for (tb::Event& event : events_of(file)) all.push_back(std::move(event));
    return all;
  }
  /// Step and value.
  std::vector<std::pair<std::int64_t, double>> curve(const std::string& tag) const {
    std::vector<std::pair<std::int64_t, double>> points;
    for (const tb::Event& event : events())
      for (const auto& value : event.summary().value())
        if (value.tag() == tag) points.emplace_back(event.step(), value.simple_value());
    return points;
  }
  io::TemporaryFolder folder_;
};

std::vector<Record> run(std::int64_t from, std::int64_t to) {
  std::vector<Record> records = {record(from, example_start())};
  for (std::int64_t i = from; i < to; ++i) {
    if (i % 2 == 0) records.push_back(record(i, example_test(static_cast<double>(i))));
    records.push_back(record(i, example_train(static_cast<double>(10 + i))));
  }
  return records;
}

TEST_F(EventFilesTest, BeginWithTheVersion) {
  const std::string path = write(0, Existing::refuse, {});
  EXPECT_THAT(path, testing::MatchesRegex(".*/events\\.out\\.tfevents\\.[0-9]{10}\\..*\\.banyan"));
  const auto events = events_of(path);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[1].session_log().status(), tb::SessionLog::START);
}

TEST_F(EventFilesTest, HoldTheCurves) {
  write(0, Existing::refuse, run(0, 3));
  EXPECT_THAT(curve("train/loss"), ElementsAre(Pair(0, 10), Pair(1, 11), Pair(2, 12)));
  EXPECT_THAT(curve("train/loss_output"), ElementsAre(Pair(0, 11), Pair(1, 12), Pair(2, 13)));
  EXPECT_THAT(curve("train/top/1"), ElementsAre(Pair(0, 0.75), Pair(1, 0.75), Pair(2, 0.75)));
  EXPECT_THAT(curve("time/cpu:0/compute"), ElementsAre(Pair(0, 12.5), Pair(1, 12.5), Pair(2, 12.5)));
  EXPECT_THAT(curve("test0/accuracy"), ElementsAre(Pair(0, 0), Pair(2, 2)));
  EXPECT_THAT(curve("train/gradient_norm"), testing::IsEmpty());  // not known
  for (const tb::Event& event : events()) EXPECT_GE(event.wall_time(), 1700000000.25);
}

/// A bar in a name would begin another column of the table.
TEST_F(EventFilesTest, AnyCommandStaysInItsCell) {
  Start start = example_start();
  start.command_line = {"trainer", "--metrics=a|b\nc"};
  write(0, Existing::refuse, {record(0, start)});
  std::string text;
  for (const tb::Event& event : events())
    for (const auto& value : event.summary().value())
      if (value.tag() == "run") text = value.tensor().string_val(0);
  EXPECT_THAT(text, testing::HasSubstr("| command | trainer --metrics=a\\|b c |\n"));
}

TEST_F(EventFilesTest, HoldTheNetWithoutItsSplits) {
  write(0, Existing::refuse, run(0, 1));
  tb::GraphDef graph;
  for (const tb::Event& event : events())
    if (event.what_case() == tb::Event::kGraphDef) {
      EXPECT_TRUE(graph.ParseFromString(event.graph_def()));
    }
  std::map<std::string, std::vector<std::string>> nodes;
  for (const auto& node : graph.node()) nodes[node.name()] = {node.input().begin(), node.input().end()};
  EXPECT_THAT(nodes, ElementsAre(Pair("conv", ElementsAre("data")), Pair("data", ElementsAre()),
                                 Pair("loss", ElementsAre("relu", "data:1", "relu")),
                                 Pair("relu", ElementsAre("conv"))));
  EXPECT_EQ(graph.node(1).op(), "Convolution");
  EXPECT_EQ(graph.node(1).attr(0).key(), "_output_shapes");
  EXPECT_EQ(graph.node(1).attr(0).value().list().shape(0).dim(1).size(), 2);
}

TEST_F(EventFilesTest, HoldTextsHistogramsAndPictures) {
  HistogramMaker maker;
  const std::vector<float> values = {1, 2, 3};
  maker.add(std::span<const float>(values));
  Parameters parameters;
  parameters.entries.push_back(
      {"conv.weight", "conv", 0, false, 3, 3.5, 0.5, 0.01, maker.make(), maker.make()});
  parameters.entries.push_back({"bn.running_mean", "bn", 0, true, 3, 3.5, {}, {}, maker.make(), {}});
  write(0, Existing::refuse,
        {record(0, example_start()), record(4, parameters),
         record(4, Pictures{{{"input/data", 3, 2, 3, {1, 2}}}})});
  std::map<std::string, tb::Summary::Value> all;
  for (const tb::Event& event : events())
    for (const auto& value : event.summary().value()) all[value.tag()] = value;
  EXPECT_EQ(all["solver"].metadata().plugin_data().plugin_name(), "text");
  EXPECT_EQ(all["solver"].tensor().string_val(0), "    base_lr: 0.1\n");
  EXPECT_EQ(all["test0_net"].tensor().string_val(0), "    name: \"test\"\n");
  EXPECT_EQ(all["values/conv.weight"].histo().num(), 3);
  EXPECT_EQ(all["values/conv.weight"].histo().bucket_limit_size(),
            all["values/conv.weight"].histo().bucket_size());
  EXPECT_EQ(all["gradients/conv.weight"].histo().sum(), 6);
  EXPECT_EQ(all["statistics/bn.running_mean"].histo().max(), 3);
  EXPECT_FLOAT_EQ(all["update_ratio/conv.weight"].simple_value(), 0.01f);
  EXPECT_EQ(all.count("gradient_norm/bn.running_mean"), 0u);
  EXPECT_EQ(all["input/data"].image().width(), 3);
  EXPECT_EQ(all["input/data"].image().encoded_image_string(), "\x01\x02");
}

TEST_F(EventFilesTest, AResumedRunGoesOnInAnotherFileWithoutDoubledSteps) {
  const std::string first = write(0, Existing::refuse, run(0, 6));
  const std::string second = write(4, Existing::resume, run(4, 8));
  EXPECT_LT(first, second);
  EXPECT_THAT(files(), ElementsAre(first, second));
  EXPECT_THAT(curve("train/loss"), ElementsAre(Pair(0, 10), Pair(1, 11), Pair(2, 12), Pair(3, 13),
                                               Pair(4, 14), Pair(5, 15), Pair(6, 16), Pair(7, 17)));
  EXPECT_THAT(curve("test0/accuracy"), ElementsAre(Pair(0, 0), Pair(2, 2), Pair(4, 4), Pair(6, 6)));
  int graphs = 0;
  for (const tb::Event& event : events()) graphs += event.what_case() == tb::Event::kGraphDef;
  EXPECT_EQ(graphs, 1);
  // A watching TensorBoard is told.
  EXPECT_EQ(events_of(second)[1].session_log().status(), tb::SessionLog::START);
  EXPECT_EQ(events_of(second)[1].step(), 4);

  const std::string third = write(4, Existing::resume, run(4, 5));  // killed before its next snapshot
  EXPECT_THAT(files(), ElementsAre(first, third));
  EXPECT_EQ(curve("train/loss").size(), 5u);
  const std::string fourth = write(0, Existing::resume, run(0, 1));
  EXPECT_THAT(files(), ElementsAre(fourth));
}

TEST_F(EventFilesTest, ARecordThatWasCutOffGoes) {
  const std::string first = write(0, Existing::refuse, run(0, 4));
  const std::string whole = io::get_file(first);
  io::put_file(first, whole.substr(0, whole.size() - 7));
  write(4, Existing::resume, run(4, 5));
  EXPECT_THAT(curve("train/loss"), ElementsAre(Pair(0, 10), Pair(1, 11), Pair(2, 12), Pair(4, 14)));
}

TEST_F(EventFilesTest, OthersStay) {
  const std::string foreign = folder_.file("events.out.tfevents.1700000000.box");
  io::put_file(foreign, "another program's");
  write(0, Existing::refuse, run(0, 2));
  io::expect_contains(io::error_of([&] { write(0, Existing::refuse, {}); }),
                      folder_.path() + " holds the metrics of another run");
  const std::string replaced = write(0, Existing::replace, run(0, 1));
  EXPECT_EQ(files().size(), 2u);
  EXPECT_EQ(io::get_file(foreign), "another program's");
  fs::remove(foreign);
  EXPECT_EQ(curve("train/loss").size(), 1u);
}

/// A run that ended before its first iteration leaves a file without anything in it.
TEST_F(EventFilesTest, WhatHoldsNothingIsNoOtherRun) {
  write(0, Existing::refuse, {});
  write(0, Existing::refuse, {});
  EXPECT_EQ(files().size(), 1u);
}

}  // namespace
}  // namespace banyan::metrics
