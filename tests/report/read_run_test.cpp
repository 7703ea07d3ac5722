// Reading metrics: whole, cut off, resumed, damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "banyan/base/error.hpp"
#include "banyan/report/report.hpp"
#include "data/data_test_tools.hpp"
#include "report/columns.hpp"
#include "report/schema.hpp"

namespace banyan::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string start_line(int iteration = 0, const std::string& more = "") {
  return "{\"kind\": \"start\", \"iteration\": " + std::to_string(iteration) +
         ", \"time\": 100, \"format\": 1, \"version\": \"0.1.0\", \"max_iter\": 20" + more + "}\n";
}
std::string train_line(int iteration, const std::string& loss, const std::string& more = "") {
  return "{\"kind\": \"train\", \"iteration\": " + std::to_string(iteration) +
         ", \"time\": " + std::to_string(101 + iteration) + ".5, \"loss\": " + loss + more + "}\n";
}
std::string test_line(int iteration, const std::string& accuracy) {
  return "{\"kind\": \"test\", \"iteration\": " + std::to_string(iteration) +
         ", \"time\": 110, \"net\": 0, \"name\": \"test0\", \"loss\": 0.5, \"outputs\": [{\"name\": "
         "\"accuracy\", "
         "\"values\": [" +
         accuracy + "], \"weight\": 0}]}\n";
}

class ReadRun : public data::FolderTest {
 protected:
  Json read(const std::string& lines) const {
    data::write_file(path("metrics.jsonl"), lines);
    return Json::parse(read_run(folder_));
  }
  std::string refusal(const std::string& lines) const {
    try {
      read(lines);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      return error.what();
    }
    return "";
  }
};

TEST_F(ReadRun, LinesBecomeColumns) {
  const Json run = read(start_line() + train_line(0, "2.5", ", \"rate\": 0.1") +
                        train_line(5, "\"nan\"", ", \"gradient_norm\": \"inf\"") + train_line(10, "0.1") +
                        test_line(10, "0.75"));
  const Json& columns = run["train"]["columns"];
  EXPECT_EQ(columns["iteration"], Json({0, 5, 10}));
  EXPECT_EQ(columns["loss"], Json({2.5, "nan", 0.1}));
  EXPECT_EQ(columns["rate"], Json({0.1, nullptr, nullptr}));
  EXPECT_EQ(columns["gradient_norm"], Json({nullptr, "inf", nullptr}));
  EXPECT_EQ(columns["time"], Json({101.5, 106.5, 111.5}));
  const Json& test = run["tests"][0];
  EXPECT_EQ(test["name"], "test0");
  const auto column = test["outputs"][0]["column"].get<std::string>();
  EXPECT_EQ(test["outputs"][0]["name"], "accuracy");
  EXPECT_EQ(test["columns"][column], Json({0.75}));
  EXPECT_EQ(run["ends"].size(), 0u);
  EXPECT_EQ(run["notes"].size(), 0u);
}

TEST_F(ReadRun, EveryBitOfANumberArrives) {
  for (const double value :
       {0.1, 1.0 / 3, 2.2250738585072014e-308, 1.7976931348623157e308, 123456789.123456789}) {
    std::ostringstream text;
    text.precision(17);
    text << value;
    EXPECT_EQ(read(start_line() + train_line(0, text.str()))["train"]["columns"]["loss"][0].get<double>(),
              value);
  }
}

TEST_F(ReadRun, OutputsOfSeveralNumbers) {
  const Json run =
      read(start_line() +
           train_line(0, "1", ", \"outputs\": [{\"name\": \"x\", \"values\": [1, 2], \"weight\": 0.5}]") +
           train_line(1, "1",
                      ", \"outputs\": [{\"name\": \"y\", \"values\": [7]}, {\"name\": \"x\", "
                      "\"values\": [3, 4], \"weight\": 0.5}]"));
  const Json& outputs = run["train"]["outputs"];
  ASSERT_EQ(outputs.size(), 3u);
  const auto values = [&](std::size_t i) {
    return run["train"]["columns"][outputs[i]["column"].get<std::string>()];
  };
  EXPECT_EQ(outputs[1]["name"], "x");
  EXPECT_EQ(outputs[1]["index"], 1);
  EXPECT_EQ(values(0), Json({1, 3}));
  EXPECT_EQ(values(1), Json({2, 4}));
  EXPECT_EQ(values(2), Json({nullptr, 7}));
}

