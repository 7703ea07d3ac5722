#include "ops/common/discrepancy.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineDiscrepancy<CudaBackend> define_discrepancy;

}  // namespace
}  // namespace banyan::ops
