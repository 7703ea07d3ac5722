#include "ops/common/colors.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineColors<CudaBackend> define_colors;

}  // namespace
}  // namespace banyan::ops
