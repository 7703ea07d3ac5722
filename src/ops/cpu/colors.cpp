#include "ops/common/colors.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineColors<CpuBackend> define_colors;

}  // namespace
}  // namespace banyan::ops
