#include "ops/common/moved_regions.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineMovedRegions<CpuBackend> define_moved_regions;

}  // namespace
}  // namespace banyan::ops
