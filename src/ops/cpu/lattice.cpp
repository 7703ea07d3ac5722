#include "ops/common/lattice.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineLattice<CpuBackend> define_lattice;

}  // namespace
}  // namespace banyan::ops
