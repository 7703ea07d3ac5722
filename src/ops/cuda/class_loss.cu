#include "ops/common/class_loss.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineClassLoss<CudaBackend> define_class_loss;
const Define define_smoothed_loss_backward(smoothed_loss_backward, DeviceKind::cuda,
                                           &smoothed_loss_backward_on<CudaBackend>);

}  // namespace
}  // namespace banyan::ops
