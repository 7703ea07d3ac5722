#include "ops/common/distance_loss.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineDistanceLoss<CpuBackend> define_distance_loss;

}  // namespace
}  // namespace banyan::ops
