#include "ops/common/regions.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineRegions<CpuBackend> define_regions;

}  // namespace
}  // namespace banyan::ops
