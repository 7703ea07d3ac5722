#include "ops/common/distribution_loss.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineDistributionLoss<CudaBackend> define_distribution_loss;

}  // namespace
}  // namespace banyan::ops
