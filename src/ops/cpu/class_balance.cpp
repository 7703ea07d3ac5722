#include "ops/common/class_balance.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineClassBalance<CpuBackend> define_class_balance;

}  // namespace
}  // namespace banyan::ops
