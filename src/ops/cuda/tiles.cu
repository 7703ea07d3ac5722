#include "ops/common/tiles.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineTiles<CudaBackend> define_tiles;

}  // namespace
}  // namespace banyan::ops
