#include "ops/common/discrepancy.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineDiscrepancy<CpuBackend> define_discrepancy;

}  // namespace
}  // namespace banyan::ops
