#include "ops/common/lrn.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const Define define_lrn_forward(lrn_forward, DeviceKind::cuda, &lrn_forward_on<CudaBackend>);
const Define define_lrn_backward(lrn_backward, DeviceKind::cuda, &lrn_backward_on<CudaBackend>);

}  // namespace
}  // namespace banyan::ops
