#include "ops/common/elementwise.hpp"
#include "ops/common/scale_planes.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineElementwise<CudaBackend> define_elementwise;
const DefineScalePlanes<CudaBackend> define_scale_planes;

}  // namespace
}  // namespace banyan::ops
