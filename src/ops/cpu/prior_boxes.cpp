#include "ops/common/prior_boxes.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const Define define_prior_boxes(prior_boxes, DeviceKind::cpu, &prior_boxes_on<CpuBackend>);

}  // namespace
}  // namespace banyan::ops
