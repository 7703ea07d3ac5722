#include "ops/common/photometric_loss.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefinePhotometricLoss<CudaBackend> define_photometric_loss;

}  // namespace
}  // namespace banyan::ops
