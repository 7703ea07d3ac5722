#include "ops/common/norms.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineNorms<CpuBackend> define_norms;

}  // namespace
}  // namespace banyan::ops
