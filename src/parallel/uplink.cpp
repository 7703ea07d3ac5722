#include "banyan/parallel/uplink.hpp"

#include <algorithm>
#include <numeric>
#include <sstream>

#include "banyan/base/error.hpp"

namespace banyan::parallel {

int UplinkPlace::devices() const { return std::accumulate(devices_of.begin(), devices_of.end(), 0); }

int UplinkPlace::first_rank(int of_process) const {
  return std::accumulate(devices_of.begin(), devices_of.begin() + of_process, 0);
}

ProcessRange UplinkPlace::holding(int first, int last) const {
  ProcessRange range{processes() - 1, 0};
  int rank = 0;
  for (int process = 0; process < processes(); rank += devices_of[process++]) {
    const int end = rank + devices_of[process];
    if (first < end && last >= rank) {
      range.first = std::min(range.first, process);
      range.last = process;
    }
  }
  range.first_device = std::max(first - first_rank(range.first), 0);
  return range;
}

void expect_alike(Uplink& uplink, const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string mine;
  for (const auto& [name, value] : facts) mine += value + "\n";
  const std::vector<std::string> all = uplink.share(mine);
  for (std::size_t process = 1; process < all.size(); ++process) {
    std::istringstream first(all[0]), other(all[process]);
    std::string of_first, of_other;
    for (const auto& [name, value] : facts)
      if (std::getline(first, of_first) && std::getline(other, of_other) && of_first != of_other)
        bad_input("process ", process, " has another ", name, " than process 0");
  }
}

}  // namespace banyan::parallel
