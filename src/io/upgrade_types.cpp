// Types of branches that compute what a layer here computes.
#include <algorithm>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/upgrade.hpp"

namespace banyan::io {
namespace {

void become_clip(caffe::LayerParameter& layer) {
  layer.mutable_clip_param()->set_min(0);
  layer.mutable_clip_param()->set_max(6);
  layer.clear_relu_param();
  layer.set_type("Clip");
}

/// The two divide by the length over all of a sample, or over the channels of each pixel.
void become_normalize(caffe::LayerParameter& layer) {
  if (layer.type() == "Norm") layer.mutable_normalize_param();
  layer.set_type("Normalize");
}

void become_crop(caffe::LayerParameter& layer) {
  layer.mutable_crop_param()->set_automatic_offset(true);
  layer.set_type("Crop");
}

/// What its readers would have got stays unread, instead of becoming an output of the net.
void become_silence(caffe::LayerParameter& layer) {
  layer.clear_mat_write_param();
  layer.set_type("Silence");
}

/// A sum of one input is a multiple of it.
void become_power(caffe::LayerParameter& layer) {
  const caffe::EltwiseParameter& s = layer.eltwise_param();
  const bool sum = s.operation() == caffe::EltwiseParameter::SUM && s.coeff_size() > 0;
  layer.mutable_power_param()->set_scale(sum ? s.coeff(0) : 1);
  layer.clear_eltwise_param();
  layer.set_type("Power");
}

/// HED's lists of images and edges. In its Caffe, which RCF's nets use too, losses weigh the few edges more.
void become_image_seg_data(caffe::LayerParameter& layer) {
  caffe::ImageDataParameter& images = *layer.mutable_image_data_param();
  images.set_label_type(caffe::ImageDataParameter::PIXEL);
  if (!images.has_label_values()) images.set_label_values(caffe::ImageDataParameter::EDGES);
  layer.set_type("ImageSegData");
}

/// That Caffe has one SigmoidCrossEntropyLoss, which weighs, and a Crop that finds where it begins.
void follow_edges(caffe::NetParameter& net) {
  for (caffe::LayerParameter& layer : *net.mutable_layer()) {
    if (layer.type() == "SigmoidCrossEntropyLoss" && layer.bottom_size() == 2 &&
        !layer.loss_param().has_class_balance())
      layer.mutable_loss_param()->set_class_balance(1);
    if (layer.type() == "Crop" && !layer.has_crop_param())
      layer.mutable_crop_param()->set_automatic_offset(true);
  }
}

bool is_single_eltwise(const caffe::LayerParameter& layer) {
  const caffe::EltwiseParameter& s = layer.eltwise_param();
  return layer.type() == "Eltwise" && layer.bottom_size() == 1 && !s.relu() &&
         s.coeff_size() <= (s.operation() == caffe::EltwiseParameter::SUM ? 1 : 0);
}

using Become = void (*)(caffe::LayerParameter&);

Become other_form(const caffe::LayerParameter& layer) {
  const std::string& type = layer.type();
  if (type == "ReLU6" && layer.relu_param().negative_slope() == 0) return become_clip;
  if (type == "Norm" || type == "L2Normalize") return become_normalize;
  if (type == "AutoCrop") return become_crop;
  if (type == "MatWrite") return become_silence;
  if (type == "ImageLabelmapData") return become_image_seg_data;
  if (type == "CuDNNConvolution") return [](caffe::LayerParameter& l) { l.set_type("Convolution"); };
  if (type == "CuDNNDeconvolution") return [](caffe::LayerParameter& l) { l.set_type("Deconvolution"); };
  if (is_single_eltwise(layer)) return become_power;
  return nullptr;
}

}  // namespace

bool needs_branch_type_upgrade(const caffe::NetParameter& net) {
  return std::any_of(net.layer().begin(), net.layer().end(), other_form);
}

caffe::NetParameter upgrade_branch_types(caffe::NetParameter net, const std::string& origin) {
  const auto warn = [&](const caffe::LayerParameter& layer, const auto&... what) {
    log_warning(cat(origin, ": layer ", quoted(layer.name()), " (", layer.type(), ")", what...));
  };
  bool edges = false;
  const caffe::LayerParameter* single = nullptr;
  for (caffe::LayerParameter& layer : *net.mutable_layer()) {
    const Become become = other_form(layer);
    if (become == nullptr) continue;
    if (become == become_silence)
      warn(layer, ": Banyan writes no files of MATLAB; what it reads is not written");
    if (become == become_image_seg_data && !layer.image_data_param().has_label_values())
      warn(layer,
           ": as in HED's Caffe, labels are 1 from 128 on, else 0, losses weigh edges and others, and a Crop "
           "without crop_param "
           "finds where it begins; for RCF's, write image_data_param { label_values: SOFT_EDGES }, and "
           "loss_param { "
           "class_balance: 1.1 } in the losses");
    if (become == become_power && std::exchange(single, &layer) == nullptr)
      warn(layer, " has one input, as in FlowNet; it and others like it are read as Power");
    edges = edges || become == become_image_seg_data;
    become(layer);
  }
  if (edges) follow_edges(net);
  return net;
}

}  // namespace banyan::io
