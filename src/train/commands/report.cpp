#include <google/protobuf/stubs/common.h>

#include <sstream>

#include "banyan/base/error.hpp"
#include "banyan/data/library_versions.hpp"
#include "banyan/device/cuda_devices.hpp"
#include "banyan/ops/library_versions.hpp"
#include "banyan/ops/processor.hpp"
#include "banyan/parallel/mpi.hpp"
#include "banyan/train/commands.hpp"
#include "banyan/train/device_choice.hpp"
#include "train/processor_name.hpp"

namespace banyan {

namespace {

std::string processor() {
  return cat(processor_name(), ", ", usable_cores(), " usable cores; kernels for ",
             ops::name_of(ops::instruction_set()));
}

/// It may fail where the driver and the libraries do not fit each other, which a user asks for versions to
/// see.
std::string versions_or_why_not() {
  try {
    return cuda_versions();
  } catch (const Error& error) {
    return error.message();
  }
}

}  // namespace

std::string describe_devices(const std::vector<DeviceChoice>& gpus) {
  std::ostringstream out;
  const GpuCensus census = gpus.empty() ? count_gpus_if_possible() : count_gpus();
  out << "CPU: " << processor() << "\n";
  if (census.count == 0) out << "GPU: none (" << census.why_none << ")\n";
  const auto describe = [&](int ordinal) {
    std::string text = describe_cuda_device(ordinal);
    while (text.ends_with('\n')) text.pop_back();
    out << text << "\n";
  };
  if (gpus.empty())
    for (int i = 0; i < census.count; ++i) describe(i);
  for (const auto& gpu : gpus) describe(gpu.ordinal);
  return out.str();
}

std::string program_version() { return BANYAN_VERSION; }

std::string version_report() {
  std::ostringstream out;
  out << "Banyan " << program_version() << "\n";
  for (const auto& [library, version] : ops::library_versions()) out << library << " " << version << "\n";
  out << "protobuf " << google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION) << "\n";
  for (const auto& [library, version] : data::library_versions()) out << library << " " << version << "\n";
  out << "CUDA back end: " << (built_with_cuda() ? versions_or_why_not() : std::string("not built")) << "\n";
  out << "MPI library: " << (parallel::built_with_mpi() ? parallel::mpi_version() : std::string("not built"))
      << "\n";
  out << describe_devices({});
  return out.str();
}

}  // namespace banyan
