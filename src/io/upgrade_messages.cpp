// Messages of branches that have another name here.

#include <google/protobuf/descriptor.h>

#include <algorithm>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/upgrade.hpp"

namespace banyan::io {
namespace {

/// A branch's name of a message, and the one here.
struct Renamed {
  const char *theirs, *ours;
};
constexpr Renamed kRenamed[] = {{"bnhk_param", "bn_param"},
                                {"convolution3d_param", "convolution_param"},
                                {"deformable_convolution_param", "convolution_param"},
                                {"lrn_map_param", "lrn_param"},
                                {"pooling3d_param", "pooling_param"},
                                {"pooling_3d_param", "pooling_param"},
                                {"pooling_nd_param", "pooling_param"}};

const google::protobuf::FieldDescriptor* layer_field(const char* name) {
  return caffe::LayerParameter::descriptor()->FindFieldByName(name);
}
bool has_message(const caffe::LayerParameter& layer, const char* name) {
  return layer.GetReflection()->HasField(layer, layer_field(name));
}

/// NVIDIA's names before 0.17.
bool has_early_transform(const caffe::LayerParameter& layer) {
  const caffe::TransformationParameter& s = layer.transform_param();
  return s.has_var_sz_img_rand_resize_lower() || s.has_var_sz_img_rand_resize_upper() ||
         s.has_var_sz_img_rand_crop() || s.has_var_sz_img_center_crop();
}

/// caffe-pro's.
bool has_new_dim(const caffe::LayerParameter& layer) {
  const caffe::ImageDataParameter& images = layer.image_data_param();
  return images.has_new_dim() || images.has_bicubic();
}

bool has_other_message(const caffe::LayerParameter& layer) {
  return layer.has_softmaxloss_param() || has_early_transform(layer) || has_new_dim(layer) ||
         std::any_of(std::begin(kRenamed), std::end(kRenamed),
                     [&](const Renamed& message) { return has_message(layer, message.theirs); });
}

class MessageUpgrade {
 public:
  MessageUpgrade(caffe::LayerParameter& layer, const std::string& origin) : layer_(layer), origin_(origin) {}

  void run() const {
    for (const Renamed& message : kRenamed)
      if (has_message(layer_, message.theirs)) rename(message);
    if (layer_.has_softmaxloss_param()) softmax_loss();
    if (has_early_transform(layer_)) transform();
    if (has_new_dim(layer_)) shorter_side();
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    bad_input(origin_, ": layer ", quoted(layer_.name()), " (", layer_.type(), "): ", parts...);
  }
  [[noreturn]] void refuse_both(const char* theirs, const char* ours) const {
    refuse(theirs, " is a branch's name of ", ours, "; give one of the two");
  }

  void rename(const Renamed& message) const {
    if (has_message(layer_, message.ours)) refuse_both(message.theirs, message.ours);
    const google::protobuf::Reflection& reflection = *layer_.GetReflection();
    reflection.SetAllocatedMessage(&layer_, reflection.ReleaseMessage(&layer_, layer_field(message.theirs)),
                                   layer_field(message.ours));
  }

  /// crop_size cuts anywhere in training and the centre in tests, which the two crops were for.
  void transform() const {
    caffe::TransformationParameter& s = *layer_.mutable_transform_param();
    // 0 is off.
    const bool cuts = s.var_sz_img_rand_crop() > 0, centres = s.var_sz_img_center_crop() > 0,
               crops = cuts || centres;
    const bool resizes = s.has_var_sz_img_rand_resize_lower() || s.has_var_sz_img_rand_resize_upper();
    if (resizes && (s.has_img_rand_resize_lower() || s.has_img_rand_resize_upper()))
      refuse(
          "var_sz_img_rand_resize_lower and _upper are earlier names of img_rand_resize_lower and _upper; "
          "give one "
          "of the two");
    const std::uint32_t crop = cuts ? s.var_sz_img_rand_crop() : s.var_sz_img_center_crop();
    if ((cuts && centres) || (crops && s.crop_size() != 0 && s.crop_size() != crop))
      refuse(
          "var_sz_img_rand_crop and var_sz_img_center_crop are earlier names of crop_size; give one of the "
          "three");
    if (s.has_var_sz_img_rand_resize_lower()) s.set_img_rand_resize_lower(s.var_sz_img_rand_resize_lower());
    if (s.has_var_sz_img_rand_resize_upper()) s.set_img_rand_resize_upper(s.var_sz_img_rand_resize_upper());
    if (crops) s.set_crop_size(crop);
    s.clear_var_sz_img_rand_resize_lower();
    s.clear_var_sz_img_rand_resize_upper();
    s.clear_var_sz_img_rand_crop();
    s.clear_var_sz_img_center_crop();
  }

  void shorter_side() const {
    caffe::ImageDataParameter& images = *layer_.mutable_image_data_param();
    const std::uint32_t length = images.new_dim();
    const bool cubic = images.bicubic();
    images.clear_new_dim();
    images.clear_bicubic();
    if (length == 0) return;
    if (layer_.transform_param().resize_param_size() > 0) refuse_both("new_dim", "resize_param");
    caffe::ResizeParameter& resize = *layer_.mutable_transform_param()->add_resize_param();
    resize.set_resize_mode(caffe::ResizeParameter::FIT_SMALL_SIZE);
    resize.set_height(length);
    resize.set_width(length);
    if (cubic) resize.add_interp_mode(caffe::ResizeParameter::CUBIC);
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
