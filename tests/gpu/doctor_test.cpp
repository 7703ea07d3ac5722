// The doctor on the GPUs that there are.
#include "banyan/train/doctor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/base/error.hpp"
#include "banyan/device/cuda_devices.hpp"

namespace banyan {
namespace {

TEST(GpuDoctor, LooksAtEveryGpuAndEveryLink) {
  const int gpus = cuda_device_count();
  if (gpus == 0) GTEST_SKIP() << "no GPU";
  const Diagnosis diagnosis = diagnose({});
  EXPECT_FALSE(diagnosis.stalled);
  const std::string text = diagnosis_text(diagnosis);
  for (int gpu = 0; gpu < gpus; ++gpu)
    EXPECT_THAT(text, testing::ContainsRegex(cat("ok +gpu:", gpu, " +computes\n"))) << text;
  if (gpus > 1) {
    EXPECT_THAT(text, testing::ContainsRegex("(ok|warning) +links ")) << text;
  }
  const CudaGpu first = query_cuda_gpu(0);
  EXPECT_GT(first.free, 0u);
  EXPECT_LE(first.free, first.memory);
  EXPECT_GE(first.architecture, 50);
}

}  // namespace
}  // namespace banyan
