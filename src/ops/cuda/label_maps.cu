#include "ops/common/label_maps.hpp"
#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {
namespace {

const DefineLabelMaps<CudaBackend> define_label_maps;

}  // namespace
}  // namespace banyan::ops
