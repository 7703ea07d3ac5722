#include "ops/common/ctc_decoding.hpp"
#include "ops/common/ctc_loss.hpp"
#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineCtcLoss<CpuBackend> define_ctc_loss;
const DefineCtcDecoding<CpuBackend> define_ctc_decoding;

}  // namespace
}  // namespace banyan::ops
