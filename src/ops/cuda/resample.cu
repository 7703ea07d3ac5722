#include "ops/common/resample.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineResample<CudaBackend> define_resample;

}  // namespace
}  // namespace banyan::ops
