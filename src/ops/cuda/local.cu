#include "ops/common/local.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const Define define_place_products(place_products, DeviceKind::cuda, &place_products_on<CudaBackend>);

}  // namespace
}  // namespace banyan::ops
