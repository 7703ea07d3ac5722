#include "ops/common/points.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefinePoints<CudaBackend> define_points;

}  // namespace
}  // namespace banyan::ops
