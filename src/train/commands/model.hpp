// A net on one device, for the commands that are no training.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "banyan/net/net.hpp"
#include "banyan/train/commands.hpp"

namespace banyan {

/// Replaces every source that makes a blob of `shapes` (upgraded net) by one that makes constant values: 0.5
/// in its first blob, 0 (a label) in others, which have as many entries as the first where no shape is given.
/// Throws bad_input for a blob that no source makes.
void make_up_data(caffe::NetParameter& net, const std::map<std::string, Shape>& shapes);

class Model {
 public:
  /// Reads and upgrades the net file, builds the net, fills its parameters and loads the weights.
  explicit Model(const ModelOptions& options, bool shapes_only = false);

  Net& net() { return *net_; }
  Context& context() { return *context_; }
  Device& device() { return *device_; }
  Activity& activity() { return *activity_; }
  /// The next pass of the options' phase; numbers passes from 0 and leaves running statistics alone.
  Pass next_pass();
  double loss();

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Activity> activity_;
  std::unique_ptr<Net> net_;
  std::int64_t passes_ = 0;
};

/// The blob's values in logical order; waits for the device.
std::vector<double> values_of(Context& context, const Blob& blob);

}  // namespace banyan
