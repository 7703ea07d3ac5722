#include "ops/common/lstm.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineLstm<CudaBackend> define_lstm;

}  // namespace
}  // namespace banyan::ops
