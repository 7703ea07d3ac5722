#include "ops/cuda/limits.hpp"

namespace banyan::ops {

namespace {

std::int64_t small_index = std::int64_t{1} << 31;
std::int64_t columns = std::int64_t{128} << 20;

}  // namespace

std::int64_t small_index_limit() { return small_index; }
extern "C" void banyan_set_small_index_limit(std::int64_t elements) { small_index = elements; }

std::int64_t most_columns_bytes() { return columns; }
extern "C" void banyan_set_most_columns_bytes(std::int64_t bytes) { columns = bytes; }

}  // namespace banyan::ops
