#include "ops/common/class_balance.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineClassBalance<CudaBackend> define_class_balance;

}  // namespace
}  // namespace banyan::ops
