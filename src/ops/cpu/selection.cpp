#include "ops/common/selection.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineSelection<CpuBackend> define_selection;

}  // namespace
}  // namespace banyan::ops
