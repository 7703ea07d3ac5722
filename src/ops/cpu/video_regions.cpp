#include "ops/common/video_regions.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

const DefineVideoRegions<CpuBackend> define_video_regions;

}  // namespace
}  // namespace banyan::ops
