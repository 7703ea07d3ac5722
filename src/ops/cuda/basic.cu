#include "ops/common/basic.hpp"
#include "ops/cuda/transpose.cuh"

namespace banyan::ops {
namespace {

const DefineBasic<CudaBackend> define_basic;

}  // namespace
}  // namespace banyan::ops
