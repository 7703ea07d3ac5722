#include "ops/common/functions.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineFunctions<CpuBackend> define_functions;

}  // namespace
}  // namespace banyan::ops
