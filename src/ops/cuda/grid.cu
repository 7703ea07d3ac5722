#include "ops/common/grid.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const Define define_copy_grid(copy_grid, DeviceKind::cuda, &copy_grid_on<CudaBackend>);

}  // namespace
}  // namespace banyan::ops