/// Whatever byte a write stopped at.
TEST_F(ReadRun, ACutOffLastLineIsPassedOver) {
  const std::string whole = start_line() + train_line(0, "2.5"), next = train_line(1, "2.4");
  for (std::size_t size = 0; size < next.size(); ++size) {
    const Json run = read(whole + next.substr(0, size));
    EXPECT_EQ(run["train"]["columns"]["iteration"], Json({0})) << size;
    EXPECT_EQ(run["notes"].size(), size > 0 ? 1u : 0u) << size;
  }
  EXPECT_EQ(read(whole + next)["train"]["columns"]["iteration"], Json({0, 1}));
  EXPECT_THAT(read(whole + std::string(100, '\0'))["notes"][0].get<std::string>(), HasSubstr("100 bytes"));
}

TEST_F(ReadRun, AResumedRunContinuesItsCurves) {
  const Json run =
      read(start_line() + train_line(0, "5") + train_line(4, "4") + test_line(5, "0.1") + train_line(6, "3") +
           test_line(8, "0.2") + start_line(5, ", \"resumed_from\": \"x_iter_5.solverstate\"") +
           test_line(5, "0.15") + train_line(6, "2") + train_line(8, "1"));
  EXPECT_EQ(run["train"]["columns"]["iteration"], Json({0, 4, 6, 8}));
  EXPECT_EQ(run["train"]["columns"]["loss"], Json({5, 4, 2, 1}));
  EXPECT_EQ(run["tests"][0]["columns"]["iteration"], Json({5}));
  EXPECT_EQ(run["tests"][0]["columns"]["output0"], Json({0.15}));
  EXPECT_EQ(run["starts"].size(), 2u);
}

TEST_F(ReadRun, WhatLaterVersionsAddIsPassedOver) {
  const Json run = read(start_line(0, ", \"colour\": {\"of\": [\"cover\"]}") +
                        "{\"kind\": \"weather\", \"iteration\": 0, \"time\": 1, \"rain\": true}\n" +
                        train_line(0, "1", ", \"mood\": 3"));
  EXPECT_EQ(run["train"]["columns"]["loss"], Json({1}));
}

