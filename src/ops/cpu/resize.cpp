#include "ops/common/resize.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const Define define_forward(resize_forward, DeviceKind::cpu, &resize_forward_on<CpuBackend>);
const Define define_backward(resize_backward, DeviceKind::cpu, &resize_backward_on<CpuBackend>);

}  // namespace
}  // namespace banyan::ops
