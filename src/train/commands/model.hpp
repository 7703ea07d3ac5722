// A net on one device, for the commands that are no training.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "banyan/net/net.hpp"
#include "banyan/train/commands.hpp"

namespace banyan {

class Model {
 public:
  /// Reads and upgrades the net file, builds the net, fills its parameters and loads the weights.
  explicit Model(const ModelOptions& options, bool shapes_only = false);

  Net& net() { return *net_; }
  Context& context() { return *context_; }
  Device& device() { return *device_; }
  /// The next pass of the options' phase; numbers passes from 0 and leaves running statistics alone.
  Pass next_pass();
  double loss();

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Activity> activity_;
  std::unique_ptr<Net> net_;
  Phase phase_;
  std::int64_t passes_ = 0;
};

/// The blob's values in logical order; waits for the device.
std::vector<double> values_of(Context& context, const Blob& blob);

}  // namespace banyan
