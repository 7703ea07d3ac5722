#include "ops/common/rows.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineRows<CudaBackend> define_rows;

}  // namespace
}  // namespace banyan::ops
