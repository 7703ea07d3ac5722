// Blocks of several tensors as the blocks of one, and back.
#pragma once

#include <vector>

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// The whole is `blocks` times one block of each part, part k's of lengths[k] elements of memory order; in
/// the part its blocks follow each other.
struct BlockParts {
  std::int64_t blocks = 0;
  std::vector<std::int64_t> lengths;
};
/// Copies parts into the whole. All of one dtype, any. What would come from a part that is nullptr stays.
inline constinit Operator<void(const std::vector<const Tensor*>& parts, const BlockParts& what,
                               Tensor& whole)>
    join_blocks{"join_blocks"};
/// Copies the whole into parts; those that are nullptr are left out.
inline constinit Operator<void(const Tensor& whole, const BlockParts& what,
                               const std::vector<Tensor*>& parts)>
    split_blocks{"split_blocks"};

}  // namespace banyan::ops
