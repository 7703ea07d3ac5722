#include "ops/common/reversal.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineReversal<CpuBackend> define_reversal;

}  // namespace
}  // namespace banyan::ops
