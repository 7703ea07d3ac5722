#include "ops/common/local.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const Define define_place_products(place_products, DeviceKind::cpu, &place_products_on<CpuBackend>);

}  // namespace
}  // namespace banyan::ops
