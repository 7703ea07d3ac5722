#include "ops/common/soft_threshold.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineSoftThreshold<CpuBackend> define_soft_threshold;

}  // namespace
}  // namespace banyan::ops
