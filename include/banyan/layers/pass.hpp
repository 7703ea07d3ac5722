// Pass: everything that one forward or backward run is told besides its tensors.
#pragma once

#include <cstdint>

#include "banyan/device/context.hpp"
#include "banyan/layers/exchange.hpp"
#include "banyan/ops/random.hpp"

namespace banyan {

struct Pass {
  Context* context = nullptr;
  std::int64_t iteration = 0;
  /// Counts forward passes of training: iteration * iter_size + sub-iteration. Key of random numbers.
  std::int64_t draw = 0;
  std::uint64_t seed = 0;
  ops::SampleIndex samples;      ///< global number of local sample i within this pass
  Exchange* exchange = nullptr;  ///< nullptr: one device, or a test pass (batches are dealt whole)
  /// False in passes that must leave no trace (timing, the extra pass of a test): no running statistics are
  /// updated.
  bool update_statistics = true;
};

}  // namespace banyan
