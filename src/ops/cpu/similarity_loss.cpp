#include "ops/common/similarity_loss.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineSimilarityLoss<CpuBackend> define_similarity_loss;

}  // namespace
}  // namespace banyan::ops
