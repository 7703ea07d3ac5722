#include "ops/common/global_margin.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineGlobalMargin<CudaBackend> define_global_margin;

}  // namespace
}  // namespace banyan::ops
