#include "ops/common/points.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefinePoints<CpuBackend> define_points;

}  // namespace
}  // namespace banyan::ops
