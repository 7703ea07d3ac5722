#include "ops/common/guided_dropout.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineGuidedDropout<CudaBackend> define_guided_dropout;

}  // namespace
}  // namespace banyan::ops
