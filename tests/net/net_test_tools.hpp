// What the tests of this room share: a CPU device with its context, nets from text, message checks.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/net/net.hpp"
#include "banyan/net/parameter_values.hpp"

namespace banyan {

inline caffe::NetParameter net_of(const std::string& text) {
  return io::parse_net_text(text, "test.prototxt");
}

/// The message (with its places) of the bad_input that `body` throws; a test failure if it throws none.
inline std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

/// One device and what a Net on it needs.
struct NetBench {
  explicit NetBench(const CpuDeviceOptions& options = {}) : NetBench(make_cpu_device(0, options), "cpu:0") {}
  NetBench(std::unique_ptr<Device> one, const std::string& name)
      : device(std::move(one)), context(*device), activity(name) {
    pass.context = &context;
    pass.seed = 7;
    pass.update_statistics = false;
  }
  std::unique_ptr<Net> make(const std::string& text, const NetOptions& options) {
    auto net = std::make_unique<Net>(net_of(text), options, context, activity);
    if (!options.shapes_only) fill_parameters(*net);
    return net;
  }

  std::unique_ptr<Device> device;
  Context context;
  Activity activity;
  Pass pass;
};

inline NetOptions f64_options() {
  NetOptions options;
  options.dtype = DType::f64;
  options.seed = 5;
  return options;
}

template <class T>
std::vector<T> values_of(Context& context, const Tensor& tensor) {
  std::vector<T> values(static_cast<std::size_t>(tensor.count()));
  copy_to_host(context, tensor, values.data());
  return values;
}

/// Pseudo-random data, the same everywhere: multiples of 1/64 in [-1, 1].
template <class T>
std::vector<T> wavy(std::int64_t count, int phase = 0) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<T>(((i * 37 + phase * 11 + 5) * 29 % 129) - 64) / 64);
  return values;
}

/// Fills the blobs "data" and "label" (cycling through the classes) of a net whose Input was just reshaped.
template <class T>
void feed(NetBench& bench, Net& net, int classes) {
  Tensor& data = net.find_blob("data")->data;
  copy_from_host(bench.context, wavy<T>(data.count()).data(), data);
  Tensor& label = net.find_blob("label")->data;
  std::vector<T> labels;
  for (std::int64_t i = 0; i < label.count(); ++i) labels.push_back(static_cast<T>(i * 3 % classes));
  copy_from_host(bench.context, labels.data(), label);
}

inline double loss_of(NetBench& bench, Net& net) { return values_of<double>(bench.context, net.loss())[0]; }

}  // namespace banyan
