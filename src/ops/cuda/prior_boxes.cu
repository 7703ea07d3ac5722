#include "ops/common/prior_boxes.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const Define define_prior_boxes(prior_boxes, DeviceKind::cuda, &prior_boxes_on<CudaBackend>);

}  // namespace
}  // namespace banyan::ops
