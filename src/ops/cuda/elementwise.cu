#include "ops/common/elementwise.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineElementwise<CudaBackend> define_elementwise;

}  // namespace
}  // namespace banyan::ops
