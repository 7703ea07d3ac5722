#include "ops/common/smooth_resize.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineSmoothResize<CudaBackend> define_smooth_resize;

}  // namespace
}  // namespace banyan::ops
