#include "ops/common/target_loss.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineTargetLoss<CpuBackend> define_target_loss;

}  // namespace
}  // namespace banyan::ops
