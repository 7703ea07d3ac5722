// The variant that does not check each access (lib/emulated): memory that may not be used is no address of
// the process, so using it is a fault, which the emulator reports.
#include <cstdlib>

#include "test_tools.hpp"

namespace emulated_tests {

// The emulator looks up kernel names, hence no anonymous namespace.
namespace faults {

__global__ void copy_value(const float* from, float* to) { *to = *from; }

}  // namespace faults

namespace {

/// Before anything uses the machine.
[[gnu::constructor(101)]] void four_gpus() { setenv("EMULATED_CUDA", "gpus=4,peers=islands,stacks=1", 0); }

constexpr const char* kOfTheGpu =
    "VIOLATION: a kernel or copy uses memory that its GPU cannot use.*\n.*while running: kernel "
    "emulated_tests::faults::copy_value";

class Faults : public Emulator {
 protected:
  static void copy(const float* from, float* to) { launch(faults::copy_value, 1, 1, nullptr, from, to); }
  const GpuArray<float> here_{0, std::vector<float>{1}}, target_{0, 1};
};

TEST_F(Faults, AKernelMayUseItsOwnMemory) {
  expect_no_violation([&] { copy(here_.get(), target_.get()); });
  EXPECT_EQ(target_.values(), std::vector<float>{1});
}

TEST_F(Faults, MemoryOfAnotherGpu) {
  const GpuArray<float> far(2, std::vector<float>{4});
  expect_abort(kOfTheGpu, [&] { copy(far.get(), target_.get()); });
  expect_abort(kOfTheGpu, [&] { copy(here_.get(), far.get()); });
}

TEST_F(Faults, FreedMemory) {
  GpuArray<float> freed(0, std::vector<float>{4});
  float* const address = freed.get();
  freed.release();
  expect_abort(kOfTheGpu, [&] { copy(address, target_.get()); });
  expect_abort(kOfTheGpu, [&] { copy(here_.get(), address); });
}

TEST_F(Faults, TheHostMayNotUseAGpusMemory) {
  expect_abort("VIOLATION: the host uses device memory, or an address that is none",
               [&] { *static_cast<volatile float*>(target_.get()) = 1; });
}

}  // namespace
}  // namespace emulated_tests
