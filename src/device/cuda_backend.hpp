// The interface between libbanyan and the CUDA back end, a separate library (libbanyan_cuda.so) that is
// loaded when a GPU is requested. The library exports one C function, `banyan_cuda_backend`, which returns
// this table; its operators register themselves when it is loaded.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "banyan/device/cuda_devices.hpp"
#include "banyan/device/device.hpp"

namespace banyan {

/// Each member has the meaning of the function of the same purpose in banyan/device/cuda_devices.hpp.
struct CudaBackend {
  /// Counts changes to this struct: a library from another build is refused, not called.
  static constexpr int kVersion = 5;
  int version;
  std::string (*versions)();
  CudaVersions (*version_numbers)();
  /// 0, with the reason in `why` (never null here), if there is no driver or no GPU. A runtime failure if the
  /// driver cannot tell: it does not fit its kernel module, or a GPU is broken.
  int (*device_count)(std::string* why);
  std::string (*describe)(int ordinal);
  CudaGpu (*query)(int ordinal);
  std::string (*pci_bus_id)(int ordinal);
  std::unique_ptr<Device> (*make_device)(int ordinal, int replica, Math math);
  bool (*enable_peer_access)(Device& from, Device& to);
  void (*stamp)(Stream& stream, std::atomic<std::int64_t>& nanoseconds);
};

inline constexpr const char* kCudaBackendSymbol = "banyan_cuda_backend";
/// Type of the exported function: `extern "C" const banyan::CudaBackend* banyan_cuda_backend();`

}  // namespace banyan
