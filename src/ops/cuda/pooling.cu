#include "ops/common/pooling.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const Define define_pooling_forward(pooling_forward, DeviceKind::cuda, &pooling_forward_on<CudaBackend>);
const Define define_pooling_backward(pooling_backward, DeviceKind::cuda, &pooling_backward_on<CudaBackend>);

}  // namespace
}  // namespace banyan::ops
