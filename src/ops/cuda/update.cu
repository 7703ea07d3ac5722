#include "ops/common/update.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineUpdate<CudaBackend> define_update;

}  // namespace
}  // namespace banyan::ops
