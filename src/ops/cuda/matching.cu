#include "ops/common/matching.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineMatching<CudaBackend> define_matching;

}  // namespace
}  // namespace banyan::ops
