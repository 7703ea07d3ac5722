// Random nets of most layer types: every plan, number of devices and interruption gives the results of the
// plain net, and its gradients are those of its loss.
#include <algorithm>
#include <cmath>

#include "net/random_training.hpp"
#include "relative_distance.hpp"

namespace banyan {
namespace {

constexpr int kBatch = 4, kShare = 2;

/// Values as bits, so that one that is not a number equals itself; zeros without their signs.
struct Results {
  std::vector<double> values;
  double loss = 0;
  bool operator==(const Results& other) const {
    if (values.size() != other.values.size()) return false;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] != other.values[i] && !(std::isnan(values[i]) && std::isnan(other.values[i])))
        return false;
    return true;
  }
};

struct Running {
  bool observed = false, asynchronous = false;
};

Results results_of(const WideRandomNet& drawn, const std::string& text, NetOptions options,
                   const Running& running = {}) {
  CpuDeviceOptions device;
  device.asynchronous = running.asynchronous;
  device.max_delay_us = 2;
  NetBench bench(device);
  options.seed = 5;
  const auto net = bench.make(text, options);
  if (running.observed) net->observe_layers({}, {});
  const std::vector<NamedValues> found = two_passes<float>(bench, *net, drawn, kBatch, options.phase);
  Results results;
  for (const NamedValues& each : found)
    results.values.insert(results.values.end(), each.values.begin(), each.values.end());
  results.loss = found[1].values[0];
  return results;
}

