#include "ops/common/ctc_decoding.hpp"
#include "ops/common/ctc_loss.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineCtcLoss<CudaBackend> define_ctc_loss;
const DefineCtcDecoding<CudaBackend> define_ctc_decoding;

}  // namespace
}  // namespace banyan::ops
