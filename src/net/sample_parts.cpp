#include "banyan/net/sample_parts.hpp"

#include <algorithm>

namespace banyan {
namespace {

std::int64_t parts_of(std::int64_t batch, std::int64_t samples) { return (batch + samples - 1) / samples; }

/// As many samples as fit into the cache.
std::int64_t fitting(const PartStep& step, std::int64_t cache) {
  if (step.bytes <= cache) return step.batch;
  return std::max<std::int64_t>(1, cache / (step.bytes / step.batch));
}

/// From a step that does not fit on: the steps that may run in parts together with it.
SampleParts run_from(const std::vector<PartStep>& steps, std::size_t first, std::int64_t cache) {
  SampleParts run{first, first, steps[first].batch};
  for (; run.end < steps.size() && steps[run.end].batch == steps[first].batch; ++run.end) {
    const PartStep& next = steps[run.end];
    if (!next.runs) continue;
    const std::int64_t fits = fitting(next, cache);
    if (fits == next.batch) break;
    const std::int64_t samples = std::min(run.samples, fits), again = parts_of(next.batch, samples) - 1;
    const bool pays = std::all_of(
        steps.begin() + static_cast<std::ptrdiff_t>(first),
        steps.begin() + static_cast<std::ptrdiff_t>(run.end) + 1,
        [&](const PartStep& step) { return !step.runs || again * step.parameters <= step.bytes; });
    if (!pays) break;
    run.samples = samples;
  }
  return run;
}

}  // namespace

std::vector<SampleParts> find_sample_parts(const std::vector<PartStep>& steps, std::int64_t cache) {
  std::vector<SampleParts> found;
  for (std::size_t i = 0; i < steps.size();) {
    if (!steps[i].runs || steps[i].batch < 2 || fitting(steps[i], cache) == steps[i].batch) {
      ++i;
      continue;
    }
    SampleParts run = run_from(steps, i, cache);
    const auto begin = steps.begin();
    const auto running = std::count_if(begin + static_cast<std::ptrdiff_t>(run.first),
                                       begin + static_cast<std::ptrdiff_t>(run.end),
                                       [](const PartStep& step) { return step.runs; });
    i = std::max(run.end, i + 1);
    if (running < 2) continue;  // nothing would stay in the cache for another step
    const std::int64_t batch = steps[run.first].batch, parts = parts_of(batch, run.samples);
    run.samples = parts_of(batch, parts);  // parts of about the same size
    found.push_back(run);
  }
  return found;
}

}  // namespace banyan
