// What a program can ask about CUDA, with and without a GPU.
#include <gtest/gtest.h>

#include "banyan/base/error.hpp"
#include "banyan/device/context.hpp"
#include "banyan/device/cuda_devices.hpp"
#include "banyan/tensor/tensor.hpp"
#include "gpu/gpu_training.hpp"

namespace banyan {
namespace {

TEST(CudaDevices, ThereIsOneOrAReasonWhyNot) {
  std::string why;
  const int count = cuda_device_count(&why);
  EXPECT_EQ(why.empty(), count > 0) << why;
  if (!built_with_cuda()) {
    EXPECT_EQ(count, 0);
    EXPECT_EQ(cuda_versions(), "none");
  }
}

/// Results of CUDA calls that occur only on some machines.
TEST(CudaDevices, UnusualAnswersOfEmulatedGpus) {
  const auto configure = emulated<void(const char*)>("emulated_cuda_configure");
  if (configure == nullptr || cuda_device_count() < 2) GTEST_SKIP() << "needs two emulated GPUs";
  std::string why;
  configure("fail=cudaGetDeviceCount:1:35");  // cudaErrorInsufficientDriver
  EXPECT_EQ(cuda_device_count(&why), 0);
  EXPECT_NE(why.find("this program needs CUDA"), std::string::npos) << why;
  configure("fail=cudaGetDeviceCount:1");
  EXPECT_THROW(cuda_device_count(), Error);
  configure("");
  const auto first = make_cuda_device(0, 0), second = make_cuda_device(1, 0);
  configure("fail=cudaDeviceEnablePeerAccess:1:217");  // cudaErrorPeerAccessUnsupported
  EXPECT_FALSE(enable_peer_access(*first, *second));
  configure("");
}

TEST(CudaDevices, AMissingOneIsBadInput) {
  try {
    make_cuda_device(1000, 0);
    FAIL() << "gpu:1000 exists";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(std::string(error.what()).find("gpu:1000"), std::string::npos) << error.what();
  }
}

TEST(CudaDevices, CopiesThereAndBack) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  const auto device = make_cuda_device(0, 0);
  device->make_current();
  Context context(*device);
  Tensor tensor(*device, {2, 3}, DType::f32);
  const float sent[6] = {1, 2, 3, 4, 5, 6};
  float received[6] = {};
  copy_from_host(context, sent, tensor);
  copy_to_host(context, tensor, received);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(received[i], sent[i]);
  EXPECT_FALSE(describe_cuda_device(0).empty());
}

}  // namespace
}  // namespace banyan
