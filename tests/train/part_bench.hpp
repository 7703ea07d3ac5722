// One CPU device with its own team, for tests of the parts of a training run; and the lines they log.
#pragma once

#include <glog/logging.h>

#include <memory>
#include <string>
#include <vector>

#include "banyan/device/context.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/net/net.hpp"
#include "banyan/net/parameter_values.hpp"
#include "banyan/ops/basic.hpp"
#include "train/peers.hpp"

namespace banyan {

/// A loss of (3 - 1)^2 / 2 with weight 2.
inline const char kLossNet[] = R"(
layer { name: "in" type: "DummyData" top: "in" top: "target"
        dummy_data_param { shape { dim: 2 dim: 1 } shape { dim: 2 dim: 1 } data_filler { value: 3 } data_filler { value: 1 } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "in" bottom: "target" top: "loss" loss_weight: 2 })";

struct PartBench {
  std::unique_ptr<Net> net(const std::string& text, Phase phase = Phase::train, DType dtype = DType::f64) {
    NetOptions options;
    options.phase = phase;
    options.dtype = dtype;
    auto net = std::make_unique<Net>(io::parse_net_text(text, "net"), options, context, activity);
    fill_parameters(*net);
    return net;
  }
  Tensor scalar(double value) {
    Tensor tensor(*device, Shape{1}, DType::f64);
    ops::fill(context, tensor, value);
    return tensor;
  }
  Pass pass() {
    Pass pass;
    pass.context = &context;
    return pass;
  }

  std::unique_ptr<Device> device = make_cpu_device(0);
  parallel::AbortState abort;
  Activity activity{"cpu:0"};
  Context context{*device};
  Team team{1, abort, {}};
  Peers peers{team, 0, activity, context};
};

/// What is logged during its lifetime, without time and place.
struct LoggedLines : google::LogSink {
  LoggedLines() {
    FLAGS_minloglevel = google::INFO;
    google::AddLogSink(this);
  }
  ~LoggedLines() override {
    google::RemoveLogSink(this);
    FLAGS_minloglevel = level_;
  }
  void send(google::LogSeverity, const char*, const char*, int, const google::LogMessageTime&,
            const char* text, std::size_t length) override {
    lines.emplace_back(text, length);
  }
  std::vector<std::string> lines;

 private:
  const int level_ = FLAGS_minloglevel;
};

}  // namespace banyan
