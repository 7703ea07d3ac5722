// Random nets of most layer types: a GPU gives what a CPU device gives, and several learn what one CPU device
// does.
#include "banyan/device/cuda_devices.hpp"
#include "net/random_training.hpp"
#include "train/run_devices.hpp"

namespace banyan {
namespace {

constexpr int kBatch = 4;

struct Result {
  std::string name;
  std::vector<double> values;
};

/// Losses, gradients and statistics of two passes whose gradients add up, as with iter_size 2.
template <class T>
std::vector<Result> results_of(const WideRandomNet& drawn, const std::string& text, NetBench& bench,
                               const NetOptions& options) {
  const auto net = bench.make(text, options);
  bench.pass.update_statistics = true;
  feed_all<T>(bench, *net, drawn, kBatch);
  net->zero_gradients();
  std::vector<Result> results;
  const auto append = [&](const std::string& name, const Tensor& tensor) {
    const std::vector<T> values = values_of<T>(bench.context, tensor);
    results.push_back({name, {values.begin(), values.end()}});
  };
  for (int pass = 0; pass < 2; ++pass) {
    bench.pass.draw = pass;
    net->forward(bench.pass);
    results.push_back({"loss", {loss_of(bench, *net)}});
    if (options.phase == Phase::train) net->backward(bench.pass);
  }
  for (const LearnableParameter& parameter : net->parameters())
    if (options.phase == Phase::train && parameter.grad.defined())
      append(cat("gradient of ", parameter.layer, " blob ", parameter.slot), parameter.grad);
  if (net->statistics().defined()) append("statistics", net->statistics());
  net->check_results();
  return results;
}

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
      const std::vector<Result> expected = results_of<T>(drawn, text, cpu, options),
                                found = results_of<T>(drawn, kept + text, gpu, on_gpu);
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
