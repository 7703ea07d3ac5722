// How fast a data layer makes its batches: each part separately, and all of it.
#pragma once

#include <cstdint>
#include <functional>

#include "banyan/data/batch_source.hpp"

namespace banyan::data {

struct InputRates {
  std::uint64_t items = 0;      ///< in both measurements
  std::uint64_t bytes = 0;      ///< of these items, as the source stores them
  double read_seconds = 0;      ///< on one core: finding the stored records and reading every byte of them
  double decode_seconds = 0;    ///< on one core: from stored records to pixels
  double augment_seconds = 0;   ///< on one core: from pixels to the values of a batch
  int threads = 1;              ///< that the layer would run
  double pipeline_seconds = 0;  ///< for all items, with these threads
  double pipeline_cpu_seconds = 0;  ///< used by them and by the thread that takes the batches meanwhile
};

/// Seconds since some fixed moment.
struct InputClocks {
  std::function<double()> wall, cpu;
  /// The steady clock, and the process's CPU time.
  static InputClocks real();
};

/// Makes about `batches` batches part by part on this thread, then as many with the layer's own threads, both
/// from the first item on. Ends early, with fewer items, when `stop()` says so. Throws what reading throws.
InputRates measure_input(const InputPipeline& pipeline, Device& device, int batches,
                         const std::function<bool()>& stop, const InputClocks& clocks = InputClocks::real());

}  // namespace banyan::data
