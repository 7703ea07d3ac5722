// BVLC's multi-GPU branch: learned blobs as bottoms, and a device for each layer.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/upgrade.hpp"

namespace banyan::io {
namespace {

class BottomUpgrade {
 public:
  BottomUpgrade(const caffe::NetParameter& net, const std::string& origin) : origin_(origin) {
    for (const caffe::LayerParameter& layer : net.layer())
      if (layer.type() == "Parameter" && layer.top_size() == 1) makers_[layer.top(0)] = layer;
  }

  void run(caffe::LayerParameter& layer) {
    if (layer.has_device()) {
      if (!warned_)
        log_warning(
            cat(origin_, ": layer ", quoted(layer.name()), " (", layer.type(), "): device",
                " has no effect, nor has that of other layers: every device computes the whole net, and "
                "--gpu chooses them"));
      warned_ = true;
      layer.clear_device();
    }
    if (layer.param_bottoms() > static_cast<std::uint32_t>(layer.bottom_size()))
      refuse(layer, "param_bottoms is ", layer.param_bottoms(), ", of ", layer.bottom_size(), " bottoms");
    const int count = static_cast<int>(layer.param_bottoms()), first = layer.bottom_size() - count;
    layer.clear_param_bottoms();
    if (count == 0) return;
    for (int i = 0; i < count; ++i) take(layer, i, layer.bottom(first + i));
    layer.mutable_bottom()->DeleteSubrange(first, count);
    if (const int given = layer.propagate_down_size(); given > first)
      layer.mutable_propagate_down()->Truncate(first);
  }

  /// Parameter layers that no layer reads any more; the others share their blobs.
  void drop_idle(caffe::NetParameter& net) const {
    std::set<std::string> read;
    for (const caffe::LayerParameter& layer : net.layer())
      read.insert(layer.bottom().begin(), layer.bottom().end());
    for (caffe::LayerParameter& layer : *net.mutable_layer()) {
      if (!is_taken(layer)) continue;
      if (!read.contains(layer.top(0)) && layer.parameter_param().has_blob_filler())
        refuse(layer,
               "its blob_filler would be lost: write it as the filler of the layer that reads the blob");
      if (layer.param_size() == 0) layer.add_param();
      if (!layer.param(0).has_name()) layer.mutable_param(0)->set_name(layer.top(0));
    }
    auto& layers = *net.mutable_layer();
    layers.erase(std::remove_if(layers.begin(), layers.end(),
                                [&](const caffe::LayerParameter& layer) {
                                  return is_taken(layer) && !read.contains(layer.top(0));
                                }),
                 layers.end());
  }

 private:
  bool is_taken(const caffe::LayerParameter& layer) const {
    return layer.type() == "Parameter" && layer.top_size() == 1 && taken_.contains(layer.top(0));
  }
  template <class... Parts>
  [[noreturn]] void refuse(const caffe::LayerParameter& layer, const Parts&... parts) const {
    bad_input(origin_, ": layer ", quoted(layer.name()), " (", layer.type(), "): ", parts...);
  }

  void take(caffe::LayerParameter& layer, int index, const std::string& blob) {
    const auto maker = makers_.find(blob);
    if (maker == makers_.end())
      refuse(layer, "param_bottoms counts ", quoted(blob), ", which no Parameter layer makes");
    while (layer.param_size() <= index) layer.add_param();
    caffe::ParamSpec& spec = *layer.mutable_param(index);
    const caffe::LayerParameter& from = maker->second;
    if (from.param_size() > 0) {
      const caffe::ParamSpec own = spec;
      spec = from.param(0);
      spec.MergeFrom(own);
    }
    if (!spec.has_name()) spec.set_name(blob);
    taken_.insert(blob);
  }

  const std::string& origin_;
  std::map<std::string, caffe::LayerParameter> makers_;  ///< by blob
  std::set<std::string> taken_;
  bool warned_ = false;
};

}  // namespace

bool needs_param_bottoms_upgrade(const caffe::NetParameter& net) {
  return std::any_of(net.layer().begin(), net.layer().end(), [](const caffe::LayerParameter& layer) {
    return layer.has_param_bottoms() || layer.has_device();
  });
}

caffe::NetParameter upgrade_param_bottoms(caffe::NetParameter net, const std::string& origin) {
  BottomUpgrade upgrade(net, origin);
  for (caffe::LayerParameter& layer : *net.mutable_layer()) upgrade.run(layer);
  upgrade.drop_idle(net);
  return net;
}

}  // namespace banyan::io
