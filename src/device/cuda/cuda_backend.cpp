// The table that libbanyan finds in this library, and what it reports about the machine.
#include "device/cuda_backend.hpp"

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstdlib>
#include <sstream>

#include "banyan/base/error.hpp"
#include "banyan/device/cuda_devices.hpp"
#include "device/cuda/cuda_check.hpp"
#include "device/cuda/cuda_device.hpp"
#include "ops/cuda/handles.hpp"

namespace banyan {
namespace {

/// CUDA's 13020 is 13.2.
std::string cuda_version(int number) { return cat(number / 1000, ".", number % 1000 / 10); }

/// `80,90` as the build was told; words such as `native` are left out, and what is there as PTX only
/// (`90-virtual`).
std::vector<int> architectures() {
  std::vector<int> numbers;
#ifdef BANYAN_CUDA_ARCHITECTURES
  std::istringstream list(BANYAN_CUDA_ARCHITECTURES);
  for (std::string item; std::getline(list, item, ',');)
    if (const int number = std::atoi(item.c_str()); number > 0 && !item.ends_with("-virtual"))
      numbers.push_back(number);
#endif
  return numbers;
}

CudaVersions version_numbers() {
  CudaVersions found;
  cuda_check(cudaRuntimeGetVersion(&found.runtime), "CUDA", "cudaRuntimeGetVersion");
  found.built_with = CUDART_VERSION;
  if (cudaDriverGetVersion(&found.driver) != cudaSuccess) found.driver = 0;
  found.cudnn = static_cast<int>(cudnnGetVersion());
  found.cudnn_built_with = CUDNN_VERSION;
  found.cudnn_runtime = static_cast<int>(cudnnGetCudartVersion());
  found.architectures = architectures();
#ifdef BANYAN_CUDA_NOT_OPTIMIZED
  found.optimized = false;
#endif
  return found;
}

std::string versions() {
  const CudaVersions found = version_numbers();
  const int runtime = found.runtime, driver = found.driver, cudnn = found.cudnn;
  const bool has_driver = driver != 0;
  return cat("CUDA ", cuda_version(runtime), ", driver for CUDA ", has_driver ? cuda_version(driver) : "none",
             ", cuDNN ", cudnn / 10000, ".", cudnn % 10000 / 100, ".", cudnn % 100, ", cuBLAS ",
             ops::cublas_version(), found.optimized ? "" : ", slow kernels (BANYAN_CUDA_OPTIMIZE=OFF)");
}

int device_count(std::string* why) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return count;
  static_cast<void>(cudaGetLastError());
  int driver = 0;
  const bool has_driver = cudaDriverGetVersion(&driver) == cudaSuccess && driver != 0;
  static_cast<void>(cudaGetLastError());
  if (status == cudaErrorInsufficientDriver && has_driver) {
    *why = cat("the NVIDIA driver supports CUDA ", cuda_version(driver), ", this program needs CUDA ",
               cuda_version(CUDART_VERSION));
  } else if (status == cudaErrorInsufficientDriver) {
    *why = "no NVIDIA driver is installed";
  } else if (status == cudaErrorNoDevice || status == cudaSuccess) {
    *why = "the NVIDIA driver finds no GPU (or CUDA_VISIBLE_DEVICES hides them all)";
  } else {
    runtime_failure("the GPUs cannot be counted: cudaGetDeviceCount failed: ", cudaGetErrorString(status),
                    " (", cudaGetErrorName(status), ")");
  }
  return 0;
}

int attribute(cudaDeviceAttr which, int ordinal) {
  int value = 0;
  cuda_check(cudaDeviceGetAttribute(&value, which, ordinal), cat("gpu:", ordinal), "cudaDeviceGetAttribute");
  return value;
}

std::string pci_bus_id(int ordinal) {
  char bus[32] = "";
  cuda_check(cudaDeviceGetPCIBusId(bus, sizeof(bus), ordinal), cat("gpu:", ordinal), "cudaDeviceGetPCIBusId");
  return bus;
}

std::string describe(int ordinal) {
  const std::string name = cat("gpu:", ordinal);
  cudaDeviceProp properties{};
  cuda_check(cudaGetDeviceProperties(&properties, ordinal), name, "cudaGetDeviceProperties");
  constexpr double kMebi = 1024.0 * 1024.0;
  std::ostringstream out;
  out.setf(std::ios::fixed);
  out.precision(0);
  out << "Device:                     " << name << "\n"
      << "Name:                       " << properties.name << "\n"
      << "Compute capability:         " << properties.major << "." << properties.minor << "\n"
      << "Global memory:              " << static_cast<double>(properties.totalGlobalMem) / kMebi << " MiB\n"
      << "Memory bus width:           " << attribute(cudaDevAttrGlobalMemoryBusWidth, ordinal) << " bit\n"
      << "Memory clock:               " << attribute(cudaDevAttrMemoryClockRate, ordinal) / 1000 << " MHz\n"
      << "L2 cache:                   "
      << static_cast<double>(attribute(cudaDevAttrL2CacheSize, ordinal)) / kMebi << " MiB\n"
      << "Multiprocessors:            " << properties.multiProcessorCount << "\n"
      << "Clock:                      " << attribute(cudaDevAttrClockRate, ordinal) / 1000 << " MHz\n"
      << "Shared memory per block:    " << properties.sharedMemPerBlock << " bytes\n"
      << "Registers per block:        " << properties.regsPerBlock << "\n"
      << "Threads per block:          " << properties.maxThreadsPerBlock << "\n"
      << "Warp size:                  " << properties.warpSize << "\n"
      << "Copy engines:               " << properties.asyncEngineCount << "\n"
      << "ECC:                        " << (properties.ECCEnabled != 0 ? "on" : "off") << "\n"
      << "PCI bus id:                 " << pci_bus_id(ordinal) << "\n"
      << "Kernel time limit:          "
      << (attribute(cudaDevAttrKernelExecTimeout, ordinal) != 0 ? "yes" : "no") << "\n";
  return out.str();
}

CudaGpu query(int ordinal) {
  const std::string name = cat("gpu:", ordinal);
  cudaDeviceProp properties{};
  cuda_check(cudaGetDeviceProperties(&properties, ordinal), name, "cudaGetDeviceProperties");
  CudaGpu gpu{properties.name, properties.major * 10 + properties.minor, 0, 0};
  cuda_check(cudaSetDevice(ordinal), name, "cudaSetDevice");
  cuda_check(cudaMemGetInfo(&gpu.free, &gpu.memory), name, "cudaMemGetInfo");
  return gpu;
}

std::unique_ptr<Device> make_device(int ordinal, int replica, Math math) {
  constexpr int kAmpere = 80;  // the first that multiplies in TF32 and bf16
  if (math == Math::full) return std::make_unique<CudaDevice>(ordinal, replica, math);
  if (const int architecture = query(ordinal).architecture; architecture < kAmpere) {
    if (math == Math::bf16)
      bad_input("gpu:", ordinal, " does not multiply in bf16: its compute capability is ", architecture / 10,
                ".", architecture % 10,
                ", and 8.0 is needed; a net's storage: BF16 works in --precision=f32");
    math = Math::full;
  }
  return std::make_unique<CudaDevice>(ordinal, replica, math);
}

/// Lets kernels and copies of `reader` read the memory of `owner`.
bool enable_one_way(Device& reader, Device& owner) {
  int can = 0;
  cuda_check(cudaDeviceCanAccessPeer(&can, reader.ordinal(), owner.ordinal()), reader.name(),
             "cudaDeviceCanAccessPeer");
  if (can == 0) return false;
  reader.make_current();
  const cudaError_t status = cudaDeviceEnablePeerAccess(owner.ordinal(), 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());
    return true;
  }
  if (status == cudaErrorPeerAccessUnsupported || status == cudaErrorTooManyPeers) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  cuda_check(status, reader.name(), "cudaDeviceEnablePeerAccess to ", owner.name());
  return true;
}

bool enable_peer_access(Device& from, Device& to) {
  if (from.ordinal() == to.ordinal()) return true;
  const bool one = enable_one_way(from, to), other = enable_one_way(to, from);
  return one && other;
}

void stamp(Stream& stream, std::atomic<std::int64_t>& nanoseconds) {
  static_cast<CudaStream&>(stream).stamp(nanoseconds);
}

constexpr CudaBackend kTable{.version = CudaBackend::kVersion,
                             .versions = &versions,
                             .version_numbers = &version_numbers,
                             .device_count = &device_count,
                             .describe = &describe,
                             .query = &query,
                             .pci_bus_id = &pci_bus_id,
                             .make_device = &make_device,
                             .enable_peer_access = &enable_peer_access,
                             .stamp = &stamp};

}  // namespace
}  // namespace banyan

extern "C" const banyan::CudaBackend* banyan_cuda_backend() { return &banyan::kTable; }
