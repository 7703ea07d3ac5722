#include "banyan/metrics/json_lines.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "io/io_test_tools.hpp"
#include "metrics/example_run.hpp"
#include "metrics/read_json.hpp"

namespace banyan::metrics {
namespace {

using testing::ElementsAre;

class JsonLinesTest : public testing::Test {
 protected:
  void write(std::int64_t iteration, Existing existing, const std::vector<Record>& records) {
    JsonLines lines(path_, iteration, existing);
    for (const Record& record : records) lines.write(record);
  }
  /// "train 3" and so on.
  std::vector<std::string> kept() const {
    std::vector<std::string> lines;
    for (const JsonMembers& line : read_json_lines(io::get_file(path_)))
      lines.push_back(cat(text(line, "kind"), " ", number(line, "iteration")));
    return lines;
  }
  io::TemporaryFolder folder_;
  std::string path_ = folder_.file("metrics.jsonl");
};

/// A run to iteration 6 with a snapshot at 4, as the program tells of it.
std::vector<Record> run_to_6() {
  return {record(0, example_start()),
          record(0, example_test(0.1)),
          record(0, example_train(3)),
          record(2, example_train(2)),
          record(3, Warning{"odd", ""}),
          record(4, Snapshot{"m", "s", 10, 0.1}),
          record(4, example_test(0.5)),
          record(4, example_train(1)),
          record(5, Layers{1, {{"conv", 1, 2}}}),
          record(6, Snapshot{"m", "s", 10, 0.1}),
          record(6, End{"stopped", "", 5})};
}

TEST_F(JsonLinesTest, EveryLineIsAnObjectOfItsKind) {
  write(0, Existing::refuse, run_to_6());
  if (!kReadsJson) GTEST_SKIP() << kWhyNotRead;
  EXPECT_THAT(kept(), ElementsAre("start 0", "test 0", "train 0", "train 2", "warning 3", "snapshot 4",
                                  "test 4", "train 4", "layers 5", "snapshot 6", "end 6"));
  const auto lines = read_json_lines(io::get_file(path_));
  EXPECT_EQ(number(lines[0], "time"), 1700000000.25);
  EXPECT_EQ(number(lines[0], "format"), 1);
  EXPECT_EQ(text(inner(lines[0], "solver"), "text"), "base_lr: 0.1\n");
  EXPECT_EQ(text(items(lines[0], "layers")[1], "type"), "Convolution");
  EXPECT_EQ(
      items(lines[0], "layers")[1].fields().at("blobs").list_value().values(0).list_value().values_size(), 4);
  EXPECT_EQ(
      number(inner(lines[0], "plan").fields().at("blocks").list_value().values(0).struct_value(), "bytes"),
      2048);
  EXPECT_FALSE(has(lines[0], "resumed_from"));
  const JsonMembers& train = lines[2];
  EXPECT_EQ(number(train, "loss"), 3);
  EXPECT_THAT(numbers(items(train, "outputs")[1], "values"), ElementsAre(0.5, 0.75));
  EXPECT_FALSE(has(train, "gradient_norm"));
  const JsonMembers device = items(train, "devices")[0];
  EXPECT_EQ(number(inner(device, "milliseconds"), "compute"), 12.5);
  EXPECT_EQ(number(inner(device, "memory"), "peak"), 2000);
  EXPECT_EQ(text(lines.back(), "reason"), "stopped");
}

TEST_F(JsonLinesTest, NumbersThatAreNotFiniteAreStrings) {
  write(0, Existing::refuse, {record(0, example_train(std::nan("")))});
  if (!kReadsJson) GTEST_SKIP() << kWhyNotRead;
  EXPECT_EQ(text(read_json_lines(io::get_file(path_)).at(0), "loss"), "nan");
}

TEST_F(JsonLinesTest, PicturesAreNotHere) {
  write(0, Existing::refuse, {record(0, Pictures{})});
  EXPECT_EQ(io::get_file(path_), "");
}

/// What the resumed run will tell again goes, the snapshot that it is resumed from stays.
TEST_F(JsonLinesTest, AResumedRunGoesOnWithoutDoubledIterations) {
  if (!kReadsJson) GTEST_SKIP() << kWhyNotRead;
  write(0, Existing::refuse, run_to_6());
  write(6, Existing::resume, {record(6, example_start())});
  EXPECT_EQ(kept().size(), 12u);  // nothing was lost
  write(4, Existing::resume, {record(4, example_start()), record(4, example_train(1.5))});
  EXPECT_THAT(kept(), ElementsAre("start 0", "test 0", "train 0", "train 2", "warning 3", "snapshot 4",
                                  "start 4", "train 4"));
  write(4, Existing::resume, {record(4, example_start())});  // it was killed before its first snapshot
  EXPECT_EQ(kept().size(), 7u);
  write(0, Existing::resume, {record(0, example_start())});
  EXPECT_THAT(kept(), ElementsAre("start 0"));
}

TEST_F(JsonLinesTest, ALineThatWasCutOffGoes) {
  if (!kReadsJson) GTEST_SKIP() << kWhyNotRead;
  write(0, Existing::refuse, run_to_6());
  const std::string whole = io::get_file(path_);
  for (const std::size_t bytes : {whole.size() - 1, whole.size() - 20, std::size_t{10}}) {
    io::put_file(path_, whole.substr(0, bytes));
    write(6, Existing::resume, {});
    const std::string rest = io::get_file(path_);
    EXPECT_TRUE(whole.starts_with(rest));
    EXPECT_TRUE(rest.empty() || rest.back() == '\n');
    EXPECT_LT(bytes - rest.size(), whole.substr(0, bytes).size() - whole.substr(0, bytes).rfind('\n'));
  }
}

/// As a power cut may leave a file.
TEST_F(JsonLinesTest, DamageGoesWithAllThatFollows) {
  if (!kReadsJson) GTEST_SKIP() << kWhyNotRead;
  write(0, Existing::refuse, run_to_6());
  std::string damaged = io::get_file(path_);
  std::size_t third = 0;
  for (int i = 0; i < 3; ++i) third = damaged.find('\n', third) + 1;
  damaged.replace(third, 30, std::string(30, '\0'));
  io::put_file(path_, damaged);
  write(6, Existing::resume, {});
  EXPECT_THAT(kept(), ElementsAre("start 0", "test 0", "train 0"));
}

TEST_F(JsonLinesTest, AnotherRunIsNotTouchedUnlessAsked) {
  write(0, Existing::refuse, run_to_6());
  const std::string before = io::get_file(path_);
  io::expect_contains(io::error_of([&] { write(0, Existing::refuse, {}); }), "the metrics of another run");
  EXPECT_EQ(io::get_file(path_), before);
  write(0, Existing::replace, {});
  EXPECT_EQ(io::get_file(path_), "");
  io::put_file(path_, "{\"kind\": \"sta");  // of a run that was killed at once
  write(0, Existing::refuse, {});
}

TEST_F(JsonLinesTest, SomethingElseIsNotTouchedAtAll) {
  const std::string other = "{\"loss\": 3}\n";
  io::put_file(path_, other);
  for (const Existing existing : {Existing::refuse, Existing::replace, Existing::resume}) {
    io::expect_contains(io::error_of([&] { write(0, existing, {}); }), "something other than metrics");
    EXPECT_EQ(io::get_file(path_), other);
  }
}

}  // namespace
}  // namespace banyan::metrics
