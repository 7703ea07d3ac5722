#include "ops/common/smooth_resize.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const Define define_smooth_resize(smooth_resize, DeviceKind::cuda, &smooth_resize_on<CudaBackend>);
const Define define_smooth_resize_backward(smooth_resize_backward, DeviceKind::cuda,
                                           &smooth_resize_backward_on<CudaBackend>);

}  // namespace
}  // namespace banyan::ops
