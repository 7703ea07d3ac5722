#include "ops/common/cell_boxes.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const Define define_cell_boxes_forward(cell_boxes_forward, DeviceKind::cpu,
                                       &cell_boxes_forward_on<CpuBackend>);
const Define define_cell_boxes_slopes(cell_boxes_slopes, DeviceKind::cpu, &cell_boxes_slopes_on<CpuBackend>);

}  // namespace
}  // namespace banyan::ops
