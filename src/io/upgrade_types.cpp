// Types of branches that compute what a layer here computes.
#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "banyan/base/contains.hpp"
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

/// NormFace's first Normalize, with the settings of later ones.
void become_later_normalize(caffe::LayerParameter& layer) {
  layer.mutable_normalize_param()->set_normalize_type(layer.softmax_param().normalize_type());
  layer.mutable_softmax_param()->clear_normalize_type();
  if (layer.softmax_param().ByteSizeLong() == 0) layer.clear_softmax_param();
}

void become_crop(caffe::LayerParameter& layer) {
  layer.mutable_crop_param()->set_automatic_offset(true);
  layer.set_type("Crop");
}

/// Everything below and to the right of the second input's size is cut off.
void become_corner_crop(caffe::LayerParameter& layer) {
  caffe::CropParameter& s = *layer.mutable_crop_param();
  if (s.has_blob_name()) layer.add_bottom(s.blob_name());
  s.clear_blob_name();
  layer.set_type("Crop");
}

/// caffe-jacinto's: its other layer with these settings reads databases.
void become_image_label_data(caffe::LayerParameter& layer) {
  layer.mutable_image_label_data_param()->clear_backend();
  layer.set_type("ImageLabelData");
}

/// CaffeOnSpark refuses it, too.
void refuse_spark_data(const caffe::LayerParameter& layer, const std::string& origin) {
  const caffe::CoSDataParameter& s = layer.cos_data_param();
  const auto refuse = [&](const auto&... what) {
    bad_input(origin, ": layer ", quoted(layer.name()), " (CoSData): ", what...);
  };
  if (s.batch_size() == 0) refuse("cos_data_param.batch_size must be given and positive");
  if (s.top_size() != layer.top_size())
    refuse("cos_data_param describes ", s.top_size(), " `top` and the layer has ", layer.top_size());
  for (const caffe::CoSDataParameter::Top& top : s.top()) {
    if (top.sample_num_axes() > 3) refuse("sample_num_axes must be at most 3; found ", top.sample_num_axes());
    if (top.transpose() && top.sample_num_axes() != 1)
      refuse("transpose needs sample_num_axes: 1; found ", top.sample_num_axes());
  }
}

/// CaffeOnSpark's, whose program fills the blobs.
void become_input(caffe::LayerParameter& layer) {
  const caffe::CoSDataParameter from = layer.cos_data_param();
  for (const caffe::CoSDataParameter::Top& top : from.top()) {
    caffe::BlobShape& shape = *layer.mutable_input_param()->add_shape();
    const auto length = [](std::uint32_t before, std::uint32_t after) { return after > 0 ? after : before; };
    const std::uint32_t lengths[] = {length(top.channels(), top.out_channels()),
                                     length(top.height(), top.out_height()),
                                     length(top.width(), top.out_width())};
    const std::uint32_t axes = top.sample_num_axes();
    shape.add_dim(from.batch_size());
    for (std::uint32_t axis = 0; axis < axes; ++axis) shape.add_dim(lengths[axis]);
    if (top.transpose()) shape.mutable_dim()->SwapElements(0, 1);
  }
  layer.clear_cos_data_param();
  layer.set_type("Input");
}

void become_dummy_data(caffe::LayerParameter& layer) {
  const caffe::RandVecParameter from = layer.randvec_param();
  caffe::DummyDataParameter& to = *layer.mutable_dummy_data_param();
  caffe::BlobShape& shape = *to.add_shape();
  shape.add_dim(from.batch_size());
  shape.add_dim(from.dim());
  if (from.height() > 0 || from.width() > 0) {
    shape.add_dim(std::max(1u, from.height()));
    shape.add_dim(std::max(1u, from.width()));
  }
  caffe::FillerParameter& filler = *to.add_data_filler();
  filler.set_type("uniform");
  filler.set_min(from.lower());
  filler.set_max(from.upper());
  layer.clear_randvec_param();
  layer.set_type("DummyData");
}

