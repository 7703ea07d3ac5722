#include "ops/common/functions.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineFunctions<CudaBackend> define_functions;

}  // namespace
}  // namespace banyan::ops
