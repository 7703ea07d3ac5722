// What a program can ask about CUDA without its headers. Complete in every build: without CUDA there are no
// devices.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "banyan/device/device.hpp"

namespace banyan {

/// Was the program built with CUDA?
bool built_with_cuda();
/// Versions of the CUDA libraries that the program runs with ("CUDA 13.0, cuDNN 9.1, ..."), or "none".
std::string cuda_versions();
/// CUDA's numbers: 13020 is 13.2; cuDNN's: 91002 is 9.10.2.
struct CudaVersions {
  int runtime = 0, built_with = 0;  ///< the runtime that is loaded, and that of the compiler
  int driver = 0;                   ///< the newest CUDA that the driver supports; 0: there is none
  int cudnn = 0, cudnn_built_with = 0;
  int cudnn_runtime = 0;           ///< CUDA that the loaded cuDNN was made for; 0: it does not tell
  std::vector<int> architectures;  ///< with native kernels, such as 80; newer GPUs compile those of the last
  bool optimized = true;           ///< the kernels, when the program was built
};
/// Throws bad_input without the CUDA back end.
CudaVersions cuda_version_numbers();
struct CudaGpu {
  std::string name;
  int architecture = 0;              ///< 90: compute capability 9.0
  std::size_t memory = 0, free = 0;  ///< bytes
};
/// Makes the GPU's context. Throws bad_input if there is no such GPU.
CudaGpu query_cuda_gpu(int ordinal);
/// Number of usable GPUs; 0 without a driver or without CUDA. `why` receives the reason for 0. A runtime
/// failure if the driver cannot tell.
int cuda_device_count(std::string* why = nullptr);
/// Lines for device_query. Throws bad_input if there is no such GPU.
std::string describe_cuda_device(int ordinal);
/// The GPU's PCI address, such as "0000:3B:00.0" (domain:bus:device.function, hexadecimal). Throws bad_input
/// if there is no such GPU.
std::string cuda_pci_bus_id(int ordinal);
/// `replica` counts earlier devices in this process on the same GPU. Throws bad_input if there is no such
/// GPU.
std::unique_ptr<Device> make_cuda_device(int ordinal, int replica, Math math = Math::full);
/// Lets the two devices read each other's memory if the hardware can; false: the driver stages copies.
bool enable_peer_access(Device& from, Device& to);
/// stamp() (stamp.hpp) for a GPU's stream.
void stamp_cuda_stream(Stream& stream, std::atomic<std::int64_t>& nanoseconds);

}  // namespace banyan
