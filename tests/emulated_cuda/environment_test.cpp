// The machine of this program's tests, unless the environment says otherwise, and its end.
#include <gtest/gtest.h>

#include <cstdlib>

#include "settings.hpp"

namespace {

/// Before anything uses the machine, objects of other files included.
[[gnu::constructor(101)]] void four_gpus() {
  setenv("EMULATED_CUDA", "gpus=4,peers=islands,notes=1,stacks=1", 0);
}

/// What the tests leave behind fails the program when it ends.
class CleanEnd : public testing::Environment {
 public:
  void TearDown() override { emulated::configure(""); }
};
[[maybe_unused]] const testing::Environment* const clean_end =
    testing::AddGlobalTestEnvironment(new CleanEnd);

}  // namespace
