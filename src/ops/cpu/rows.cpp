#include "ops/common/rows.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineRows<CpuBackend> define_rows;

}  // namespace
}  // namespace banyan::ops
