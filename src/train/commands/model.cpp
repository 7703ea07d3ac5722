#include "train/commands/model.hpp"

#include <glog/logging.h>

#include "banyan/base/error.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"
#include "banyan/io/weights.hpp"
#include "banyan/train/device_choice.hpp"
#include "banyan/train/log_lines.hpp"

namespace banyan {

Model::Model(const ModelOptions& options, bool shapes_only) : phase_(options.phase) {
  caffe::NetParameter parameter = io::read_net_text(options.model);
  io::upgrade_net(parameter, options.model);
  device_ = make_device(options.device, options.threads);
  device_->make_current();
  context_ = std::make_unique<Context>(*device_);
  activity_ = std::make_unique<Activity>(device_->name());
  NetOptions net;
  net.phase = options.phase;
  net.level = options.level;
  net.stages = options.stages;
  net.dtype = options.precision;
  net.input_shapes = options.shapes;
  net.shapes_only = shapes_only;
  net.origin = options.model;
  net_ = std::make_unique<Net>(parameter, net, *context_, *activity_);
  if (shapes_only) return;
  net_->fill_parameters();
  for (const auto& file : options.weights) net_->load_weights(io::read_weights(file), file);
}

Pass Model::next_pass() {
  Pass pass;
  pass.context = context_.get();
  pass.phase = phase_;
  pass.iteration = pass.draw = passes_++;
  pass.update_statistics = false;
  return pass;
}

double Model::loss() {
  double loss = 0;
  copy_to_host(*context_, net_->loss(), &loss);
  return loss;
}

std::vector<double> values_of(Context& context, const Blob& blob) {
  std::vector<double> values(static_cast<std::size_t>(blob.data.count()));
  dispatch_float(blob.data.dtype(), "an output", [&]<class T>() {
    std::vector<T> host(values.size());
    copy_to_host(context, blob.data, host.data());
    std::copy(host.begin(), host.end(), values.begin());
  });
  return values;
}

}  // namespace banyan
