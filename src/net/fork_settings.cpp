#include "banyan/net/fork_settings.hpp"

#include <algorithm>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/base/text.hpp"

namespace banyan {
namespace {

template <class Message>
bool layer_wants_other_type(const Message& layer) {
  return layer.forward_type() != caffe::FLOAT || layer.backward_type() != caffe::FLOAT ||
         layer.forward_math() != caffe::FLOAT || layer.backward_math() != caffe::FLOAT;
}

bool is_multinode(const caffe::LayerParameter& layer) {
  return layer.has_multinode() || layer.has_mn_activation_param() || layer.has_mn_grad_compress_param();
}

/// One line for all layers that have the setting.
template <class Has>
void warn_once(const caffe::NetParameter& net, const char* what, const Has& has) {
  const auto& layers = net.layer();
  const auto first = std::find_if(layers.begin(), layers.end(), has);
  if (first == layers.end()) return;
  const auto found = std::count_if(first, layers.end(), has);
  log_warning(cat("layer ", quoted(first->name()),
                  found > 1 ? cat(" and ", found - 1, " more") : std::string(), ": ", what));
}

}  // namespace

void warn_of_fork_settings(const caffe::NetParameter& net) {
  if (net.default_forward_type() != caffe::FLOAT || net.default_backward_type() != caffe::FLOAT ||
      net.default_forward_math() != caffe::FLOAT || net.default_backward_math() != caffe::FLOAT)
    log_warning(
        "the net's default_*_type and default_*_math are ignored: --precision chooses the number format");
  for (const caffe::LayerParameter& layer : net.layer())
    if (layer_wants_other_type(layer))
      log_warning(
          cat("layer ", quoted(layer.name()),
              ": forward_type, backward_type and *_math are ignored: --precision chooses the number format"));
  if (net.has_multinode())
    log_warning("the net's multinode settings are ignored: --gpu and --cpu choose the devices");
  warn_once(net, "multinode settings are ignored: --gpu and --cpu choose the devices", is_multinode);
  warn_once(net, "quantization_param has no effect: training computes in floating point",
            [](const caffe::LayerParameter& layer) { return layer.has_quantization_param(); });
}

}  // namespace banyan
