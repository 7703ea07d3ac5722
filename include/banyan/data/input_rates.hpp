// How fast a data layer's batches are made: each part by itself, and all of it.
#pragma once

#include <cstdint>
#include <functional>

#include "banyan/data/batch_source.hpp"

namespace banyan::data {

struct InputRates {
  std::uint64_t items = 0;      ///< in both measurements
  std::uint64_t bytes = 0;      ///< of these items, as the source stores them
  double read_seconds = 0;      ///< on one core: finding the stored records and reading each of their bytes
  double decode_seconds = 0;    ///< on one core: from stored records to pixels
  double augment_seconds = 0;   ///< on one core: from pixels to the values of a batch
  int threads = 1;              ///< that the layer would run
  double pipeline_seconds = 0;  ///< from batch to batch with these threads
  double pipeline_cpu_seconds = 0;  ///< that they and the taker of the batches have used meanwhile
};

/// Makes about `batches` batches part by part on this thread, then as many with the layer's own threads, both
/// from the first item on. Ends early, with fewer items, when `stop()` says so. Throws what reading throws.
InputRates measure_input(const InputPipeline& pipeline, Device& device, int batches,
                         const std::function<bool()>& stop);

}  // namespace banyan::data
