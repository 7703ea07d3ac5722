#include "banyan/base/log.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace banyan {
namespace {

struct Seen {
  Severity severity;
  std::string message, file;
  unsigned line;
};
std::vector<Seen> seen;
void keep(Severity severity, const std::string& message, const std::source_location& where) {
  seen.push_back({severity, message, where.file_name(), where.line()});
}

TEST(Log, GivesTheSinkEachMessageWithTheLineThatReports) {
  seen.clear();
  set_log_sink(&keep);
  log_info("a");
  log_warning("b");
  const unsigned line = __LINE__ + 1;
  log_error("c");
  set_log_sink(nullptr);
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].message, "a");
  EXPECT_EQ(seen[0].severity, Severity::info);
  EXPECT_EQ(seen[1].message, "b");
  EXPECT_EQ(seen[1].severity, Severity::warning);
  EXPECT_EQ(seen[2].message, "c");
  EXPECT_EQ(seen[2].severity, Severity::error);
  EXPECT_TRUE(seen[2].file.ends_with("log_test.cpp")) << seen[2].file;
  EXPECT_EQ(seen[2].line, line);
}

TEST(Log, WritesLinesToStandardErrorWithoutASink) {
  seen.clear();
  testing::internal::CaptureStderr();
  log_info("one");
  log_error("two");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "one\ntwo\n");
  EXPECT_TRUE(seen.empty());
}

}  // namespace
}  // namespace banyan
