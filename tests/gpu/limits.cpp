// BANYAN_SMALL_INDEX_LIMIT=N: kernels use 64-bit indices from N elements on, so that tests run those too.
// BANYAN_MOST_COLUMNS_BYTES=N: no more of images is unfolded at a time, so that tests unfold them in several
// pieces.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>

#include "banyan/device/cuda_devices.hpp"

namespace banyan {
namespace {

class Limits : public testing::Environment {
 public:
  void SetUp() override {
    set("BANYAN_SMALL_INDEX_LIMIT", "banyan_set_small_index_limit");
    set("BANYAN_MOST_COLUMNS_BYTES", "banyan_set_most_columns_bytes");
  }

 private:
  static void set(const char* variable, const char* function) {
    const char* limit = std::getenv(variable);
    if (limit == nullptr || cuda_device_count() == 0) return;
    auto* call = reinterpret_cast<void (*)(std::int64_t)>(dlsym(RTLD_DEFAULT, function));
    ASSERT_NE(call, nullptr) << function;
    call(std::atoll(limit));
  }
};

[[maybe_unused]] const testing::Environment* const registered = testing::AddGlobalTestEnvironment(new Limits);

}  // namespace
}  // namespace banyan
