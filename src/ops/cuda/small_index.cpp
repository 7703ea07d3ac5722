#include "ops/cuda/small_index.hpp"

namespace banyan::ops {

namespace {

std::int64_t limit = std::int64_t{1} << 31;

}  // namespace

std::int64_t small_index_limit() { return limit; }

extern "C" void banyan_set_small_index_limit(std::int64_t elements) { limit = elements; }

}  // namespace banyan::ops
