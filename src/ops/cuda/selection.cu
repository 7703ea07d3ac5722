#include "ops/common/selection.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineSelection<CudaBackend> define_selection;

}  // namespace
}  // namespace banyan::ops
