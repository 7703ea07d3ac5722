#include "ops/common/elementwise.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineElementwise<CpuBackend> define_elementwise;

}  // namespace
}  // namespace banyan::ops
