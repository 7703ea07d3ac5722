// BANYAN_SMALL_INDEX_LIMIT=N: kernels use 64-bit indices from N elements on, so that tests run those too.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>

#include "banyan/device/cuda_devices.hpp"

namespace banyan {
namespace {

class SmallIndexLimit : public testing::Environment {
 public:
  void SetUp() override {
    const char* limit = std::getenv("BANYAN_SMALL_INDEX_LIMIT");
    if (limit == nullptr || cuda_device_count() == 0) return;
    auto* set = reinterpret_cast<void (*)(std::int64_t)>(dlsym(RTLD_DEFAULT, "banyan_set_small_index_limit"));
    ASSERT_NE(set, nullptr);
    set(std::atoll(limit));
  }
};

[[maybe_unused]] const testing::Environment* const registered =
    testing::AddGlobalTestEnvironment(new SmallIndexLimit);

}  // namespace
}  // namespace banyan
