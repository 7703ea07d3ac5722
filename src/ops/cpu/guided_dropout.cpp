#include "ops/common/guided_dropout.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineGuidedDropout<CpuBackend> define_guided_dropout;

}  // namespace
}  // namespace banyan::ops
