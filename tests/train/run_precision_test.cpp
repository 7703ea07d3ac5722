#include "banyan/train/run_precision.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/base/error.hpp"
#include "banyan/ops/processor.hpp"

namespace banyan {
namespace {

std::string refusal(RunPrecision precision, DeviceKind kind) {
  try {
    check_precision(precision, kind);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  return "";
}

TEST(RunPrecision, FitsTheDevices) {
  for (const RunPrecision precision : {RunPrecision::f32, RunPrecision::f64, RunPrecision::bf16})
    for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda}) EXPECT_EQ(refusal(precision, kind), "");
  EXPECT_EQ(refusal(RunPrecision::tf32, DeviceKind::cpu),
            "--precision=tf32 is for GPUs; use --gpu=N with it");
  EXPECT_EQ(refusal(RunPrecision::tf32, DeviceKind::cuda), "");
}

TEST(RunPrecision, SaysHowTensorsAreStoredAndMultiplied) {
  EXPECT_EQ(tensor_type(RunPrecision::f64), DType::f64);
  for (const RunPrecision precision : {RunPrecision::f32, RunPrecision::bf16, RunPrecision::tf32})
    EXPECT_EQ(tensor_type(precision), DType::f32);
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda})
    EXPECT_EQ(math_of(RunPrecision::f32, kind), Math::full);
  EXPECT_EQ(math_of(RunPrecision::tf32, DeviceKind::cuda), Math::tf32);
  EXPECT_EQ(math_of(RunPrecision::bf16, DeviceKind::cuda), Math::bf16);
  EXPECT_EQ(math_of(RunPrecision::bf16, DeviceKind::cpu),
            ops::has_bf16_units() ? Math::bf16 : Math::bf16_in_f32);
  EXPECT_STREQ(name_of(RunPrecision::tf32), "tf32");
}

}  // namespace
}  // namespace banyan
