#include "ops/common/video_regions.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineVideoRegions<CudaBackend> define_video_regions;

}  // namespace
}  // namespace banyan::ops
