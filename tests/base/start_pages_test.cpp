#include "base/start_pages.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>

namespace banyan {
namespace {

/// KiB of files that are mapped and resident; -1: the kernel does not say.
long resident_files() {
  std::ifstream status("/proc/self/status");
  long sum = -1;
  for (std::string key, line; status >> key && std::getline(status, line);)
    if (key == "RssFile:" || key == "RssShmem:") sum = std::max(sum, 0L) + std::stol(line);
  return sum;
}

TEST(StartPages, AreDroppedAndReturn) {
  const long before = resident_files();
  if (before < 0) GTEST_SKIP() << "the kernel does not say how much memory maps files";
  drop_start_pages();
  EXPECT_LT(resident_files(), before * 3 / 4);
  // Symbols, text and constants are there as before.
  EXPECT_THROW(std::stol("none"), std::invalid_argument);
  EXPECT_GT(resident_files(), 0);
}

TEST(StartPages, LeaveWhatWasChangedInMemory) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(::ftruncate(::fileno(file), static_cast<off_t>(page)), 0);
  void* const at = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE, ::fileno(file), 0);
  ASSERT_NE(at, MAP_FAILED);
  std::memset(at, 'x', page);
  ASSERT_EQ(::mprotect(at, page, PROT_READ), 0);
  drop_start_pages();
  EXPECT_EQ(static_cast<const char*>(at)[page - 1], 'x');
  ::munmap(at, page);
  std::fclose(file);
}

}  // namespace
}  // namespace banyan
