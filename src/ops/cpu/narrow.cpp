#include "ops/common/narrow.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineNarrow<CpuBackend> define_narrow;

}  // namespace
}  // namespace banyan::ops
