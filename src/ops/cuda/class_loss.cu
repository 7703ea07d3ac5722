#include "ops/common/class_loss.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineClassLoss<CudaBackend> define_class_loss;

}  // namespace
}  // namespace banyan::ops
