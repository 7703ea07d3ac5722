#include "ops/common/selection.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const Define define_largest(largest, DeviceKind::cuda, &largest_on<CudaBackend>);
const Define define_keep_places(keep_places, DeviceKind::cuda, &keep_places_on<CudaBackend>);
const Define define_reduce_part(reduce_part, DeviceKind::cuda, &reduce_part_on<CudaBackend>);
const Define define_reduce_part_backward(reduce_part_backward, DeviceKind::cuda,
                                         &reduce_part_backward_on<CudaBackend>);

}  // namespace
}  // namespace banyan::ops
