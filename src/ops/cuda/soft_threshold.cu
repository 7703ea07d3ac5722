#include "ops/common/soft_threshold.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineSoftThreshold<CudaBackend> define_soft_threshold;

}  // namespace
}  // namespace banyan::ops
