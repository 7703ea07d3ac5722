#include "ops/common/norms.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineNorms<CudaBackend> define_norms;

}  // namespace
}  // namespace banyan::ops
