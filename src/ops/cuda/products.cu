#include "ops/common/products.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineProducts<CudaBackend> define_products;

}  // namespace
}  // namespace banyan::ops
