// How far a host runs ahead of its device: two iterations, because a failed run must wait for everything
// enqueued.
#include <array>
#include <atomic>
#include <map>

#include "banyan/observe/activity.hpp"
#include "banyan/observe/timeline.hpp"
#include "train/training_run.hpp"

namespace banyan {
namespace {

constexpr int kIterations = 12, kRunDevices = 2;

/// When the host of each device entered the first layer of each iteration, in nanoseconds.
std::array<std::array<std::atomic<std::int64_t>, kIterations>, kRunDevices> entered;

class RunAhead : public TrainingRun {};

TEST_F(RunAhead, IsTwoIterations) {
  // Nothing here makes a host wait: synthetic data, a loss without labels, no tests or displays.
  const std::string source = R"(
      layer { name: "d" type: "DummyData" top: "data" top: "label" dummy_data_param {
                shape { dim: 2 dim: 1 dim: 6 dim: 6 } shape { dim: 2 dim: 3 }
                data_filler { value: 0.5 } data_filler { value: 0.1 } } })";
  TrainOptions run = options(kRunDevices, source);
  run.solver.nets.mutable_net_param()->mutable_layer(5)->set_type("EuclideanLoss");
  run.solver.clip_norm.reset();
  run.solver.test.batches.clear();
  run.solver.test.interval = 0;
  run.solver.snapshot.interval = 0;
  run.solver.snapshot.after_train = false;
  run.solver.max_iter = kIterations;
  run.cpu.asynchronous = true;
  run.cpu.max_delay_us = 500;
  for (const int devices : {kRunDevices, 1}) {
    run.devices.resize(devices);
    run.timeline = std::make_shared<Timeline>();
    for (auto& device : entered)
      for (auto& time : device) time = 0;
    install_fault_injector([](const Activity& activity, Stage stage, const char*) {
      if (stage != Stage::forward) return;
      auto& time = entered[activity.device() == "cpu:0" ? 0 : 1][activity.state().iteration];
      if (time == 0) time = steady_nanoseconds();
    });
    train(run);
    install_fault_injector(nullptr);
    int seen = 0, ahead = 0;
    for (const Track* track : run.timeline->tracks()) {
      track->for_each([&](const TimeSpan& span) {
        if (span.kind != SpanKind::iteration) return;
        ++seen;
        const auto& host = entered[track->device()];
        const auto iteration = static_cast<std::size_t>(span.iteration);
        if (iteration + 1 < kIterations) ahead += host[iteration + 1] < span.end;
        if (iteration + 2 < kIterations) {
          EXPECT_GE(host[iteration + 2], span.end)
              << "cpu:" << track->device() << " was still at work in iteration " << iteration;
        }
      });
    }
    EXPECT_EQ(seen, devices * kIterations);
    EXPECT_GT(ahead, devices * kIterations / 2);  // otherwise hosts wait for their devices in every iteration
  }
}

}  // namespace
}  // namespace banyan
