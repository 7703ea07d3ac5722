#include "ops/common/location_loss.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineLocationLoss<CpuBackend> define_location_loss;

}  // namespace
}  // namespace banyan::ops
