// The machine for this program's tests, unless the environment says otherwise, and its end.
#include <gtest/gtest.h>

#include <cstdlib>

#include "settings.hpp"

namespace {

/// Before anything uses the machine, including objects of other files.
[[gnu::constructor(101)]] void four_gpus() {
  setenv("EMULATED_CUDA", "gpus=4,peers=islands,notes=1,stacks=1", 0);
}

/// Anything the tests leave behind makes the program fail when it ends.
class CleanEnd : public testing::Environment {
 public:
  void TearDown() override { emulated::configure(""); }
};
[[maybe_unused]] const testing::Environment* const clean_end =
    testing::AddGlobalTestEnvironment(new CleanEnd);

}  // namespace
