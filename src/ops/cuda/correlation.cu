#include "ops/common/correlation.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const Define define_correlation_forward(correlation_forward, DeviceKind::cuda,
                                        &correlation_forward_on<CudaBackend>);
const Define define_correlation_backward(correlation_backward, DeviceKind::cuda,
                                         &correlation_backward_on<CudaBackend>);

}  // namespace
}  // namespace banyan::ops
