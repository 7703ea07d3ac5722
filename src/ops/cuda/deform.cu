#include "ops/common/deform.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineDeform<CudaBackend> define_deform;

}  // namespace
}  // namespace banyan::ops
