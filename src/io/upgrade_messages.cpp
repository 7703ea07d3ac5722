// Messages of branches that have another name here.

#include <algorithm>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/upgrade.hpp"

namespace banyan::io {
namespace {

bool has_other_message(const caffe::LayerParameter& layer) {
  return layer.has_convolution3d_param() || layer.has_deformable_convolution_param() ||
         layer.has_pooling3d_param() || layer.has_softmaxloss_param();
}

class MessageUpgrade {
 public:
  MessageUpgrade(caffe::LayerParameter& layer, const std::string& origin) : layer_(layer), origin_(origin) {}

  void run() const {
    if (layer_.has_convolution3d_param()) {
      if (layer_.has_convolution_param()) refuse_both("convolution3d_param", "convolution_param");
      layer_.mutable_convolution_param()->Swap(layer_.mutable_convolution3d_param());
      layer_.clear_convolution3d_param();
    }
    if (layer_.has_deformable_convolution_param()) {
      if (layer_.has_convolution_param()) refuse_both("deformable_convolution_param", "convolution_param");
      layer_.mutable_convolution_param()->Swap(layer_.mutable_deformable_convolution_param());
      layer_.clear_deformable_convolution_param();
    }
    if (layer_.has_pooling3d_param()) {
      if (layer_.has_pooling_param()) refuse_both("pooling3d_param", "pooling_param");
      layer_.mutable_pooling_param()->Swap(layer_.mutable_pooling3d_param());
      layer_.clear_pooling3d_param();
    }
    if (layer_.has_softmaxloss_param()) softmax_loss();
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    bad_input(origin_, ": layer ", quoted(layer_.name()), " (", layer_.type(), "): ", parts...);
  }
  [[noreturn]] void refuse_both(const char* theirs, const char* ours) const {
    refuse(theirs, " is a branch's name of ", ours, "; give one of the two");
  }

  void softmax_loss() const {
    const caffe::SoftmaxLossParameter& s = layer_.softmaxloss_param();
    if (s.has_weight_source())
      refuse(
          "softmaxloss_param.weight_source (DeepLab), a file with one weight for each class, by whose sum "
          "over "
          "the labels the loss is divided, is not supported; loss_param { weight_by_label_freqs: true } "
          "multiplies by class_weighting and divides by the number of labels");
    if (s.ignore_label_size() > 1)
      refuse("softmaxloss_param has ", s.ignore_label_size(),
             " ignore_label (DeepLab), of which loss_param can have one; give such labels one number in the "
             "data");
    if (layer_.has_loss_param()) refuse_both("softmaxloss_param", "loss_param");
    if (s.ignore_label_size() > 0) layer_.mutable_loss_param()->set_ignore_label(s.ignore_label(0));
    layer_.clear_softmaxloss_param();
  }

  caffe::LayerParameter& layer_;
  const std::string& origin_;
};

}  // namespace

bool needs_message_upgrade(const caffe::NetParameter& net) {
  return std::any_of(net.layer().begin(), net.layer().end(), has_other_message);
}

caffe::NetParameter upgrade_messages(caffe::NetParameter net, const std::string& origin) {
  for (caffe::LayerParameter& layer : *net.mutable_layer()) MessageUpgrade(layer, origin).run();
  return net;
}

}  // namespace banyan::io
