#include "ops/common/narrow.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineNarrow<CudaBackend> define_narrow;

}  // namespace
}  // namespace banyan::ops
