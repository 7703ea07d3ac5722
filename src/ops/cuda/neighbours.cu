#include "ops/common/neighbours.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineNeighbours<CudaBackend> define_neighbours;

}  // namespace
}  // namespace banyan::ops