/// What its readers would have got stays unread, instead of becoming an output of the net.
void become_silence(caffe::LayerParameter& layer) {
  layer.clear_mat_write_param();
  layer.set_type("Silence");
}

/// Hidden Two-Stream's, whose videos are TSN's. Its other settings have no effect there either.
void become_video_data(caffe::LayerParameter& layer) {
  caffe::VideoDataParameter& videos = *layer.mutable_video_data_param();
  if (layer.has_multi_frame_data_param()) videos.Swap(layer.mutable_multi_frame_data_param());
  layer.clear_multi_frame_data_param();
  videos.set_modality(caffe::VideoDataParameter::RGB);
  videos.clear_scale();
  videos.clear_mean_file();
  videos.clear_crop_size();
  videos.clear_mirror();
  videos.clear_rand_skip();
  if (layer.has_transform_param()) layer.mutable_transform_param()->clear_is_flow();
  layer.set_type("VideoData");
}

/// Of 2014, before LRN had regions.
void become_lrn(caffe::LayerParameter& layer) {
  layer.mutable_lrn_param()->set_norm_region(caffe::LRNParameter::WITHIN_CHANNEL);
  layer.set_type("LRN");
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
/// That of DSS has `normalize`, and else BVLC's losses and Crop.
void become_image_seg_data(caffe::LayerParameter& layer) {
  caffe::ImageDataParameter& images = *layer.mutable_image_data_param();
  images.set_label_type(caffe::ImageDataParameter::PIXEL);
  const bool stored = images.has_normalize() && !images.normalize();
  if (!images.has_label_values())
    images.set_label_values(stored ? caffe::ImageDataParameter::STORED : caffe::ImageDataParameter::EDGES);
  images.clear_normalize();
  layer.set_type("ImageSegData");
}

/// DeepSkeleton's Caffe has HED's data layer, but its labels are scales, of which other layers make classes.
bool reads_scales(const caffe::NetParameter& net, const caffe::LayerParameter& data) {
  const auto reads = [&](const caffe::LayerParameter& layer) {
    return (layer.type() == "Quantize" || layer.type() == "Rescale") && data.top_size() > 1 &&
           std::find(layer.bottom().begin(), layer.bottom().end(), data.top(1)) != layer.bottom().end();
  };
  return std::any_of(net.layer().begin(), net.layer().end(), reads);
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

/// RstarCNN's. With one input it is another branch's, of the values along an axis.
bool is_sum_of_blobs(const caffe::LayerParameter& layer) {
  return layer.type() == "Sum" && layer.bottom_size() > 1;
}

/// HED's loss under a name of its own (OSVOS).
void become_balanced_loss(caffe::LayerParameter& layer) {
  if (!layer.loss_param().has_class_balance()) layer.mutable_loss_param()->set_class_balance(1);
  layer.set_type("SigmoidCrossEntropyLoss");
}

/// How many words the first line of a list has after its path; 0: it cannot be read.
std::uint32_t labels_of_list(const std::string& path) {
  std::ifstream list(path);
  std::string line, word;
  std::uint32_t words = 0;
  if (!std::getline(list, line)) return 0;
  for (std::istringstream from(line); from >> word;) ++words;
  return words > 0 ? words - 1 : 0;
}

/// Their label_num is ImageData's label_dim.
caffe::ImageDataParameter& read_label_num(caffe::LayerParameter& layer) {
  caffe::ImageDataParameter& images = *layer.mutable_image_data_param();
  if (images.has_label_num()) images.set_label_dim(images.label_num());
  images.clear_label_num();
  layer.set_type("ImageData");
  return images;
}

/// DHN's labels are 0 or 1 for each class.
void become_labelled_images(caffe::LayerParameter& layer) {
  if (layer.has_multi_label_data_param())
    layer.mutable_image_data_param()->Swap(layer.mutable_multi_label_data_param());
  layer.clear_multi_label_data_param();
  read_label_num(layer);
}

/// DeepLab's, before it had label_type.
void type_labels(caffe::LayerParameter& layer) {
  caffe::ImageDataParameter& images = *layer.mutable_image_data_param();
  if (!images.has_label_type())
    images.set_label_type(images.has_label() ? caffe::ImageDataParameter::PIXEL
                                             : caffe::ImageDataParameter::NONE);
  images.clear_has_label();
}

/// PG-CNN's, with a message of its own, and caffe-windows', which has as many labels as the list's first
/// line.
void become_image_data(caffe::LayerParameter& layer) {
  if (layer.has_multi_label_image_data_param())
    layer.mutable_image_data_param()->Swap(layer.mutable_multi_label_image_data_param());
  layer.clear_multi_label_image_data_param();
  caffe::ImageDataParameter& images = read_label_num(layer);
  if (!images.has_label_dim() && !images.has_label_size())
    if (const std::uint32_t labels = labels_of_list(images.source()); labels > 0)
      images.set_label_dim(labels);
}

/// Network in Network's: num_output is that of each group; there are no windows.
void become_pointwise(caffe::LayerParameter& layer) {
  if (layer.has_cccp_param()) layer.mutable_convolution_param()->Swap(layer.mutable_cccp_param());
  layer.clear_cccp_param();
  caffe::ConvolutionParameter& settings = *layer.mutable_convolution_param();
  caffe::ConvolutionParameter pointwise;
  pointwise.set_num_output(settings.num_output() * std::max(1u, settings.group()));
  if (settings.has_group()) pointwise.set_group(settings.group());
  if (settings.has_bias_term()) pointwise.set_bias_term(settings.bias_term());
  if (settings.has_weight_filler()) *pointwise.mutable_weight_filler() = settings.weight_filler();
  if (settings.has_bias_filler()) *pointwise.mutable_bias_filler() = settings.bias_filler();
  pointwise.add_kernel_size(1);
  settings.Swap(&pointwise);
  layer.set_type("Convolution");
}

/// DeconvNet's counts single positions as Accuracy does.
void become_accuracy(caffe::LayerParameter& layer) {
  if (layer.has_eltwise_accuracy_param())
    layer.mutable_accuracy_param()->Swap(layer.mutable_eltwise_accuracy_param());
  layer.clear_eltwise_accuracy_param();
  layer.set_type("Accuracy");
}

bool is_of_yolo(const caffe::LayerParameter& layer) {
  return layer.type() == "DetectionOutput" && layer.detection_output_param().biases_size() > 0;
}

void become_yolo_output(caffe::LayerParameter& layer) {
  const caffe::DetectionOutputParameter from = layer.detection_output_param();
  caffe::YoloDetectionOutputParameter& to = *layer.mutable_yolo_detection_output_param();
  to.set_num_classes(from.num_classes());
  if (from.has_num_box()) to.set_num_box(from.num_box());
  if (from.has_coords()) to.set_coords(from.coords());
  if (from.has_confidence_threshold()) to.set_confidence_threshold(from.confidence_threshold());
  if (from.has_nms_threshold()) to.set_nms_threshold(from.nms_threshold());
  *to.mutable_biases() = from.biases();
  layer.clear_detection_output_param();
  layer.set_type("YoloDetectionOutput");
}

/// The branch of such a DetectionOutput counts classes from 0; here 0 is the background.
void follow_yolo(caffe::NetParameter& net) {
  std::map<std::string, std::uint32_t> classes;  // by blob
  for (caffe::LayerParameter& layer : *net.mutable_layer()) {
    if (is_of_yolo(layer) && layer.top_size() > 0)
      classes[layer.top(0)] = layer.detection_output_param().num_classes();
    if (layer.type() != "DetectionEvaluate" || layer.bottom_size() == 0) continue;
    const auto found = classes.find(layer.bottom(0));
    if (found == classes.end() || found->second != layer.detection_evaluate_param().num_classes()) continue;
    layer.mutable_detection_evaluate_param()->set_num_classes(found->second + 1);
  }
}

/// SSD's first DetectionEvaluate had no num_classes: that of the detections.
bool lacks_classes(const caffe::LayerParameter& layer) {
  return layer.type() == "DetectionEvaluate" && !layer.detection_evaluate_param().has_num_classes() &&
         layer.bottom_size() > 0;
}

void count_classes(caffe::NetParameter& net) {
  std::map<std::string, std::uint32_t> classes;  // by blob
  for (caffe::LayerParameter& layer : *net.mutable_layer()) {
    if (layer.type() == "DetectionOutput" && layer.top_size() > 0)
      classes[layer.top(0)] = layer.detection_output_param().num_classes();
    if (!lacks_classes(layer)) continue;
    if (const auto found = classes.find(layer.bottom(0)); found != classes.end())
      layer.mutable_detection_evaluate_param()->set_num_classes(found->second);
  }
}

/// YOLO's: records of the other kind that AnnotatedData reads.
void become_annotated_data(caffe::LayerParameter& layer) {
  layer.mutable_data_param()->clear_side();
  layer.set_type("AnnotatedData");
}

bool is_single_eltwise(const caffe::LayerParameter& layer) {
  const caffe::EltwiseParameter& s = layer.eltwise_param();
  return layer.type() == "Eltwise" && layer.bottom_size() == 1 && !s.relu() &&
         s.coeff_size() <= (s.operation() == caffe::EltwiseParameter::SUM ? 1 : 0);
}

/// Of Caffe-DeepBinaryCode, which reads one blob twice.
bool reads_codes_twice(const caffe::LayerParameter& layer) {
  return (layer.type() == "K1_EuclideanLoss" || layer.type() == "K2_EuclideanLoss") &&
         layer.bottom_size() == 2 && layer.bottom(0) == layer.bottom(1);
}

void read_codes_once(caffe::LayerParameter& layer) {
  layer.mutable_bottom()->RemoveLast();
  if (layer.propagate_down_size() != 2) return;
  layer.set_propagate_down(0, layer.propagate_down(0) || layer.propagate_down(1));
  layer.mutable_propagate_down()->RemoveLast();
}

/// In several branches a third input of the loss weighs samples or positions.
bool has_weights(const caffe::LayerParameter& layer) {
  return layer.type() == "SoftmaxWithLoss" && layer.bottom_size() == 3;
}

void become_weighted_loss(caffe::LayerParameter& layer) { layer.set_type("WeightedSoftmaxWithLoss"); }

/// In MS-CNN and Cascade R-CNN the regions of a batch are drawn together.
bool draws_of_batch(const caffe::LayerParameter& layer) {
  return layer.type() == "ProposalTarget" && layer.proposal_target_param().has_cls_num();
}

/// DocData of its first months: one database, as Data reads it, and perhaps the kind of layout.
bool reads_one_database(const caffe::LayerParameter& layer) {
  return layer.type() == "DocData" && layer.has_data_param() && !layer.has_doc_data_param();
}

/// What they do not have.
bool has_more_than_documents(caffe::DataParameter data) {
  data.clear_source();
  data.clear_batch_size();
  data.clear_rand_skip();
  data.clear_backend();
  data.clear_threads();
  return data.ByteSizeLong() > 0;
}

void become_documents(caffe::LayerParameter& layer) {
  const caffe::DataParameter& data = layer.data_param();
  caffe::DocDataParameter& documents = *layer.mutable_doc_data_param();
  if (data.has_source()) documents.add_sources(data.source());
  if (data.has_batch_size()) documents.set_batch_size(data.batch_size());
  if (data.has_rand_skip()) documents.set_rand_skip(data.rand_skip());
  if (data.has_backend()) documents.set_backend(data.backend());
  if (data.has_threads()) documents.set_threads(data.threads());
  if (layer.top_size() > 1) documents.add_label_names("layout_type");
  layer.clear_data_param();
}

/// Early nets of SSD: prior boxes, locations, confidences, ground truth.
bool reads_priors_first(const caffe::NetParameter& net, const caffe::LayerParameter& layer) {
  if (layer.type() != "MultiBoxLoss" || layer.bottom_size() < 4) return false;
  const auto maker = [&](const std::string& blob) {
    return std::find_if(net.layer().begin(), net.layer().end(), [&](const caffe::LayerParameter& other) {
      return std::find(other.top().begin(), other.top().end(), blob) != other.top().end();
    });
  };
  const auto is_priors = [&](const std::string& blob) {
    const auto found = maker(blob);
    return found != net.layer().end() && found->type() == "PriorBox";
  };
  const auto first = maker(layer.bottom(0));
  return is_priors(layer.bottom(0)) ||
         (first != net.layer().end() && first->type() == "Concat" &&
          std::all_of(first->bottom().begin(), first->bottom().end(), is_priors));
}

void read_priors_third(caffe::LayerParameter& layer) {
  std::rotate(layer.mutable_bottom()->begin(), layer.mutable_bottom()->begin() + 1,
              layer.mutable_bottom()->begin() + 3);
  auto& learns = *layer.mutable_propagate_down();
  if (learns.size() >= 3) std::rotate(learns.begin(), learns.begin() + 1, learns.begin() + 3);
}

/// Of a type that has another name here; nullptr: of any other.
const char* name_here(const std::string& type) {
  static const std::map<std::string, const char*> kNames{{"BNHK", "BN"},
                                                         {"ConvolutionData", "Convolution"},
                                                         {"CuDNNConvolution", "Convolution"},
                                                         {"CuDNNDeconvolution", "Deconvolution"},
                                                         {"FloatData", "Data"},
                                                         {"HoleConvolution", "Convolution"},
                                                         {"InnerProductAll", "InnerProduct"},
                                                         {"PriorBoxClustered", "PriorBox"},
                                                         {"ReLURecover", "ReLU"},
                                                         {"SVRLoss", "L1Loss"},
                                                         {"VoxelSoftmax", "Softmax"},
                                                         {"VoxelSoftmaxLoss", "SoftmaxWithLoss"}};
  const auto found = kNames.find(type);
  return found == kNames.end() ? nullptr : found->second;
}

void take_name_here(caffe::LayerParameter& layer) { layer.set_type(name_here(layer.type())); }

/// The third output of scnn's lists of clips.
bool is_overlap(const caffe::NetParameter& net, const std::string& blob) {
  return std::any_of(net.layer().begin(), net.layer().end(), [&](const caffe::LayerParameter& layer) {
    return layer.type() == "VideoData" && layer.top_size() == 3 && layer.top(2) == blob;
  });
}

using Become = void (*)(caffe::LayerParameter&);

Become other_form(const caffe::LayerParameter& layer) {
  const std::string& type = layer.type();
  if (type == "ReLU6" && layer.relu_param().negative_slope() == 0) return become_clip;
  if (type == "Norm" || type == "L2Normalize" || type == "L2Normalization" || type == "Normalization")
    return become_normalize;
  if (type == "Normalize" && layer.softmax_param().has_normalize_type() && !layer.has_normalize_param() &&
      !layer.has_norm_param())
    return become_later_normalize;
  if (type == "AutoCrop") return become_crop;
  if (type == "SimpleCrop") return become_corner_crop;
  if (type == "RandVec") return become_dummy_data;
  if (type == "CoSData") return become_input;
  if (type == "ImageLabelListData") return become_image_label_data;
  if (type == "MatWrite") return become_silence;
  if (type == "ImageLabelmapData") return become_image_seg_data;
  if (type == "CCCP") return become_pointwise;
  if (name_here(type) != nullptr) return take_name_here;
  if (type == "EltwiseAccuracy") return become_accuracy;
  if (type == "LRNMap") return become_lrn;
  if (type == "MultiFrameData") return become_video_data;
  if (type == "SigmoidCrossEntropyBalanceLoss") return become_balanced_loss;
  if (type == "MultiLabelData") return become_labelled_images;
  if (type == "MultiLabelImageData") return become_image_data;
  if (type == "ImageSegData" && layer.image_data_param().has_has_label()) return type_labels;
  if (type == "BoxData") return become_annotated_data;
  if (is_of_yolo(layer)) return become_yolo_output;
  if (is_single_eltwise(layer)) return become_power;
  if (is_sum_of_blobs(layer)) return [](caffe::LayerParameter& l) { l.set_type("Eltwise"); };
  if (has_weights(layer)) return become_weighted_loss;
  // RON's, whose third output R-FCN's loss has, too.
  if (type == "SoftmaxWithLoss" && layer.top_size() == 3)
    return [](caffe::LayerParameter& l) { l.set_type("SoftmaxWithLossOHEM"); };
  if (reads_codes_twice(layer)) return read_codes_once;
  if (reads_one_database(layer)) return become_documents;
  if (draws_of_batch(layer)) return [](caffe::LayerParameter& l) { l.set_type("BatchProposalTarget"); };
  return nullptr;
}

/// The Scale layer that follows a BatchNorm with a filler, and has none: Intel's engines take both for one
/// layer, whose factors start from that filler. -1: there is none.
int scale_to_fill(const caffe::NetParameter& net, int norm) {
  const caffe::LayerParameter& layer = net.layer(norm);
  const caffe::BatchNormParameter& s = layer.batch_norm_param();
  if (layer.type() != "BatchNorm" || !s.has_filler() || s.has_engine() || !s.use_weight_bias() ||
      s.scale_bias() || s.has_scale_filler() || s.has_bias_filler() || layer.top_size() == 0)
    return -1;
  for (int i = norm + 1; i < net.layer_size(); ++i) {
    const caffe::LayerParameter& next = net.layer(i);
    if (next.type() == "BatchNorm" && next.name() == layer.name()) continue;  // of another phase
    const bool reads = contains(next.bottom(), layer.top(0));
    if (next.type() == "Scale" && next.bottom_size() == 1 && reads)
      return next.scale_param().has_filler() ? -1 : i;
    if (reads || contains(next.top(), layer.top(0))) break;
  }
  return -1;
}

}  // namespace

bool needs_scale_filler_upgrade(const caffe::NetParameter& net) {
  for (int i = 0; i < net.layer_size(); ++i)
    if (scale_to_fill(net, i) >= 0) return true;
  return false;
}

caffe::NetParameter upgrade_scale_fillers(caffe::NetParameter net) {
  std::map<int, int> scales;  // by the layer before
  for (int i = 0; i < net.layer_size(); ++i)
    if (const int scale = scale_to_fill(net, i); scale >= 0) scales[i] = scale;
  for (const auto& [norm, scale] : scales) {
    caffe::BatchNormParameter& settings = *net.mutable_layer(norm)->mutable_batch_norm_param();
    *net.mutable_layer(scale)->mutable_scale_param()->mutable_filler() = settings.filler();
    settings.clear_filler();
  }
  return net;
}

bool needs_branch_type_upgrade(const caffe::NetParameter& net) {
  return std::any_of(net.layer().begin(), net.layer().end(), [&](const caffe::LayerParameter& layer) {
    return other_form(layer) != nullptr || lacks_classes(layer) || reads_priors_first(net, layer);
  });
}

caffe::NetParameter upgrade_branch_types(caffe::NetParameter net, const std::string& origin) {
  const auto warn = [&](const caffe::LayerParameter& layer, const auto&... what) {
    log_warning(cat(origin, ": layer ", quoted(layer.name()), " (", layer.type(), ")", what...));
  };
  const auto refuse_both = [&](const caffe::LayerParameter& layer, const char* theirs, const char* ours) {
    bad_input(origin, ": layer ", quoted(layer.name()), " (", layer.type(), ") has ", theirs, " and ", ours,
              "; give one of the two");
  };
  count_classes(net);
  follow_yolo(net);
  bool edges = false;
  const caffe::LayerParameter* single = nullptr;
  for (caffe::LayerParameter& layer : *net.mutable_layer()) {
    if (reads_priors_first(net, layer)) read_priors_third(layer);
    const Become become = other_form(layer);
    if (become == nullptr) continue;
    if (become == become_weighted_loss && is_overlap(net, layer.bottom(2))) {
      layer.set_type("OverlapSoftmaxWithLoss");
      continue;
    }
    if (become == become_documents && has_more_than_documents(layer.data_param()))
      warn(layer,
           ": of data_param only source, batch_size, rand_skip, backend and threads have an effect; "
           "image_transform_param says what becomes of an image");
    if (become == become_input) {
      refuse_spark_data(layer, origin);
      warn(layer,
           " (CaffeOnSpark) is read as Input, whose blobs a program fills (Session::set_input): Banyan reads "
           "nothing from Spark");
    }
    if (become == become_silence)
      warn(layer, ": Banyan writes no files of MATLAB; what it reads is not written");
    const bool of_hed = become == become_image_seg_data && !layer.image_data_param().has_normalize();
    if (of_hed && !layer.image_data_param().has_label_values() && reads_scales(net, layer)) {
      layer.mutable_image_data_param()->set_label_values(caffe::ImageDataParameter::STORED);
      warn(layer,
           ": as in DeepSkeleton, labels are scales, and stay as they are stored, and a Crop without "
           "crop_param finds where it begins; its SoftmaxWithLoss, which weighs, and takes labels beyond its "
           "classes for 0, is BVLC's here");
    }
    if (of_hed && !layer.image_data_param().has_label_values())
      warn(layer,
           ": as in HED's Caffe, labels are 1 from 128 on, else 0, losses weigh edges and others, and a Crop "
           "without crop_param "
           "finds where it begins; for RCF's, write image_data_param { label_values: SOFT_EDGES }, and "
           "loss_param { "
           "class_balance: 1.1 } in the losses");
    if (become == become_annotated_data)
      warn(layer,
           ": read as AnnotatedData, whose labels are rows of 8 with classes from 1. In training, YOLO's "
           "branch cuts parts of 71 to 100 % out of the images; here annotated_data_param.batch_sampler and "
           "transform_param.resize_param do so if they are given");
    if (become == become_image_data && layer.has_multi_label_image_data_param() &&
        layer.has_image_data_param())
      refuse_both(layer, "multi_label_image_data_param", "image_data_param");
    if (become == become_labelled_images && layer.has_multi_label_data_param() &&
        layer.has_image_data_param())
      refuse_both(layer, "multi_label_data_param", "image_data_param");
    if (become == become_video_data && layer.has_multi_frame_data_param() && layer.has_video_data_param())
      refuse_both(layer, "multi_frame_data_param", "video_data_param");
    const bool second_learns = layer.propagate_down_size() < 2 || layer.propagate_down(1);
    if (become == read_codes_once && second_learns)
      warn(
          layer, ": both inputs are ", quoted(layer.bottom(0)),
          ", which gets the gradient of the first one (in the branch that of the second, its opposite, too)");
    if (become == become_weighted_loss)
      warn(layer, ": ", quoted(layer.bottom(2)),
           " is read as weights of samples or positions (WeightedSoftmaxWithLoss), which do not change the "
           "divisor; in some branches they do, and scnn's are overlaps (OverlapSoftmaxWithLoss)");
    if (become == become_power && std::exchange(single, &layer) == nullptr)
      warn(layer, " has one input, as in FlowNet; it and others like it are read as Power");
    edges = edges || of_hed;
    become(layer);
    const caffe::ImageDataParameter& images = layer.image_data_param();
    if (become == become_image_data && !images.has_label_dim() && !images.has_label_size())
      warn(layer, ": its list, ", quoted(images.source()),
           ", cannot be read and label_dim is missing: one label of each image");
  }
  if (edges) follow_edges(net);
  return net;
}

}  // namespace banyan::io
