// The page: whole, safe whatever names it shows, and, where a browser is installed, drawn as the numbers are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/report/report.hpp"
#include "report/schema.hpp"
#include "tools/program_test.hpp"

namespace banyan::report {
namespace {

using testing::HasSubstr;
using testing::Not;

const char* const kStart =
    "{\"kind\": \"start\", \"iteration\": 0, \"time\": 100, \"format\": 1, \"version\": \"0.1.0\", "
    "\"max_iter\": 9}\n";

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

std::string residual_net() {
  return R"(name: "residual"
    layer { name: "in" type: "DummyData" top: "data" top: "label"
            dummy_data_param { shape { dim: 4 dim: 3 dim: 8 dim: 8 } shape { dim: 4 }
                               data_filler { type: "gaussian" } data_filler { type: "constant" value: 1 } } }
    layer { name: "stem" type: "Convolution" bottom: "data" top: "stem"
            convolution_param { num_output: 4 kernel_size: 1 weight_filler { type: "xavier" } } }
    layer { name: "a" type: "Convolution" bottom: "stem" top: "a"
            convolution_param { num_output: 4 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
    layer { name: "bn" type: "SyncBN" bottom: "a" top: "bn" bn_param { slope_filler { value: 1 } } }
    layer { name: "sum" type: "Eltwise" bottom: "stem" bottom: "bn" top: "sum" }
    layer { name: "relu" type: "ReLU" bottom: "sum" top: "sum" }
    layer { name: "ip" type: "InnerProduct" bottom: "sum" top: "ip"
            inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })";
}

/// The data of the page, as its script reads them.
Json data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(open) + open.size();
  return Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

class ReportPage : public tools::ProgramTest {
 protected:
  void make_run(const std::string& name, const std::string& lines) const {
    std::filesystem::create_directory(path(name));
    write(name + "/metrics.jsonl", lines);
  }
  static std::string script() { return BANYAN_SOURCE "/tests/report/check_page.py"; }
  static bool has_browser() { return run_shell("python3 -B '" + script() + "' --browser").code == 0; }
  /// A command of the system instead of one of our programs.
  static tools::Result run_shell(const std::string& command) {
    tools::Result result;
    std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
    if (pipe == nullptr) return result;
    char buffer[4096];
    while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe))
      result.output.append(buffer, got);
    const int status = ::pclose(pipe);
    if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
    return result;
  }
};

TEST_F(ReportPage, OneFileThatLoadsNothing) {
  make_run("run", kStart);
  expect_done("trainer report run");
  const std::string page = read("run/report.html");
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* part : {"src=", "@import", "url(http", "fetch(", "XMLHttpRequest", "innerHTML",
                           "document.write", "eval(", "{{"})
    EXPECT_THAT(page, Not(HasSubstr(part)));
  EXPECT_EQ(count_of(page, "<script"), 2);
  EXPECT_EQ(count_of(page, "</script>"), 2);
  EXPECT_EQ(data_of(page)["runs"].size(), 1u);
}

