#include "ops/common/moved_regions.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineMovedRegions<CudaBackend> define_moved_regions;

}  // namespace
}  // namespace banyan::ops
