// What ran, by name: for the figures in docs/ and the tests that check them.
#include <cstdio>
#include <cstdlib>
#include <map>

#include "machine.hpp"

namespace emulated {

namespace {

struct Counts {
  std::mutex mutex;
  std::map<std::string, std::uint64_t> values;
};
Counts& counts() {
  static auto* const kCounts = new Counts;  // never destroyed: streams' threads may outlive main
  return *kCounts;
}

}  // namespace

void count(const std::string& name, std::uint64_t amount) {
  const Quiet quiet;
  Counts& c = counts();
  const std::lock_guard<std::mutex> lock(c.mutex);
  c.values[name] += amount;
}

std::string counts_as_json() {
  const Quiet quiet;
  Counts& c = counts();
  const std::lock_guard<std::mutex> lock(c.mutex);
  std::string json = "{";
  for (const auto& [name, value] : c.values) {
    std::string escaped;
    for (const char letter : name) {
      if (letter == '"' || letter == '\\') escaped += '\\';
      escaped += letter;
    }
    json += (json.size() > 1 ? ",\n " : "\n ") + ("\"" + escaped + "\": ") + std::to_string(value);
  }
  return json + "\n}\n";
}

namespace {

/// After main, when the program's own objects are gone.
[[gnu::destructor]] void at_the_end() {
  if (!settings().counts.empty()) {
    std::FILE* file = std::fopen(settings().counts.c_str(), "w");
    if (file == nullptr) {
      std::perror(("EMULATED_CUDA: counts=" + settings().counts).c_str());
      std::_Exit(2);
    }
    std::fputs(counts_as_json().c_str(), file);
    std::fclose(file);
  }
  if (!settings().leaks) return;
  const std::string left = Memory::get().leftovers();
  if (!left.empty()) complain("the process ends and leaves behind: ", left);
}

}  // namespace

}  // namespace emulated