/// Everything that comes from files is data: it cannot end the script that holds it.
TEST_F(ReportPage, TextsOfTheRunAreData) {
  const std::string evil =
      "</script><script>document.title='taken'</script><!--<img src=x "
      "onerror=alert(1)>\u2028\u2029&amp;{{SCRIPT}}'\\\"";
  Json start = Json::parse(kStart), warning;
  start["solver"] = {{"path", evil}, {"text", evil}};
  start["layers"] = Json::array({{{"name", evil}, {"type", evil}}});
  warning = {{"kind", "warning"}, {"iteration", 1}, {"time", 101}, {"text", evil}, {"advice", evil}};
  make_run("run", start.dump() + "\n" + warning.dump() + "\n");
  expect_done("trainer report run");
  const std::string page = read("run/report.html");
  EXPECT_EQ(count_of(page, "<script"), 2);
  EXPECT_EQ(count_of(page, "</script>"), 2);
  EXPECT_THAT(page, Not(HasSubstr("<!--")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_EQ(data_of(page)["runs"][0]["warnings"][0]["text"], evil);
  EXPECT_EQ(data_of(page)["runs"][0]["starts"][0]["solver"]["text"], evil);
}

TEST_F(ReportPage, SeveralRunsInOneFile) {
  make_run("a", kStart);
  make_run("b", kStart);
  expect_done("trainer report a b/ --out=both.html");
  const Json data = data_of(read("both.html"));
  ASSERT_EQ(data["runs"].size(), 2u);
  EXPECT_EQ(data["runs"][0]["name"], "a");
  EXPECT_EQ(data["runs"][1]["name"], "b");
}

TEST_F(ReportPage, Usage) {
  expect_bad_input("trainer report", "expected report RUN");
  expect_bad_input("trainer report nowhere", "\"nowhere\": there is no such folder");
  make_run("run", std::string(kStart) + "oh\n");
  expect_bad_input("trainer report run", "run/metrics.jsonl:2: not a JSON object");
  EXPECT_FALSE(std::filesystem::exists(path("run/report.html")));
  make_run("whole", kStart);
  expect_failure("trainer report whole --out=no/where.html", "no/where.html", 1);
}

/// From the trainer's own metrics: the same numbers, all layers, the plan.
TEST_F(ReportPage, OfARealRun) {
  write("net.prototxt", residual_net());
  write("solver.prototxt",
        "net: 'net.prototxt' base_lr: 0.01 lr_policy: 'fixed' max_iter: 8 display: 2 snapshot: 4 "
        "snapshot_prefix: 'x' "
        "random_seed: 1");
  expect_done("trainer --solver=solver.prototxt --cpu=2 --threads_per_device=1 --metrics=run --histograms=4");
  expect_done("trainer report run");
  const Json data = data_of(read("run/report.html"))["runs"][0];
  std::istringstream lines(read("run/metrics.jsonl"));
  std::vector<Json> losses, iterations;
  Json start;
  int snapshots = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json one = Json::parse(line);
    EXPECT_EQ(problem_in(one), "");
    if (one["kind"] == "start") start = one;
    snapshots += one["kind"] == "snapshot";
    if (one["kind"] != "train") continue;
    losses.push_back(one["loss"]);
    iterations.push_back(one["iteration"]);
  }
  ASSERT_GE(losses.size(), 4u);
  EXPECT_EQ(data["train"]["columns"]["loss"], Json(losses));
  EXPECT_EQ(data["train"]["columns"]["iteration"], Json(iterations));
  EXPECT_EQ(data["starts"][0]["layers"], start["layers"]);
  EXPECT_EQ(data["starts"][0]["plan"], start["plan"]);
  EXPECT_GT(start["plan"]["blocks"].size(), 2u);
  EXPECT_EQ(data["devices"]["names"].size(), 2u);
  EXPECT_EQ(data["snapshots"].size(), static_cast<std::size_t>(snapshots));
  EXPECT_GT(data["parameters"]["list"].size(), 0u);
  EXPECT_GT(data["layers"].size(), 0u);
  if (!has_browser()) GTEST_SKIP() << "Chromium or python3 is not installed: the page is not drawn";
  const tools::Result checked = run_shell("python3 -B '" + script() + "' --run '" + path("run") + "'");
  EXPECT_EQ(checked.code, 0) << checked.output;
}

/// In headless Chromium: no error, and numbers, tables and curves equal to the metrics.
TEST_F(ReportPage, InABrowser) {
  if (!has_browser()) GTEST_SKIP() << "Chromium or python3 is not installed: the page is not drawn";
  const tools::Result checked =
      run_shell("python3 -B '" + script() + "' '" BANYAN_BIN "/trainer' '" + folder_ + "'");
  EXPECT_EQ(checked.code, 0) << checked.output;
}

}  // namespace
}  // namespace banyan::report
