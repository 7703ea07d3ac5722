#include "ops/common/lattice.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineLattice<CudaBackend> define_lattice;

}  // namespace
}  // namespace banyan::ops
