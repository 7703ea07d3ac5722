#include "ops/common/grid.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const Define define_copy_grid(copy_grid, DeviceKind::cpu, &copy_grid_on<CpuBackend>);

}  // namespace
}  // namespace banyan::ops