TEST_F(ReadRun, FoldersWithoutMetricsAreRefused) {
  const auto message = [](const std::string& folder) {
    try {
      read_run(folder);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message(path("nowhere")), HasSubstr("there is no such folder"));
  std::ofstream(path("file")) << "text";
  EXPECT_THAT(message(path("file")), HasSubstr("is a file; expected the folder that a run wrote"));
  EXPECT_THAT(message(folder_), HasSubstr("holds no metrics.jsonl; a run writes it with --metrics="));
  EXPECT_THAT(refusal(""), HasSubstr("holds no complete line yet"));
  EXPECT_THAT(refusal("{\"kind\""), HasSubstr("holds no complete line yet"));
}

TEST_F(ReadRun, DamagedLinesAreNamed) {
  const std::string begin = start_line();
  const auto line_2 = [&](const std::string& text) {
    return refusal(begin + text + "\n" + train_line(3, "1"));
  };
  EXPECT_THAT(line_2("{\"kind\": \"train\", \"iter"), HasSubstr("metrics.jsonl:2: not a JSON object"));
  EXPECT_THAT(line_2(""), HasSubstr("metrics.jsonl:2: not a JSON object"));
  EXPECT_THAT(line_2("[1, 2]"), HasSubstr("metrics.jsonl:2: expected an object, found \"[1,2]\""));
  EXPECT_THAT(line_2("{\"kind\": \"train\", \"time\": 1, \"loss\": 1}"),
              HasSubstr(":2: \"iteration\" is missing"));
  EXPECT_THAT(line_2("{\"kind\": \"train\", \"time\": 1, \"iteration\": -1, \"loss\": 1}"),
              HasSubstr("\"iteration\": expected a whole number from 0, found \"-1\""));
  EXPECT_THAT(line_2("{\"kind\": \"train\", \"time\": 1, \"iteration\": 1}"),
              HasSubstr("\"loss\" is missing"));
  EXPECT_THAT(line_2("{\"kind\": \"train\", \"time\": 1, \"iteration\": 1, \"loss\": \"low\"}"),
              HasSubstr("\"loss\": expected a number, found \"\\\"low\\\"\""));
  EXPECT_THAT(line_2("{\"kind\": \"train\", \"time\": 1, \"iteration\": 1, \"loss\": 1, \"devices\": "
                     "[{\"name\": \"a\"}, {\"name\": 3}]}"),
              HasSubstr("\"devices[1].name\": expected a text, found \"3\""));
  EXPECT_THAT(line_2("{\"kind\": \"train\", \"time\": 1, \"iteration\": 1, \"loss\": 1, \"outputs\": 5}"),
              HasSubstr("\"outputs\": expected an array, found \"5\""));
  EXPECT_THAT(line_2("{\"kind\": \"train\", \"time\": 1, \"iteration\": 1, \"loss\": 1, \"x\": \"\xff\"}"),
              HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(train_line(0, "1")),
              HasSubstr(":1: expected a line of kind \"start\" before one of kind \"train\""));
  EXPECT_THAT(refusal(start_line(0, ", \"format\": 2")),
              HasSubstr("format 2 is newer than this program, which reads 1"));
  EXPECT_THAT(refusal(start_line(0,
                                 ", \"plan\": {\"steps\": [], \"blocks\": [{\"name\": \"a\", \"offset\": 0, "
                                 "\"bytes\": 1, \"spans\": [[0, \"x\"]]}]}")),
              HasSubstr("\"plan.blocks[0].spans[0][1]\": expected a number"));
}

/// Deep nesting, which would fill the stack of a recursive reader.
TEST_F(ReadRun, NestingWithoutEnd) {
  EXPECT_THAT(refusal(start_line() + std::string(2000000, '[') + "\n"), HasSubstr("not a JSON object"));
}

TEST_F(ReadRun, LongRunsAreThinnedButKeepTheirExtremes) {
  std::string lines = start_line();
  const int rows = 50000;
  for (int i = 0; i < rows; ++i)
    lines += train_line(i,
                        i == 31234   ? "99"
                        : i == 40001 ? "-7"
                                     : "1",
                        ", \"devices\": [{\"name\": \"cpu:0\", \"waiting_for_data\": 0.5}]");
  const Json run = read(lines);
  EXPECT_EQ(run["train"]["rows"], rows);
  const Json& columns = run["train"]["columns"];
  EXPECT_LT(columns["loss"].size(), 13000u);
  EXPECT_GT(columns["loss"].size(), 3000u);
  EXPECT_THAT(columns["loss"], testing::Contains(99));
  EXPECT_THAT(columns["loss"], testing::Contains(-7));
  EXPECT_EQ(columns["iteration"].front(), 0);
  EXPECT_EQ(columns["iteration"].back(), rows - 1);
  const Json& devices = run["devices"];
  EXPECT_EQ(devices["rows"], rows);
  EXPECT_LE(devices["columns"]["iteration"].size(), 3000u);
  EXPECT_EQ(devices["columns"]["0.waiting_for_data"].size(), devices["columns"]["iteration"].size());
}

TEST(ReportColumns, ThinningWhileRowsAreAddedKeepsThemEven) {
  Columns columns(4);
  for (int i = 0; i < 100; ++i) {
    columns.add_row(i);
    columns.set("x", i);
  }
  const auto& iterations = columns.iterations();
  ASSERT_GE(iterations.size(), 4u);
  EXPECT_LE(iterations.size(), 8u);
  for (std::size_t i = 1; i < iterations.size(); ++i)
    EXPECT_EQ(iterations[i] - iterations[i - 1], iterations[1] - iterations[0]);
  const Json json = columns.json();
  for (std::size_t i = 0; i < iterations.size(); ++i) EXPECT_EQ(json["x"][i], iterations[i]);
}

TEST(ReportColumns, RowsAreCutOff) {
  Columns columns;
  for (const int i : {0, 2, 4}) {
    columns.add_row(i);
    columns.set("x", i);
  }
  columns.cut(3);
  columns.add_row(3);
  columns.set("y", 1);
  EXPECT_EQ(columns.json().dump(), R"({"iteration":[0,2,3],"x":[0.0,2.0,null],"y":[null,null,1.0]})");
}

}  // namespace
}  // namespace banyan::report
