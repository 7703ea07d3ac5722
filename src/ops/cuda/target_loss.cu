#include "ops/common/target_loss.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineTargetLoss<CudaBackend> define_target_loss;

}  // namespace
}  // namespace banyan::ops
