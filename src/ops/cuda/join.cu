#include "ops/common/join.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineJoin<CudaBackend> define_join;

}  // namespace
}  // namespace banyan::ops
