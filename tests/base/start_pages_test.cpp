#include "base/start_pages.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>
#include <string>

namespace banyan {
namespace {

/// A line of /proc/self/status: a number, of KiB if it is one of memory.
long status_of(const std::string& wanted) {
  std::ifstream status("/proc/self/status");
  for (std::string key, line; status >> key && std::getline(status, line);)
    if (key == wanted + ":") return std::stol(line);
  return -1;
}

TEST(StartPages, AreGivenBackAndReturn) {
  if (status_of("RssFile") < 0) GTEST_SKIP() << "the kernel does not say how much memory maps files";
  if (status_of("TracerPid") != 0) GTEST_SKIP() << "a debugger watches";
  const long before = status_of("RssFile");
  give_back_start_pages();
  EXPECT_LT(status_of("RssFile"), before * 3 / 4);
  // Symbols, text and constants are there as before.
  EXPECT_THROW(std::stol("none"), std::invalid_argument);
  EXPECT_GT(status_of("RssFile"), 0);
}

}  // namespace
}  // namespace banyan
