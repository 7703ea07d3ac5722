#include "ops/common/masks.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineMasks<CpuBackend> define_masks;

}  // namespace
}  // namespace banyan::ops
