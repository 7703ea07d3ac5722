#include "banyan/train/device_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/base/error.hpp"
#include "banyan/train/commands.hpp"

namespace banyan {
namespace {

using testing::HasSubstr;

GpuCensus no_gpu() { return {0, "no driver"}; }
GpuCensus two_gpus() { return {2, ""}; }
GpuCensus must_not_count() {
  ADD_FAILURE() << "GPUs were counted";
  return {};
}

DeviceFlags gpu(const std::string& list) { return {list, std::nullopt}; }
DeviceFlags cpu(const std::string& count) { return {std::nullopt, count}; }

std::vector<int> ordinals(const ChosenDevices& chosen, DeviceKind kind) {
  std::vector<int> found;
  for (const auto& device : chosen.devices) {
    EXPECT_EQ(device.kind, kind);
    found.push_back(device.ordinal);
  }
  return found;
}

std::string refusal(const DeviceFlags& flags, GpuCensus (*gpus)(), const SolverDevices& solver = {}) {
  try {
    choose_devices(flags, solver, gpus);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

TEST(DeviceChoice, GpuLists) {
  using testing::ElementsAre;
  EXPECT_THAT(ordinals(choose_devices(gpu("1,0"), SolverDevices(), two_gpus), DeviceKind::cuda),
              ElementsAre(1, 0));
  EXPECT_THAT(ordinals(choose_devices(gpu("0 1"), SolverDevices(), two_gpus), DeviceKind::cuda),
              ElementsAre(0, 1));
  EXPECT_THAT(ordinals(choose_devices(gpu("all"), SolverDevices(), two_gpus), DeviceKind::cuda),
              ElementsAre(0, 1));
  EXPECT_THAT(ordinals(choose_devices(gpu("0,0"), SolverDevices(), two_gpus), DeviceKind::cuda),
              ElementsAre(0, 0));
}

TEST(DeviceChoice, VirtualCpuDevices) {
  EXPECT_THAT(ordinals(choose_devices(cpu("3"), SolverDevices(), two_gpus), DeviceKind::cpu),
              testing::ElementsAre(0, 1, 2));
}

/// Counting loads CUDA.
TEST(DeviceChoice, GpusAreCountedOnlyWhereOneIsAskedFor) {
  SolverDevices solver;
  choose_devices({}, solver, must_not_count);
  solver.gpu = true;
  choose_devices(cpu("2"), solver, must_not_count);
}

TEST(DeviceChoice, Refusals) {
  EXPECT_THAT(refusal(gpu("0"), no_gpu), testing::AllOf(HasSubstr("--gpu=0"), HasSubstr("no driver")));
  EXPECT_THAT(refusal(gpu("all"), no_gpu), HasSubstr("no driver"));
  EXPECT_THAT(refusal(gpu("9"), two_gpus),
              testing::AllOf(HasSubstr("no GPU 9"), HasSubstr("2 GPUs, 0 to 1")));
  EXPECT_THAT(refusal(gpu("-1"), two_gpus), HasSubstr("no GPU -1"));
  EXPECT_THAT(refusal(gpu("0,x"), two_gpus), HasSubstr("found \"x\""));
  EXPECT_THAT(refusal(gpu(""), two_gpus), HasSubstr("--gpu is empty"));
  for (const char* count : {"0", "-1", "two", "", "1e3", "100000"})
    EXPECT_THAT(refusal(cpu(count), two_gpus), HasSubstr("--cpu="));
  EXPECT_THAT(refusal({"0", "2"}, two_gpus), HasSubstr("exclude each other"));
}

TEST(DeviceChoice, TheSolverDecidesWithoutFlags) {
  SolverDevices solver;
  auto chosen = choose_devices({}, solver, two_gpus);
  EXPECT_THAT(ordinals(chosen, DeviceKind::cpu), testing::ElementsAre(0));
  EXPECT_THAT(chosen.note, HasSubstr("one CPU device"));
  solver.gpu = true;
  EXPECT_THAT(ordinals(choose_devices({}, solver, two_gpus), DeviceKind::cuda), testing::ElementsAre(0));
  chosen = choose_devices({}, solver, no_gpu);
  EXPECT_THAT(ordinals(chosen, DeviceKind::cpu), testing::ElementsAre(0));
  EXPECT_THAT(chosen.note, HasSubstr("no driver"));
  solver.gpus = {1};
  EXPECT_THAT(ordinals(choose_devices({}, solver, two_gpus), DeviceKind::cuda), testing::ElementsAre(1));
  solver.gpus = {1, 5};
  EXPECT_THAT(refusal({}, two_gpus, solver), HasSubstr("device_id: 5"));
  solver.gpu = false;
  chosen = choose_devices({}, solver, two_gpus);
  EXPECT_THAT(ordinals(chosen, DeviceKind::cpu), testing::ElementsAre(0));
  EXPECT_THAT(chosen.note, HasSubstr("device_id in the solver counts only with solver_mode: GPU"));
}

TEST(ShapeFlag, ParsesAndRefuses) {
  const auto [blob, shape] = parse_shape_flag("data:32,3,227,227");
  EXPECT_EQ(blob, "data");
  EXPECT_EQ(shape, Shape({32, 3, 227, 227}));
  for (const char* text : {"data", "data:", ":1,2", "data:1,", "data:1,x", "data:1,,2", "data:-1"})
    EXPECT_THROW(parse_shape_flag(text), Error) << text;
}

}  // namespace
}  // namespace banyan
