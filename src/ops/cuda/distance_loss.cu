#include "ops/common/distance_loss.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineDistanceLoss<CudaBackend> define_distance_loss;

}  // namespace
}  // namespace banyan::ops
