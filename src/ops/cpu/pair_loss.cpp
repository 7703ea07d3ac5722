#include "ops/common/pair_loss.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefinePairLoss<CpuBackend> define_pair_loss;

}  // namespace
}  // namespace banyan::ops
