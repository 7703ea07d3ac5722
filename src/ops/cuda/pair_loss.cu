#include "ops/common/pair_loss.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefinePairLoss<CudaBackend> define_pair_loss;

}  // namespace
}  // namespace banyan::ops