TEST(RandomLayers, HaveTheSameBitsHoweverTheyRun) {
  const Seeds seeds = random_seeds(300);
  unsigned finite = 0, have_parts = 0;
  for (unsigned seed = seeds.first; seed < seeds.end; ++seed) {
    const WideRandomNet net(seed, {.alone = true});
    const std::string storage = seed % 5 == 0 ? "storage: BF16 " : "";
    const std::string in_place = net.text(kBatch, true, storage), apart = net.text(kBatch, false, storage);
    SCOPED_TRACE(cat("seed ", seed, ":\n", in_place));
    NetOptions fused;
    fused.channels_last = seed % 2 == 0;
    fused.fuse_scale = false;
    NetOptions alone = fused, separate = fused, tested = fused;
    alone.fuse = false;
    separate.reuse_memory = separate.fuse = false;
    tested.phase = Phase::test;
    NetOptions tested_separately = tested;
    tested_separately.reuse_memory = false;
    NetOptions in_parts = tested;
    in_parts.parameters_stay = true;
    in_parts.cache = seed % 3 == 0 ? 1 : 500 * (1 + seed % 7);
    try {
      const Results plain = results_of(net, apart, separate);
      finite += std::isfinite(plain.loss) ? 1 : 0;
      EXPECT_TRUE(results_of(net, in_place, fused) == plain) << "fused, in place";
      EXPECT_TRUE(results_of(net, apart, fused) == plain) << "fused";
      EXPECT_TRUE(results_of(net, in_place, alone) == plain) << "not fused";
      EXPECT_TRUE(results_of(net, in_place, separate) == plain) << "in place in separate memory";
      EXPECT_TRUE(results_of(net, in_place, fused, {.observed = true}) == plain) << "observed";
      EXPECT_TRUE(results_of(net, in_place, fused, {.asynchronous = true}) == plain) << "asynchronous";
      const Results test = results_of(net, apart, tested_separately);
      EXPECT_TRUE(results_of(net, in_place, tested) == test) << "tested";
      NetOptions planned = in_parts;
      planned.shapes_only = true;
      have_parts += NetBench().make(in_place, planned)->plan().parts.empty() ? 0 : 1;
      EXPECT_TRUE(results_of(net, seed % 2 == 0 ? apart : in_place, in_parts) == test) << "in parts";
      EXPECT_TRUE(results_of(net,
                             net.text(kBatch, seed % 3 == 0, cat(storage, "checkpoint: 'normalizations' ")),
                             fused) == plain)
          << "normalizations are made again";
      const std::string segments = seed % 4 == 0 ? "auto" : std::to_string(2 + seed / 4 % 4);
      try {
        EXPECT_TRUE(results_of(net,
                               net.text(kBatch, seed % 3 != 0, cat(storage, "checkpoint: '", segments, "'")),
                               fused) == plain)
            << "checkpoint: " << segments;
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("more segments than the"));
      }
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  EXPECT_GE(finite, seeds.count() * 9 / 10);
  EXPECT_GE(have_parts, seeds.count() / 3);
}

/// Central differences at two steps, extrapolated; their distance bounds what is left of the curvature.
TEST(RandomLayers, HaveTheGradientsOfTheirLosses) {
  const Seeds seeds = random_seeds(300);
  for (unsigned seed = seeds.first; seed < seeds.end; ++seed) {
    const WideRandomNet drawn(seed, {.kinks = false, .alone = true});
    const std::string text = drawn.text(kBatch, seed % 2 == 0, seed % 3 == 0 ? "in_place_abn: true" : "");
    SCOPED_TRACE(cat("seed ", seed, ":\n", text));
    try {
      NetBench bench;
      const auto net = bench.make(text, f64_options());
      feed_all<double>(bench, *net, drawn, kBatch);
      net->zero_gradients();
      net->forward(bench.pass);
      const double loss = loss_of(bench, *net);
      if (!std::isfinite(loss)) continue;
      net->backward(bench.pass);
      std::vector<LearnableParameter*> learned;
      for (LearnableParameter& parameter : net->parameters())
        if (!parameter.is_statistic && parameter.grad.defined()) learned.push_back(&parameter);
      std::mt19937 random(seed);
      for (int i = 0; i < 6 && !learned.empty(); ++i) {
        LearnableParameter& parameter = *learned[random() % learned.size()];
        const std::vector<double> gradient = values_of<double>(bench.context, parameter.grad);
        std::vector<double> values = values_of<double>(bench.context, parameter.value);
        const std::size_t at = random() % values.size();
        const double before = values[at];
        const auto loss_at = [&](double value) {
          values[at] = value;
          copy_from_host(bench.context, values.data(), parameter.value);
          net->forward(bench.pass);
          return loss_of(bench, *net);
        };
        const auto slope = [&](double step) {
          return (loss_at(before + step) - loss_at(before - step)) / (2 * step);
        };
        const double coarse = slope(2e-5), fine = slope(1e-5);
        loss_at(before);
        EXPECT_NEAR(gradient[at], fine,
                    1e-6 * std::max({1.0, std::abs(fine), std::abs(loss)}) + 2 * std::abs(coarse - fine))
            << parameter.layer << " blob " << parameter.slot << " element " << at;
      }
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(RandomLayers, LearnTheSameOnSeveralDevices) {
  FLAGS_minloglevel = 2;
  expect_to_learn_as_one_device(300, cpu_devices);
}

TEST(RandomLayers, GoOnFromASnapshotAsIfNothingHadHappened) {
  FLAGS_minloglevel = 2;
  const RandomTrainingFolder folder;
  const Seeds seeds = random_seeds(300);
  for (unsigned seed = seeds.first; seed < seeds.end; ++seed) {
    const int devices = 1 + static_cast<int>(seed % 2);
    const WideRandomNet net(seed, {.alone = devices == 1});
    SCOPED_TRACE(cat("seed ", seed, ", ", devices, " devices:\n", net.text(kShare, true)));
    try {
      const TrainOptions options =
          random_training(net, cpu_devices(devices), kShare, RunPrecision::f32, folder);
      std::string state;
      std::vector<std::vector<double>> values;
      std::vector<double> losses;
      for (const bool resumed : {false, true}) {
        Session session(options);
        feed_all(session, net, kShare, devices);
        if (resumed) {
          session.restore(state);
        } else {
          session.step(2);
          state = session.snapshot();
        }
        session.step(2);
        losses.push_back(session.metrics().loss);
        session.snapshot();
        values.push_back(trained_values(session, folder));
      }
      if (!std::isfinite(losses[0])) continue;
      EXPECT_EQ(losses[0], losses[1]);
      // The last update may have left the finite numbers.
      const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
      EXPECT_TRUE(std::ranges::equal(values[0], values[1], same))
          << relative_distance(values[0], values[1]) << " apart";
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

}  // namespace
}  // namespace banyan
