#include "ops/common/elementwise.hpp"

#include "ops/common/scale_planes.hpp"
#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineElementwise<CpuBackend> define_elementwise;
const DefineScalePlanes<CpuBackend> define_scale_planes;

}  // namespace
}  // namespace banyan::ops
