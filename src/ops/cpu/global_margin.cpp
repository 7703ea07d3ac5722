#include "ops/common/global_margin.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineGlobalMargin<CpuBackend> define_global_margin;

}  // namespace
}  // namespace banyan::ops
