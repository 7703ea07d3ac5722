#include "ops/common/regions.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineRegions<CudaBackend> define_regions;

}  // namespace
}  // namespace banyan::ops
