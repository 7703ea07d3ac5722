// Every operator has a CUDA implementation. Needs the CUDA back end but no GPU: loading its library registers
// them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "banyan/device/cuda_devices.hpp"
#include "banyan/ops/operator.hpp"

namespace banyan {
namespace {

/// Ways to compute a convolution on CPU devices (src/ops/cpu/convolution_*.hpp); GPUs have cuDNN's.
const char* const kOnCpuDevicesOnly[] = {"backward_data_by_columns",  "backward_data_by_groups",
                                         "backward_data_by_products", "backward_data_by_winograd",
                                         "backward_data_depthwise",   "forward_by_products",
                                         "backward_weight_by_groups", "backward_weight_by_products",
                                         "backward_weight_by_rows",   "backward_weight_by_winograd",
                                         "backward_weight_depthwise", "expand_and_convolve",
                                         "forward_by_groups",         "forward_by_rows",
                                         "forward_by_winograd",       "forward_depthwise"};

TEST(CudaOperators, AllAreRegistered) {
  if (!built_with_cuda()) GTEST_SKIP() << "this build has no CUDA back end";
  static_cast<void>(cuda_device_count());  // loads the library
  ASSERT_NE(cuda_versions(), "none") << "libbanyan_cuda.so does not load";
  int operators = 0;
  for (const ops::AnyOperator* op = ops::AnyOperator::first(); op != nullptr; op = op->next()) {
    ++operators;
    const std::string name = op->name();
    EXPECT_TRUE(op->has(DeviceKind::cpu)) << name;
    EXPECT_EQ(op->has(DeviceKind::cuda), std::ranges::count(kOnCpuDevicesOnly, name) == 0) << name;
  }
  EXPECT_GE(operators, 100);  // the list is the program's, not one library's
}

TEST(CudaOperators, VersionsNameEveryLibrary) {
  if (!built_with_cuda()) GTEST_SKIP() << "this build has no CUDA back end";
  const std::string versions = cuda_versions();
  for (const char* library : {"CUDA ", "driver ", "cuDNN 9.", "cuBLAS "})
    EXPECT_NE(versions.find(library), std::string::npos) << versions;
}

}  // namespace
}  // namespace banyan
