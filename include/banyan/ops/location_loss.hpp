// Losses that compare the channels of each location together (L1Loss of FlowNet, LpqLoss of PWC-Net).
#pragma once

#include "banyan/ops/loss.hpp"
#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// At each location (s + second_shift)^q, s being factor times the sum over the channels of (|d| +
/// first_shift)^p; d is the difference of x and the target, 0 where it is no number. s below `plateau`
/// becomes 0, with no gradient.
struct LocationLoss {
  double first_shift = 0, second_shift = 0, factor = 1, plateau = 0;
};
/// What is compared, seen as `over`; without a target x is the difference.
struct LocationPair {
  Tensor x, target;
  Channels over;
};
/// powers (2, f64): p and q.
/// partial (2, f64): the sum over the locations, and how many differences are numbers.
inline constinit Operator<void(const LocationPair& what, const LocationLoss& loss, const Tensor& powers,
                               Tensor& partial)>
    location_loss_forward{"location_loss_forward"};
/// dx = sign * (slope in x) * scale[0], in the type of x; 0 where d is 0 or no number. Sign -1 gives the
/// gradient of the target.
inline constinit Operator<void(const LocationPair& what, const LocationLoss& loss, const Tensor& powers,
                               double sign, const Tensor& scale, Tensor& dx)>
    location_loss_backward{"location_loss_backward"};

/// p and q from an iteration on.
struct PowersFrom {
  std::int64_t start;
  double p, q;
  std::int64_t passes;  ///< of one iteration
};
/// Writes powers if pass `draw`, a number in device memory, is of that iteration or a later one.
inline constinit Operator<void(const PowersFrom& from, const std::uint64_t* draw, Tensor& powers)>
    location_loss_powers{"location_loss_powers"};

}  // namespace banyan::ops
