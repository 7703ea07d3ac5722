#include "ops/common/margin.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineMargin<CudaBackend> define_margin;

}  // namespace
}  // namespace banyan::ops
