#include "ops/common/tiles.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineTiles<CpuBackend> define_tiles;

}  // namespace
}  // namespace banyan::ops
