#include "ops/common/unfold.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineUnfold<CpuBackend> define_unfold;

}  // namespace
}  // namespace banyan::ops
