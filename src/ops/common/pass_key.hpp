// Functors that draw the random numbers of the pass in which they run.
#pragma once

#include "banyan/ops/random.hpp"

namespace banyan::ops {

/// For for_each_made: f with the iteration from its `key`.
template <class F>
struct MakeDrawing {
  F f;
  const std::uint64_t* iteration;
  BANYAN_HOST_DEVICE F operator()() const {
    F drawing = f;
    drawing.key.iteration = *iteration;
    return drawing;
  }
};

}  // namespace banyan::ops
