#include "ops/common/masks.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineMasks<CudaBackend> define_masks;

}  // namespace
}  // namespace banyan::ops
