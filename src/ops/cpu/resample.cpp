#include "ops/common/resample.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineResample<CpuBackend> define_resample;

}  // namespace
}  // namespace banyan::ops
