#include "base/start_pages.hpp"

#include <sys/mman.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace banyan {
namespace {

/// A mapping of memory, from /proc/self/smaps.
struct Mapping {
  std::uintptr_t begin = 0, end = 0;
  bool drops = false;  ///< of a file's pages that are only read, none of which is this process's own
};

std::vector<Mapping> mappings() {
  std::vector<Mapping> found;
  std::ifstream file("/proc/self/smaps");
  for (std::string line; std::getline(file, line);) {
    Mapping next;
    char access[5] = {};
    unsigned long inode = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %lu", &next.begin, &next.end, access,
                    &inode) == 4) {
      const std::string allowed = access;
      next.drops = inode != 0 && (allowed == "r--p" || allowed == "r-xp");
      found.push_back(next);
    }
    for (const char* own : {"Anonymous: %lu", "Swap: %lu"})
      if (unsigned long kilobytes = 0; std::sscanf(line.c_str(), own, &kilobytes) == 1 && kilobytes > 0)
        found.back().drops = false;
  }
  return found;
}

}  // namespace

void drop_start_pages() {
  for (const Mapping& part : mappings())
    if (part.drops)
      ::madvise(reinterpret_cast<void*>(part.begin), part.end - part.begin, MADV_DONTNEED);  // advice only
}

}  // namespace banyan
