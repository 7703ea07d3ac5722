// TRT (NVIDIA) runs the net of a file by TensorRT and counts the right answers. Here the layers of that net
// take its place, with Accuracy layers after them.
#include <algorithm>
#include <string>
#include <vector>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"

namespace banyan::io {
namespace {

bool is_trt(const caffe::LayerParameter& layer) { return layer.type() == "TRT"; }

class Engine {
 public:
  Engine(const caffe::LayerParameter& layer, const std::string& origin)
      : layer_(layer), settings_(layer.trt_param()), origin_(origin) {}

  void add_to(caffe::NetParameter& net) const {
    if (layer_.bottom_size() != 2 || layer_.top_size() != 1)
      refuse("takes two bottoms, data and labels, and one top; found ", layer_.bottom_size(), " and ",
             layer_.top_size());
    if (settings_.deploy().empty()) refuse("trt_param.deploy is missing: the net that it runs");
    if (settings_.deploy_outputs_size() != 1)
      refuse("trt_param.deploy_outputs must name one blob of that net; found ",
             settings_.deploy_outputs_size());
    const caffe::NetParameter deploy = read_deploy();
    bool made = false;
    for (caffe::LayerParameter each : deploy.layer()) {
      made = made || contains(each.top(), settings_.deploy_outputs(0));
      if (each.type() == "Input") {
        check_input(each);
        continue;
      }
      rename(*each.mutable_bottom());
      rename(*each.mutable_top());
      add(net, std::move(each));
    }
    if (!made)
      refuse("trt_param.deploy_outputs is ", quoted(settings_.deploy_outputs(0)), ", which no layer of ",
             quoted(settings_.deploy()), " makes");
    add_accuracy(net, 1);
    if (settings_.top_k() > 1) add_accuracy(net, settings_.top_k());
    log_info(cat(origin_, ": layer ", quoted(layer_.name()), " (TRT): the layers of ",
                 quoted(settings_.deploy()),
                 " take its place and compute as all others do, whatever trt_mode says",
                 settings_.model().empty() ? std::string()
                                           : cat("; --weights=", settings_.model(), " gives their weights")));
  }

 private:
  template <class... Why>
  [[noreturn]] void refuse(const Why&... why) const {
    bad_input(origin_, ": layer ", quoted(layer_.name()), " (TRT): ", why...);
  }
  caffe::NetParameter read_deploy() const {
    try {
      caffe::NetParameter net = read_net_text(settings_.deploy());
      if (std::any_of(net.layer().begin(), net.layer().end(), is_trt))
        bad_input(quoted(settings_.deploy()), " has a TRT layer itself");
      upgrade_net(net, settings_.deploy());
      return net;
    } catch (const Error& error) {
      refuse("trt_param.deploy: ", error.message());
    }
  }
  void check_input(const caffe::LayerParameter& input) const {
    if (input.top_size() != 1 || input.top(0) != layer_.bottom(0))
      refuse("its data are ", quoted(layer_.bottom(0)), ", but the input of ", quoted(settings_.deploy()),
             " is ",
             quoted(join(std::vector<std::string>(input.top().begin(), input.top().end()), ", ", " and ")));
  }
  /// The output of the other net is the top here.
  void rename(google::protobuf::RepeatedPtrField<std::string>& blobs) const {
    std::replace(blobs.begin(), blobs.end(), settings_.deploy_outputs(0), layer_.top(0));
  }
  /// In the phases and stages of the TRT layer.
  void add(caffe::NetParameter& net, caffe::LayerParameter layer) const {
    layer.mutable_include()->MergeFrom(layer_.include());
    layer.mutable_exclude()->MergeFrom(layer_.exclude());
    if (layer_.has_phase()) layer.set_phase(layer_.phase());
    *net.add_layer() = std::move(layer);
  }
  void add_accuracy(caffe::NetParameter& net, std::uint32_t top_k) const {
    caffe::LayerParameter accuracy;
    accuracy.set_name(cat(layer_.name(), "_top_", top_k));
    accuracy.set_type("Accuracy");
    accuracy.add_bottom(layer_.top(0));
    accuracy.add_bottom(layer_.bottom(1));
    accuracy.add_top(accuracy.name());
    accuracy.mutable_accuracy_param()->set_top_k(top_k);
    add(net, std::move(accuracy));
  }

  const caffe::LayerParameter& layer_;
  const caffe::TRTParameter& settings_;
  const std::string& origin_;
};

}  // namespace

bool needs_trt_upgrade(const caffe::NetParameter& net) {
  return std::any_of(net.layer().begin(), net.layer().end(), is_trt);
}

caffe::NetParameter upgrade_trt(const caffe::NetParameter& net, const std::string& origin) {
  caffe::NetParameter written = net;
  written.clear_layer();
  for (const caffe::LayerParameter& layer : net.layer())
    if (is_trt(layer))
      Engine(layer, origin).add_to(written);
    else
      *written.add_layer() = layer;
  return written;
}

}  // namespace banyan::io
