#include "ops/common/join.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineJoin<CpuBackend> define_join;

}  // namespace
}  // namespace banyan::ops
