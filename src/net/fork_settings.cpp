#include "banyan/net/fork_settings.hpp"

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

}  // namespace

void check_fork_settings(const caffe::NetParameter& net, bool log) {
  if (net.bn_stats_batch_size() != 0)
    bad_input(
        "bn_stats_batch_size: ", net.bn_stats_batch_size(),
        " is not supported; sync_group_size of a batch normalization sets how many devices share statistics");
  if (!log) return;
  if (net.default_forward_type() != caffe::FLOAT || net.default_backward_type() != caffe::FLOAT ||
      net.default_forward_math() != caffe::FLOAT || net.default_backward_math() != caffe::FLOAT)
    log_warning(
        "the net's default_*_type and default_*_math are ignored: --precision chooses the number format");
  for (const caffe::LayerParameter& layer : net.layer())
    if (layer_wants_other_type(layer))
      log_warning(
          cat("layer ", quoted(layer.name()),
              ": forward_type, backward_type and *_math are ignored: --precision chooses the number format"));
}

}  // namespace banyan
