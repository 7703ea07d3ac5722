#include "ops/common/unfold.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineUnfold<CudaBackend> define_unfold;

}  // namespace
}  // namespace banyan::ops
