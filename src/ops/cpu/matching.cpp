#include "ops/common/matching.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineMatching<CpuBackend> define_matching;

}  // namespace
}  // namespace banyan::ops
