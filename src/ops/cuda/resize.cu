#include "ops/common/resize.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const Define define_forward(resize_forward, DeviceKind::cuda, &resize_forward_on<CudaBackend>);
const Define define_backward(resize_backward, DeviceKind::cuda, &resize_backward_on<CudaBackend>);

}  // namespace
}  // namespace banyan::ops
