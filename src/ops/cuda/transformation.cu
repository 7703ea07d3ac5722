#include "ops/common/transformation.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineTransformation<CudaBackend> define_transformation;

}  // namespace
}  // namespace banyan::ops
