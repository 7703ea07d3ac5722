#include "ops/common/location_loss.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineLocationLoss<CudaBackend> define_location_loss;

}  // namespace
}  // namespace banyan::ops
