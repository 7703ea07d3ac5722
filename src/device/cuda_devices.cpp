// Loads the CUDA back end on request: programs start without CUDA's libraries and their memory, and one build
// runs with and without a driver.
#include "banyan/device/cuda_devices.hpp"

#include "banyan/base/error.hpp"
#include "base/sibling_library.hpp"
#include "device/cuda_backend.hpp"

namespace banyan {
namespace {

constexpr const char* kLibrary = "libbanyan_cuda.so";

const LoadedBackend<CudaBackend>& backend() {
  static const auto loaded = load_backend<CudaBackend>(kLibrary, "CUDA back end", kCudaBackendSymbol);
  return loaded;
}

const CudaBackend& require_backend(int ordinal) {
  if (backend().table == nullptr) bad_input("gpu:", ordinal, " cannot be used: ", backend().why);
  return *backend().table;
}

void require_device(int ordinal) {
  std::string why;
  const int count = cuda_device_count(&why);
  if (count == 0) bad_input("gpu:", ordinal, " cannot be used: ", why);
  if (ordinal < 0 || ordinal >= count)
    bad_input("there is no gpu:", ordinal, "; usable GPUs: ", count, " (gpu:0",
              count > 1 ? cat(" to gpu:", count - 1) : "", ")");
}

}  // namespace

bool built_with_cuda() {
  static const bool found = !sibling_library(kLibrary).empty();
  return found;
}

std::string cuda_versions() { return backend().table != nullptr ? backend().table->versions() : "none"; }

CudaVersions cuda_version_numbers() {
  if (backend().table == nullptr) bad_input("no GPU can be used: ", backend().why);
  return backend().table->version_numbers();
}

CudaGpu query_cuda_gpu(int ordinal) {
  const CudaBackend& table = require_backend(ordinal);
  require_device(ordinal);
  return table.query(ordinal);
}

int cuda_device_count(std::string* why) {
  std::string reason;
  int count = 0;
  if (backend().table == nullptr)
    reason = backend().why;
  else
    count = backend().table->device_count(&reason);
  if (count == 0 && reason.empty()) reason = "no CUDA device";
  if (why != nullptr) *why = reason;
  return count;
}

std::string describe_cuda_device(int ordinal) {
  const CudaBackend& table = require_backend(ordinal);
  require_device(ordinal);
  return table.describe(ordinal);
}

std::string cuda_pci_bus_id(int ordinal) {
  const CudaBackend& table = require_backend(ordinal);
  require_device(ordinal);
  return table.pci_bus_id(ordinal);
}

std::unique_ptr<Device> make_cuda_device(int ordinal, int replica, Math math) {
  const CudaBackend& table = require_backend(ordinal);
  require_device(ordinal);
  return table.make_device(ordinal, replica, math);
}

bool enable_peer_access(Device& from, Device& to) {
  if (from.kind() != DeviceKind::cuda || to.kind() != DeviceKind::cuda)
    runtime_failure("peer access is between GPUs, not between ", from.name(), " and ", to.name());
  return require_backend(from.ordinal()).enable_peer_access(from, to);
}

void stamp_cuda_stream(Stream& stream, std::atomic<std::int64_t>& nanoseconds) {
  require_backend(stream.device().ordinal()).stamp(stream, nanoseconds);
}

}  // namespace banyan
