#include "ops/common/augmentation.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineAugmentation<CudaBackend> define_augmentation;

}  // namespace
}  // namespace banyan::ops
