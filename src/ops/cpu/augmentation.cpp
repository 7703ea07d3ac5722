#include "ops/common/augmentation.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineAugmentation<CpuBackend> define_augmentation;

}  // namespace
}  // namespace banyan::ops
