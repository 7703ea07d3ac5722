#include "ops/common/update.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineUpdate<CpuBackend> define_update;

}  // namespace
}  // namespace banyan::ops
