// Random nets of most layer types: a GPU gives what a CPU device gives, and several learn what one CPU device
// does.
#include "banyan/device/cuda_devices.hpp"
#include "net/random_training.hpp"
#include "train/run_devices.hpp"

namespace banyan {
namespace {

constexpr int kBatch = 4;

template <class T>
void compare_with_cpu(unsigned usual, Allowed allowed, double tolerance) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  const Seeds seeds = random_seeds(usual);
  unsigned compared = 0;
  for (unsigned seed = seeds.first; seed < seeds.end; ++seed) {
    const WideRandomNet drawn(seed, allowed);
    const std::string text = drawn.text(kBatch, seed % 2 == 0);
    SCOPED_TRACE(cat("seed ", seed, ":\n", text));
    NetOptions options = f64_options();
    options.dtype = DTypeOf<T>::value;
    if (seed % 5 == 0) options.phase = Phase::test;
    NetOptions on_gpu = options;
    options.channels_last = false;
    on_gpu.channels_last = seed % 3 != 0;
    on_gpu.fuse = seed % 4 != 1;
    on_gpu.reuse_memory = seed % 4 != 2;
    const std::string kept = seed % 4 != 3   ? ""
                             : seed % 8 == 3 ? "checkpoint: 'normalizations' "
                                             : "checkpoint: 'auto' ";
    try {
      NetBench cpu, gpu(make_cuda_device(0, 0), "gpu:0");
      const auto cpu_net = cpu.make(text, options), gpu_net = gpu.make(kept + text, on_gpu);
      const std::vector<NamedValues> expected = two_passes<T>(cpu, *cpu_net, drawn, kBatch, options.phase),
                                     found = two_passes<T>(gpu, *gpu_net, drawn, kBatch, options.phase);
      ASSERT_EQ(found.size(), expected.size());
      const double loss = expected[1].values[0];
      if (!std::isfinite(loss) || std::abs(loss) > 1e6) continue;
      ++compared;
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_LE(largest_difference(expected[i].values, found[i].values), tolerance) << expected[i].name;
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  EXPECT_GE(compared, seeds.count() * 9 / 10);
}

/// Sums in different orders; divisions by deviations and norms that may be small amplify what they differ by.
TEST(RandomNetsOnGpus, GiveWhatTheyGiveOnCpuDevices) { compare_with_cpu<double>(150, {.alone = true}, 1e-8); }

/// Images channels-last, too.
TEST(RandomNetsOnGpus, GiveWhatTheyGiveOnCpuDevicesInF32) {
  compare_with_cpu<float>(150, {.kinks = false, .alone = true}, 1e-3);
}

TEST(RandomNetsOnGpus, LearnWhatOneCpuDeviceDoes) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  FLAGS_minloglevel = 2;
  expect_to_learn_as_one_device(50, gpu_devices);
}

}  // namespace
}  // namespace banyan
