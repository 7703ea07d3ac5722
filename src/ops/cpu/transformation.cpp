#include "ops/common/transformation.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineTransformation<CpuBackend> define_transformation;

}  // namespace
}  // namespace banyan::ops
