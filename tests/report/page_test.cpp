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
  bool has_python() const { return run_shell("python3 -c 'import select'").code == 0; }
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
  expect_bad_input("trainer report", "report needs the folders of --metrics");
  expect_bad_input("trainer report nowhere", "\"nowhere\": there is no such folder");
  make_run("run", std::string(kStart) + "oh\n");
  expect_bad_input("trainer report run", "run/metrics.jsonl:2: not a JSON object");
  EXPECT_FALSE(std::filesystem::exists(path("run/report.html")));
  make_run("whole", kStart);
  expect_failure("trainer report whole --out=no/where.html", "no/where.html", 1);
}

/// In headless Chromium: no error, and numbers, tables and curves equal to the metrics.
TEST_F(ReportPage, InABrowser) {
  if (!has_python()) GTEST_SKIP() << "python3 is not installed";
  const std::string script = BANYAN_SOURCE "/tests/report/check_page.py";
  const tools::Result browser = run_shell("python3 '" + script + "' --browser");
  if (browser.code != 0) GTEST_SKIP() << "Chromium is not installed: the page is not drawn";
  const tools::Result checked =
      run_shell("python3 '" + script + "' '" BANYAN_BIN "/trainer' '" + folder_ + "'");
  EXPECT_EQ(checked.code, 0) << checked.output;
}

}  // namespace
}  // namespace banyan::report
