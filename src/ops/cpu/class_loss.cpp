#include "ops/common/class_loss.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineClassLoss<CpuBackend> define_class_loss;

}  // namespace
}  // namespace banyan::ops
