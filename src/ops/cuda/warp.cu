#include "ops/common/warp.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineWarp<CudaBackend> define_warp;

}  // namespace
}  // namespace banyan::ops
