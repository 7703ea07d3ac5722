#include "ops/common/loss.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

constexpr DeviceKind kCuda = DeviceKind::cuda;
const Define define_softmax_forward(softmax_forward, kCuda, &softmax_forward_on<CudaBackend>);
const Define define_softmax_backward(softmax_backward, kCuda, &softmax_backward_on<CudaBackend>);
const Define define_softmax_loss_forward(softmax_loss_forward, kCuda, &softmax_loss_forward_on<CudaBackend>);
const Define define_softmax_loss_backward(softmax_loss_backward, kCuda,
                                          &softmax_loss_backward_on<CudaBackend>);
const Define define_euclidean_forward(euclidean_forward, kCuda, &euclidean_forward_on<CudaBackend>);
const Define define_euclidean_backward(euclidean_backward, kCuda, &euclidean_backward_on<CudaBackend>);
const Define define_quotient(quotient, kCuda, &quotient_on<CudaBackend>);
const Define define_accuracy_counts(accuracy_counts, kCuda, &accuracy_counts_on<CudaBackend>);

}  // namespace
}  // namespace banyan::ops
