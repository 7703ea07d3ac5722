#include "ops/common/photometric_loss.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefinePhotometricLoss<CpuBackend> define_photometric_loss;

}  // namespace
}  // namespace banyan::ops
