#include "ops/common/smooth_resize.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineSmoothResize<CpuBackend> define_smooth_resize;

}  // namespace
}  // namespace banyan::ops
