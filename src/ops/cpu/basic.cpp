#include "ops/common/basic.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineBasic<CpuBackend> define_basic;

}  // namespace
}  // namespace banyan::ops
