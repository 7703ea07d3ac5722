// Which steps of a forward pass run for a part of the batch at a time, so that what one step writes is still
// in the processor's cache when the next one reads it. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace banyan {

/// Steps [first, end) run for the first `samples` samples, then for the next ones, and so on.
struct SampleParts {
  std::size_t first = 0, end = 0;
  std::int64_t samples = 0;
};

/// What counts of a step.
struct PartStep {
  std::int64_t batch = 0;       ///< samples in each of its tensors; 0: it runs for all samples only
  bool runs = true;             ///< false: there is nothing to do, or another step does it
  std::int64_t bytes = 0;       ///< that it reads and writes for all samples
  std::int64_t parameters = 0;  ///< bytes, read again for each part
};

/// Runs of steps whose tensors take more than `cache` bytes: as many samples at a time as fit into these, and
/// one at least. Where parameters would be read again more often than that saves bytes of activations, a run
/// ends.
std::vector<SampleParts> find_sample_parts(const std::vector<PartStep>& steps, std::int64_t cache);

}  // namespace banyan
