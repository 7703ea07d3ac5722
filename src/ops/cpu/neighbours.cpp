#include "ops/common/neighbours.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineNeighbours<CpuBackend> define_neighbours;

}  // namespace
}  // namespace banyan::ops
