#include "ops/common/lstm.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineLstm<CpuBackend> define_lstm;

}  // namespace
}  // namespace banyan::ops
