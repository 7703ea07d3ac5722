#include "banyan/parallel/uplink.hpp"

#include <algorithm>
#include <numeric>

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

}  // namespace banyan::parallel
