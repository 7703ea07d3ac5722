#include "banyan/parallel/spin.hpp"

#include <algorithm>

#include "banyan/device/cores.hpp"

namespace banyan::parallel {

SpinPolicy spin_policy(int devices, int threads_per_device) {
  const int cores = static_cast<int>(allowed_cores().size());
  // A yield lets a partner on the same core (where schedulers tend to put a thread that was just woken)
  // continue immediately; if the partner is on another core, a yield costs about half a microsecond more than
  // a pause. Long pauses before the yields would cost their entire length in every exchange of the first
  // kind. In total, the spin is longer than an exchange between running threads.
  if (devices * threads_per_device <= cores) return {20, 4000};
  return {0, 20};
}

void SpinGauge::rest(int most) { resting_ = rest_ = std::max(rest_, std::min(2 * rest_ + 1, most)); }

void SpinGauge::came_in_time() { resting_ = rest_ /= 4; }

}  // namespace banyan::parallel
