#include "ops/common/products.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineProducts<CpuBackend> define_products;

}  // namespace
}  // namespace banyan::ops
