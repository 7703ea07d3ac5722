#include <glog/logging.h>

#include <chrono>

#include "banyan/train/log_lines.hpp"
#include "train/commands/model.hpp"

namespace banyan {

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Sums of milliseconds.
struct PassTimes {
  double forward = 0, backward = 0;
};

/// One forward and one backward pass, each until the device is done.
PassTimes run_once(Model& model) {
  PassTimes times;
  Pass pass = model.next_pass();
  model.net().zero_gradients(model.context());
  model.context().synchronize();
  auto start = Clock::now();
  model.net().forward(pass);
  model.context().synchronize();
  times.forward = milliseconds_since(start);
  start = Clock::now();
  model.net().backward(pass);
  model.context().synchronize();
  times.backward = milliseconds_since(start);
  return times;
}

/// Adds up each layer's time while it lives.
class LayerClock {
 public:
  explicit LayerClock(Model& model) : model_(model), forward_(count(model)), backward_(count(model)) {
    model.net().observe_layers(
        [this](int, bool) {
          model_.context().synchronize();
          start_ = Clock::now();
        },
        [this](int layer, bool backward) {
          model_.context().synchronize();
          (backward ? backward_ : forward_)[static_cast<std::size_t>(layer)] += milliseconds_since(start_);
        });
  }
  ~LayerClock() { model_.net().observe_layers({}, {}); }
  LayerClock(const LayerClock&) = delete;
  LayerClock& operator=(const LayerClock&) = delete;
  const std::vector<double>& forward() const { return forward_; }
  const std::vector<double>& backward() const { return backward_; }

 private:
  static std::size_t count(Model& model) { return model.net().layers().size(); }
  Model& model_;
  std::vector<double> forward_, backward_;
  Clock::time_point start_;
};

/// Samples in one pass: the length of the first axis of the first layer's first output.
std::int64_t batch_of(Net& net) {
  if (net.layers().empty() || net.outputs_of(0).empty() || net.outputs_of(0)[0]->shape.axes() == 0) return 0;
  return net.outputs_of(0)[0]->shape[0];
}

}  // namespace

void time_model(const ModelOptions& options) {
  Model model(options);
  Net& net = model.net();
  LOG(INFO) << "Performing Forward";
  run_once(model);  // buffers are allocated and libraries choose their algorithms here
  LOG(INFO) << "Initial loss: " << model.loss();
  LOG(INFO) << "*** Benchmark begins ***";
  LOG(INFO) << "Testing for " << options.iterations << " iterations.";
  PassTimes total;
  const auto start = Clock::now();
  const auto add_pass = [&](int iteration) {
    const PassTimes once = run_once(model);
    total.forward += once.forward;
    total.backward += once.backward;
    LOG(INFO) << "Iteration: " << iteration + 1 << " forward-backward time: " << once.forward + once.backward
              << " ms.";
  };
  // On a GPU, waiting after each layer would slow the passes down: layers are timed in passes of their own.
  const bool separately = model.context().is_cuda();
  if (separately)
    for (int i = 0; i < options.iterations; ++i) add_pass(i);
  double elapsed = milliseconds_since(start);
  LayerClock layers(model);
  for (int i = 0; i < options.iterations; ++i) {
    if (separately)
      run_once(model);
    else
      add_pass(i);
  }
  if (!separately) elapsed = milliseconds_since(start);

  const double n = options.iterations;
  LOG(INFO) << "Average time per layer: ";
  for (std::size_t i = 0; i < net.layers().size(); ++i) {
    LOG(INFO) << log_lines::layer_time(net.layers()[i]->name(), "forward", layers.forward()[i] / n);
    LOG(INFO) << log_lines::layer_time(net.layers()[i]->name(), "backward", layers.backward()[i] / n);
  }
  LOG(INFO) << log_lines::total_time("Average Forward pass", total.forward / n);
  LOG(INFO) << log_lines::total_time("Average Backward pass", total.backward / n);
  LOG(INFO) << log_lines::total_time("Average Forward-Backward", elapsed / n);
  LOG(INFO) << log_lines::total_time("Total Time", elapsed);
  LOG(INFO) << "Samples per second: " << static_cast<double>(batch_of(net)) * n / elapsed * 1000 << " (batch "
            << batch_of(net) << ")";
  LOG(INFO) << "*** Benchmark ends ***";
}

}  // namespace banyan
