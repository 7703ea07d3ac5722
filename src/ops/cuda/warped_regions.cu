#include "ops/common/warped_regions.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineWarpedRegions<CudaBackend> define_warped_regions;

}  // namespace
}  // namespace banyan::ops
