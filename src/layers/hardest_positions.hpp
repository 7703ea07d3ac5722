// thresh_ratio (yjxiong): which positions of a loss have a gradient: those with the largest losses, on all
// devices together. The host decides, so a GPU's losses are waited for.
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/layers/loss.hpp"

namespace banyan {

/// Of n losses the floor(n x ratio) + 1 largest, and what equals the least of these.
struct HardestPositions {
  double least = 0;       ///< the loss from which on a position counts
  std::int64_t kept = 0;  ///< how many positions of all devices count
};

/// `losses`: of this device's positions, none below 0 or NaN. `counts` is memory for what the devices tell
/// each other, four times 512 KiB; on one device it is not used. `layer` names the meetings.
HardestPositions find_hardest(Pass& pass, const std::vector<double>& losses, float ratio, Tensor& counts,
                              const char* layer);

}  // namespace banyan
