#include "ops/common/distribution_loss.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineDistributionLoss<CpuBackend> define_distribution_loss;

}  // namespace
}  // namespace banyan::ops
