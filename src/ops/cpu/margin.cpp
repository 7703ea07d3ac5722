#include "ops/common/margin.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineMargin<CpuBackend> define_margin;

}  // namespace
}  // namespace banyan::ops
