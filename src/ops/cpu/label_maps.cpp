#include "ops/common/label_maps.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineLabelMaps<CpuBackend> define_label_maps;

}  // namespace
}  // namespace banyan::ops
