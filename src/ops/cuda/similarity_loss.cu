#include "ops/common/similarity_loss.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineSimilarityLoss<CudaBackend> define_similarity_loss;

}  // namespace
}  // namespace banyan::ops
