#include "ops/common/reversal.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineReversal<CudaBackend> define_reversal;

}  // namespace
}  // namespace banyan::ops
