#include "ops/common/cell_boxes.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const Define define_cell_boxes_forward(cell_boxes_forward, DeviceKind::cuda,
                                       &cell_boxes_forward_on<CudaBackend>);
const Define define_cell_boxes_slopes(cell_boxes_slopes, DeviceKind::cuda,
                                      &cell_boxes_slopes_on<CudaBackend>);

}  // namespace
}  // namespace banyan::ops
