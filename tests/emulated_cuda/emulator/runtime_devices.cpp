// The CUDA runtime: versions, errors, devices.
#include <cstdio>
#include <cstring>

#include "runtime.hpp"

namespace emulated {

namespace {

thread_local cudaError_t last_error = cudaSuccess;

bool exists(int device) { return device >= 0 && device < settings().gpus; }

}  // namespace

cudaError_t result(cudaError_t status) {
  if (status != cudaSuccess) last_error = status;
  return status;
}

}  // namespace emulated

using namespace emulated;

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
#define EMULATED_NAME(NAME) \
  case NAME:                \
    return #NAME
  switch (error) {
    EMULATED_NAME(cudaSuccess);
    EMULATED_NAME(cudaErrorInvalidValue);
    EMULATED_NAME(cudaErrorMemoryAllocation);
    EMULATED_NAME(cudaErrorInitializationError);
    EMULATED_NAME(cudaErrorInvalidConfiguration);
    EMULATED_NAME(cudaErrorInsufficientDriver);
    EMULATED_NAME(cudaErrorNoDevice);
    EMULATED_NAME(cudaErrorInvalidDevice);
    EMULATED_NAME(cudaErrorPeerAccessUnsupported);
    EMULATED_NAME(cudaErrorInvalidResourceHandle);
    EMULATED_NAME(cudaErrorNotReady);
    EMULATED_NAME(cudaErrorIllegalAddress);
    EMULATED_NAME(cudaErrorPeerAccessAlreadyEnabled);
    EMULATED_NAME(cudaErrorTooManyPeers);
    EMULATED_NAME(cudaErrorLaunchFailure);
    EMULATED_NAME(cudaErrorNotSupported);
    EMULATED_NAME(cudaErrorStreamCaptureUnsupported);
    EMULATED_NAME(cudaErrorStreamCaptureInvalidated);
    EMULATED_NAME(cudaErrorStreamCaptureMerge);
    EMULATED_NAME(cudaErrorStreamCaptureUnmatched);
    EMULATED_NAME(cudaErrorStreamCaptureUnjoined);
    EMULATED_NAME(cudaErrorStreamCaptureIsolation);
    EMULATED_NAME(cudaErrorStreamCaptureImplicit);
    EMULATED_NAME(cudaErrorCapturedEvent);
    EMULATED_NAME(cudaErrorStreamCaptureWrongThread);
    EMULATED_NAME(cudaErrorUnknown);
  }
#undef EMULATED_NAME
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    default:
      return "an error of the emulated CUDA";
  }
}

cudaError_t cudaGetLastError(void) {
  const cudaError_t status = last_error;
  if (is_lost(current_device)) return kSticky;
  last_error = cudaSuccess;
  return status;
}
cudaError_t cudaPeekAtLastError(void) { return is_lost(current_device) ? kSticky : last_error; }
cudaError_t cudaRuntimeGetVersion(int* version) {
  EMULATED_CALL(cudaRuntimeGetVersion, cudaErrorUnknown);
  return *version = CUDART_VERSION, cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  EMULATED_CALL(cudaDriverGetVersion, cudaErrorUnknown);
  return *version = CUDART_VERSION, cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  EMULATED_CALL(cudaGetDeviceCount, cudaErrorInitializationError);
  *count = settings().gpus;
  return result(settings().gpus > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int* device) {
  EMULATED_CALL(cudaGetDevice, cudaErrorUnknown);
  return *device = current_device, cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (!exists(device)) return result(cudaErrorInvalidDevice);
  current_device = device;
  EMULATED_CALL(cudaSetDevice, cudaErrorUnknown);
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  EMULATED_CALL(cudaGetDeviceProperties, cudaErrorUnknown);
  if (!exists(device)) return result(cudaErrorInvalidDevice);
  *p = {};
  std::snprintf(p->name, sizeof(p->name), "Emulated GPU");
  p->totalGlobalMem = settings().memory;
  p->sharedMemPerBlock = 49152;
  p->regsPerBlock = 65536;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->major = settings().capability / 10;
  p->minor = settings().capability % 10;
  p->multiProcessorCount = 132;
  p->asyncEngineCount = 3;
  p->ECCEnabled = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  EMULATED_CALL(cudaDeviceGetAttribute, cudaErrorUnknown);
  if (!exists(device)) return result(cudaErrorInvalidDevice);
  switch (which) {
    case cudaDevAttrClockRate:
      return *value = 1'980'000, cudaSuccess;  // kHz
    case cudaDevAttrMultiProcessorCount:
      return *value = 132, cudaSuccess;
    case cudaDevAttrKernelExecTimeout:
      return *value = 0, cudaSuccess;
    case cudaDevAttrMemoryClockRate:
      return *value = 2'619'000, cudaSuccess;  // kHz
    case cudaDevAttrGlobalMemoryBusWidth:
      return *value = 5120, cudaSuccess;  // bit
    case cudaDevAttrL2CacheSize:
      return *value = 50 << 20, cudaSuccess;  // bytes
    case cudaDevAttrComputeCapabilityMajor:
      return *value = settings().capability / 10, cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      return *value = settings().capability % 10, cudaSuccess;
  }
  return result(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  EMULATED_CALL(cudaDeviceGetPCIBusId, cudaErrorUnknown);
  if (!exists(device)) return result(cudaErrorInvalidDevice);
  if (length < 13) return result(cudaErrorInvalidValue);
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", 0x10 + device);
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int reader, int owner) {
  EMULATED_CALL(cudaDeviceCanAccessPeer, cudaErrorUnknown);
  if (!exists(reader) || !exists(owner)) return result(cudaErrorInvalidDevice);
  *can = reader != owner && Memory::get().can_access(reader, owner) ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int owner, unsigned flags) {
  EMULATED_CALL(cudaDeviceEnablePeerAccess, cudaErrorTooManyPeers);
  if (flags != 0) return result(cudaErrorInvalidValue);
  if (!exists(owner) || owner == current_device) return result(cudaErrorInvalidDevice);
  if (!Memory::get().can_access(current_device, owner)) return result(cudaErrorPeerAccessUnsupported);
  if (!Memory::get().enable_peer(current_device, owner)) return result(cudaErrorPeerAccessAlreadyEnabled);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) {
  EMULATED_CALL(cudaDeviceSynchronize, cudaErrorUnknown);
  if (capture_forbids("cudaDeviceSynchronize")) return result(cudaErrorStreamCaptureUnsupported);
  count("host waits");
  wait_for_gpu(current_device);
  return is_lost(current_device) ? result(kSticky) : cudaSuccess;
}

}  // extern "C"
