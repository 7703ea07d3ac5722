#include "ops/common/warped_regions.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineWarpedRegions<CpuBackend> define_warped_regions;

}  // namespace
}  // namespace banyan::ops
