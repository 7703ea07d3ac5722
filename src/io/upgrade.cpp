#include "banyan/io/upgrade.hpp"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/base/text.hpp"

namespace banyan::io {
namespace {

using caffe::V1LayerParameter;

// Indexed by V1LayerParameter::LayerType.
constexpr const char* kCurrentTypes[] = {
    "",
    "Accuracy",
    "BNLL",
    "Concat",
    "Convolution",
    "Data",
    "Dropout",
    "EuclideanLoss",
    "Flatten",
    "HDF5Data",
    "HDF5Output",
    "Im2col",
    "ImageData",
    "InfogainLoss",
    "InnerProduct",
    "LRN",
    "MultinomialLogisticLoss",
    "Pooling",
    "ReLU",
    "Sigmoid",
    "Softmax",
    "SoftmaxWithLoss",
    "Split",
    "TanH",
    "WindowData",
    "Eltwise",
    "Power",
    "SigmoidCrossEntropyLoss",
    "HingeLoss",
    "MemoryData",
    "ArgMax",
    "Threshold",
    "DummyData",
    "Slice",
    "MVN",
    "AbsVal",
    "Silence",
    "ContrastiveLoss",
    "Exp",
    "Deconvolution",
};
static_assert(std::size(kCurrentTypes) == V1LayerParameter::DECONVOLUTION + 1);

constexpr std::pair<V1LayerParameter::LayerType, const char*> kTypesOfBranches[] = {
    {V1LayerParameter::ACCURACY_REGRESSION, "AccuracyRegression"},
    {V1LayerParameter::ADAPTIVE_BIAS_CHANNEL, "AdaptiveBiasChannel"},
    {V1LayerParameter::BATCH_NORM, "BatchNorm"},
    {V1LayerParameter::BIAS_CHANNEL, "BiasChannel"},
    {V1LayerParameter::BN, "BN"},
    {V1LayerParameter::CCCP, "CCCP"},
    {V1LayerParameter::CONVOLUTION3D, "Convolution"},
    {V1LayerParameter::CROP, "Crop"},
    {V1LayerParameter::DECONVOLUTION3D, "Deconvolution"},
    {V1LayerParameter::DENSE_CRF, "DenseCRF"},
    {V1LayerParameter::DENSE_IMAGE_DATA, "DenseImageData"},
    {V1LayerParameter::DOMAIN_TRANSFORM, "DomainTransform"},
    {V1LayerParameter::ELTWISE_ACCURACY, "EltwiseAccuracy"},
    {V1LayerParameter::EMBED, "Embed"},
    {V1LayerParameter::FILTER, "Filter"},
    {V1LayerParameter::FLOAT_DATA, "FloatData"},
    {V1LayerParameter::IMAGE_SEG_DATA, "ImageSegData"},
    {V1LayerParameter::INPUT, "Input"},
    {V1LayerParameter::INSANITY, "Insanity"},
    {V1LayerParameter::INTERP, "Interp"},
    {V1LayerParameter::K1_EUCLIDEAN_LOSS, "K1_EuclideanLoss"},
    {V1LayerParameter::K2_EUCLIDEAN_LOSS, "K2_EuclideanLoss"},
    {V1LayerParameter::LOCAL, "Local"},
    {V1LayerParameter::LOCAL_WEIGHTED_CONVOLUTION, "LocalWeightedConvolution"},
    {V1LayerParameter::LRN_MAP, "LRNMap"},
    {V1LayerParameter::LSTM, "LSTM"},
    {V1LayerParameter::LSTM_UNIT, "LSTMUnit"},
    {V1LayerParameter::MAT_READ, "MatRead"},
    {V1LayerParameter::MAT_WRITE, "MatWrite"},
    {V1LayerParameter::MULTI_STAGE_MEANFIELD, "MultiStageMeanfield"},
    {V1LayerParameter::NORM, "Norm"},
    {V1LayerParameter::NORMALIZE, "Normalize"},
    {V1LayerParameter::PADDING, "Padding"},
    {V1LayerParameter::POOLING3D, "Pooling"},
    {V1LayerParameter::PRELU, "PReLU"},
    {V1LayerParameter::PYTHON, "Python"},
    {V1LayerParameter::RANK_HARD_LOSS, "RankHardLoss"},
    {V1LayerParameter::REDUCTION, "Reduction"},
    {V1LayerParameter::RELUPLUS, "ReLU"},  // what its program for feedback switches off, training does not
    {V1LayerParameter::RESHAPE, "Reshape"},
    {V1LayerParameter::RESIZE, "Resize"},
    {V1LayerParameter::RNN, "RNN"},
    {V1LayerParameter::ROIPOOLING, "ROIPooling"},
    {V1LayerParameter::SEGACCURACY, "SegAccuracy"},
    {V1LayerParameter::SEG_ACCURACY, "SegAccuracy"},
    {V1LayerParameter::SELECT_SEG_BINARY, "SelectSegBinary"},
    {V1LayerParameter::SMOOTH_L1_LOSS, "SmoothL1Loss"},
    {V1LayerParameter::TOPK, "TopK"},
    {V1LayerParameter::TRANSFORM_SOFTMAX_LOSS, "TransformSoftmaxLoss"},
    {V1LayerParameter::TRIPLET_LOSS, "TripletLoss"},
    {V1LayerParameter::UNIQUE_LABEL, "UniqueLabel"},
    {V1LayerParameter::UNPOOLING, "Unpooling"},
    {V1LayerParameter::UPSAMPLE, "Upsample"},
    {V1LayerParameter::VIDEO_DATA, "VideoData"},
    {V1LayerParameter::VIDEO_SEGMENTATION_DATA, "VideoSegmentationData"},
    {V1LayerParameter::VIDEO_WITH_VOXEL_TRUTH_DATA, "VideoWithVoxelTruthData"},
    {V1LayerParameter::VOLUME_DATA, "VolumeData"},
    {V1LayerParameter::VOXEL_SOFTMAX, "VoxelSoftmax"},
    {V1LayerParameter::VOXEL_SOFTMAX_LOSS, "VoxelSoftmaxLoss"},
    {V1LayerParameter::WINDOW_SEG_DATA, "WindowSegData"},
    {V1LayerParameter::XCOV_LOSS, "XCovLoss"},
};

template <class DataSettings>
bool has_transform(const DataSettings& data) {
  return data.has_scale() || data.has_mean_file() || data.has_crop_size() || data.has_mirror() ||
         data.has_transform_param();
}

/// A whole transform_param in the settings of a source, of which there are few kinds.
template <class Layer>
bool has_nested_transform(const Layer& layer) {
  return layer.data_param().has_transform_param() || layer.image_data_param().has_transform_param() ||
         layer.window_data_param().has_transform_param();
}

template <class DataSettings>
void move_nested_transform(DataSettings& data, caffe::TransformationParameter& transform) {
  if (data.transform_param().mean_value_size() > 0) transform.clear_mean_value();  // in place of those
  transform.MergeFrom(data.transform_param());
  data.clear_transform_param();
}

template <class DataSettings>
void move_transform(DataSettings& data, caffe::TransformationParameter& transform) {
  move_nested_transform(data, transform);
  if (data.has_scale()) transform.set_scale(data.scale());
  if (data.has_mean_file()) transform.set_mean_file(data.mean_file());
  if (data.has_crop_size()) transform.set_crop_size(data.crop_size());
  if (data.has_mirror()) transform.set_mirror(data.mirror());
  data.clear_scale();
  data.clear_mean_file();
  data.clear_crop_size();
  data.clear_mirror();
}

/// Are the settings of its source in image_data_param?
bool has_images(V1LayerParameter::LayerType type) {
  return type == V1LayerParameter::IMAGE_DATA || type == V1LayerParameter::VIDEO_DATA ||
         type == V1LayerParameter::VIDEO_SEGMENTATION_DATA ||
         type == V1LayerParameter::VIDEO_WITH_VOXEL_TRUTH_DATA;
}

bool needs_transform(const V1LayerParameter& layer) {
  if (has_images(layer.type()))
    return has_transform(layer.image_data_param()) || layer.image_data_param().has_mean_value();
  switch (layer.type()) {
    case V1LayerParameter::DATA:
    case V1LayerParameter::FLOAT_DATA:
      return has_transform(layer.data_param());
    case V1LayerParameter::WINDOW_DATA:
      return has_transform(layer.window_data_param());
    default:
      return has_nested_transform(layer);
  }
}

/// Copies each `*_param` message of V1 to the field of the same name.
void copy_settings(const V1LayerParameter& from, caffe::LayerParameter& to) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  from.GetReflection()->ListFields(from, &fields);
  for (const auto* field : fields) {
    if (field->is_repeated() || field->message_type() == nullptr || field->name() == "layer") continue;
    const auto* target = to.GetDescriptor()->FindFieldByName(field->name());
    to.GetReflection()->MutableMessage(&to, target)->CopyFrom(from.GetReflection()->GetMessage(from, field));
  }
}

/// A branch (of S2VT) has `enable` and `disable` for include and exclude, with rules about what makes the
/// net: here it is always a solver.
void take_rules(const V1LayerParameter& from, caffe::LayerParameter& to) {
  const auto take = [](const google::protobuf::RepeatedPtrField<caffe::NetStateRule>& rules, auto& into) {
    for (const caffe::NetStateRule& rule : rules) {
      if (rule.has_solver() && !rule.solver()) continue;
      *into.Add() = rule;
      into.Mutable(into.size() - 1)->clear_solver();
    }
  };
  take(from.enable(), *to.mutable_include());
  take(from.disable(), *to.mutable_exclude());
  if (from.enable_size() > 0 && to.include_size() == 0) to.add_exclude();  // whatever the phase
}

/// The same branch's Input.
void take_lengths(caffe::InputParameter& input, int tops) {
  const int given =
      std::max({input.num_size(), input.channels_size(), input.height_size(), input.width_size()});
  for (int i = 0; i < std::min(given, tops); ++i) {
    caffe::BlobShape& shape = *input.add_shape();
    for (const auto* lengths : {&input.num(), &input.channels(), &input.height(), &input.width()})
      if (!lengths->empty()) shape.add_dim(lengths->Get(std::min(i, lengths->size() - 1)));
  }
  input.clear_num();
  input.clear_channels();
  input.clear_height();
  input.clear_width();
}

caffe::ParamSpec& spec(caffe::LayerParameter& layer, int index) {
  while (layer.param_size() <= index) layer.add_param();
  return *layer.mutable_param(index);
}

caffe::LayerParameter upgrade_layer(V1LayerParameter& from, const std::string& origin) {
  if (from.has_layer()) bad_input(origin, ": layer ", quoted(from.name()), " is in the V0 format");
  caffe::LayerParameter to;
  to.mutable_bottom()->Swap(from.mutable_bottom());
  to.mutable_top()->Swap(from.mutable_top());
  if (from.has_name()) to.set_name(from.name());
  to.mutable_include()->Swap(from.mutable_include());
  to.mutable_exclude()->Swap(from.mutable_exclude());
  if (from.has_type()) to.set_type(current_type_name(from.type()));
  to.mutable_blobs()->Swap(from.mutable_blobs());
  to.mutable_loss_weight()->Swap(from.mutable_loss_weight());
  take_rules(from, to);
  copy_settings(from, to);
  if (to.has_input_param()) take_lengths(*to.mutable_input_param(), to.top_size());
  // Those of the branch that had them found where to begin.
  if (from.type() == V1LayerParameter::CROP && !to.has_crop_param())
    to.mutable_crop_param()->set_automatic_offset(true);
  if (from.has_strict_dim()) to.set_strict_dim(from.strict_dim());
  for (int i = 0; i < from.param_size(); ++i) spec(to, i).set_name(from.param(i));
  for (int i = 0; i < from.blob_share_mode_size(); ++i) {
    // The two enums have the same names and numbers.
    spec(to, i).set_share_mode(static_cast<caffe::ParamSpec::DimCheckMode>(from.blob_share_mode(i)));
  }
  for (int i = 0; i < from.blobs_lr_size(); ++i) spec(to, i).set_lr_mult(from.blobs_lr(i));
  for (int i = 0; i < from.weight_decay_size(); ++i) spec(to, i).set_decay_mult(from.weight_decay(i));
  return to;
}

bool three_params(const caffe::LayerParameter& layer) {
  return layer.type() == "BatchNorm" && layer.param_size() == 3;
}

bool learns_statistics(const caffe::LayerParameter& layer) {
  if (!three_params(layer)) return false;
  for (const caffe::ParamSpec& param : layer.param()) {
    if (param.lr_mult() != 0 || param.decay_mult() != 0) return true;
  }
  return false;
}

/// Of a source's settings, those of transform_param that its branch reads there alone.
template <class DataSettings>
void find_idle(const char* name, const DataSettings& data, std::vector<std::string>& idle) {
  for (const auto& [field, set] : {std::pair{"scale", data.has_scale()},
                                   {"mean_file", data.has_mean_file()},
                                   {"crop_size", data.has_crop_size()},
                                   {"mirror", data.has_mirror()}})
    if (set) idle.push_back(cat(name, ".", field));
}

void warn_of_idle_settings(const caffe::NetParameter& net, const std::string& origin) {
  for (const caffe::LayerParameter& layer : net.layer()) {
    const std::string& type = layer.type();
    std::vector<std::string> idle;
    if (type == "Data" || type == "AnnotatedData") find_idle("data_param", layer.data_param(), idle);
    if (type == "ImageData") find_idle("image_data_param", layer.image_data_param(), idle);
    if (type == "WindowData") find_idle("window_data_param", layer.window_data_param(), idle);
    if (has_nested_transform(layer)) idle.emplace_back("a transform_param within its data settings");
    if (idle.empty()) continue;
    log_warning(cat(origin, ": layer \"", layer.name(), "\": ", join(idle, ", ", " and "),
                    idle.size() > 1 ? " have" : " has",
                    " no effect there: only what is in the layer's transform_param has"));
  }
}

/// Caffe takes no notice of inputs without shapes, which layers of the net may produce as well.
void drop_produced_inputs(caffe::NetParameter& net) {
  std::set<std::string> produced;
  for (const caffe::LayerParameter& layer : net.layer())
    produced.insert(layer.top().begin(), layer.top().end());
  auto& inputs = *net.mutable_input();
  inputs.erase(std::remove_if(inputs.begin(), inputs.end(),
                              [&](const auto& name) { return produced.count(name) > 0; }),
               inputs.end());
}

}  // namespace

std::string current_type_name(V1LayerParameter::LayerType type) {
  if (type >= 0 && static_cast<std::size_t>(type) < std::size(kCurrentTypes)) return kCurrentTypes[type];
  for (const auto& [branch_type, name] : kTypesOfBranches)
    if (branch_type == type) return name;
  return "";
}

std::string current_type_name(const std::string& name) {
  V1LayerParameter::LayerType type = V1LayerParameter::NONE;
  const bool old = V1LayerParameter::LayerType_Parse(name, &type) && type != V1LayerParameter::NONE;
  return old ? current_type_name(type) : name;
}

bool needs_data_transform_upgrade(const caffe::NetParameter& net) {
  for (const V1LayerParameter& layer : net.layers()) {
    if (needs_transform(layer)) return true;
  }
  return false;
}

caffe::NetParameter upgrade_data_transform(caffe::NetParameter net) {
  for (V1LayerParameter& layer : *net.mutable_layers()) {
    if (!needs_transform(layer)) continue;
    caffe::TransformationParameter& transform = *layer.mutable_transform_param();
    if (layer.type() == V1LayerParameter::DATA || layer.type() == V1LayerParameter::FLOAT_DATA)
      move_transform(*layer.mutable_data_param(), transform);
    if (has_images(layer.type())) {
      caffe::ImageDataParameter& images = *layer.mutable_image_data_param();
      move_transform(images, transform);
      if (images.has_mean_value()) transform.add_mean_value(images.mean_value());
      images.clear_mean_value();
    }
    if (layer.type() == V1LayerParameter::WINDOW_DATA) {
      move_transform(*layer.mutable_window_data_param(), transform);
    }
    // Of other sources only a whole transform_param.
    if (layer.has_data_param()) move_nested_transform(*layer.mutable_data_param(), transform);
    if (layer.has_image_data_param()) move_nested_transform(*layer.mutable_image_data_param(), transform);
    if (layer.has_window_data_param()) move_nested_transform(*layer.mutable_window_data_param(), transform);
  }
  return net;
}

bool needs_v1_upgrade(const caffe::NetParameter& net) { return net.layers_size() > 0; }

void refuse_mixed_formats(const caffe::NetParameter& net, const std::string& origin) {
  if (net.layers_size() > 0 && net.layer_size() > 0)
    bad_input(origin, ": the net mixes ", net.layers_size(), " `layers` and ", net.layer_size(),
              " `layer`; use one of the two formats");
}

caffe::NetParameter upgrade_v1(caffe::NetParameter net, const std::string& origin) {
  if (!needs_v1_upgrade(net)) return net;
  refuse_mixed_formats(net, origin);
  for (V1LayerParameter& layer : *net.mutable_layers()) *net.add_layer() = upgrade_layer(layer, origin);
  net.clear_layers();
  return net;
}

bool needs_type_name_upgrade(const caffe::NetParameter& net) {
  return std::any_of(net.layer().begin(), net.layer().end(),
                     [](const auto& layer) { return current_type_name(layer.type()) != layer.type(); });
}

caffe::NetParameter upgrade_type_names(caffe::NetParameter net) {
  for (caffe::LayerParameter& layer : *net.mutable_layer()) layer.set_type(current_type_name(layer.type()));
  return net;
}

bool needs_input_upgrade(const caffe::NetParameter& net) { return net.input_size() + net.bottom_size() > 0; }

caffe::NetParameter upgrade_inputs(caffe::NetParameter net, const std::string& origin) {
  if (!needs_input_upgrade(net)) return net;
  net.mutable_input()->MergeFrom(net.bottom());  // the name of the first months
  net.clear_bottom();
  const int inputs = net.input_size();
  const bool has_shapes = net.input_shape_size() > 0;
  if (has_shapes && net.input_shape_size() != inputs) {
    bad_input(origin, ": ", inputs, " `input` entries need as many `input_shape` entries, found ",
              net.input_shape_size());
  }
  const int axes = !has_shapes && inputs > 0 ? net.input_dim_size() / inputs : 0;
  if (!has_shapes && net.input_dim_size() > 0 &&
      (net.input_dim_size() % inputs != 0 || axes < 4 || axes > 5)) {
    bad_input(origin, ": ", inputs,
              " `input` entries need 4 `input_dim` values each (or 5, for clips), found ",
              net.input_dim_size(), " in all");
  }
  const bool sized = has_shapes || net.input_dim_size() > 0;
  if (!sized) drop_produced_inputs(net);
  if (net.input_size() > 0) {
    caffe::LayerParameter* layer = net.add_layer();
    layer->set_name("input");
    layer->set_type("Input");
    for (int i = 0; i < net.input_size(); ++i) {
      layer->add_top(net.input(i));
      if (!sized) continue;  // the program gives the shapes
      caffe::BlobShape* shape = layer->mutable_input_param()->add_shape();
      if (has_shapes) {
        *shape = net.input_shape(i);
      } else {
        for (int axis = 0; axis < axes; ++axis) shape->add_dim(net.input_dim(axes * i + axis));
      }
    }
    for (int i = net.layer_size() - 1; i > 0; --i) net.mutable_layer()->SwapElements(i, i - 1);
  }
  net.clear_input();
  net.clear_input_shape();
  net.clear_input_dim();
  return net;
}

bool needs_batch_norm_upgrade(const caffe::NetParameter& net) {
  for (const caffe::LayerParameter& layer : net.layer()) {
    if (learns_statistics(layer)) return true;
  }
  return false;
}

caffe::NetParameter upgrade_batch_norm(caffe::NetParameter net) {
  for (caffe::LayerParameter& layer : *net.mutable_layer()) {
    if (!three_params(layer)) continue;
    for (caffe::ParamSpec& param : *layer.mutable_param()) {
      param.set_lr_mult(0);
      param.set_decay_mult(0);
    }
  }
  return net;
}

void upgrade_net(caffe::NetParameter& net, const std::string& origin) {
  if (needs_v0_upgrade(net)) {
    net = upgrade_v0(std::move(net), origin);
    log_info(origin + ": upgraded from the V0 format");
  }
  if (needs_data_transform_upgrade(net)) {
    net = upgrade_data_transform(std::move(net));
    log_info(origin + ": moved transformations of data layers into transform_param");
  }
  if (needs_v1_upgrade(net)) {
    net = upgrade_v1(std::move(net), origin);
    log_info(origin + ": upgraded from the V1 format (`layers`)");
  }
  if (needs_type_name_upgrade(net)) {
    net = upgrade_type_names(std::move(net));
    log_info(origin + ": upgraded type names of the V1 format");
  }
  if (needs_message_upgrade(net)) {
    net = upgrade_messages(std::move(net), origin);
    log_info(origin + ": renamed messages of branches' layers");
  }
  if (needs_hole_upgrade(net)) {
    net = upgrade_holes(std::move(net), origin);
    log_info(origin + ": wrote the holes of convolutions as dilations");
  }
  if (needs_depth_upgrade(net)) {
    net = upgrade_depth(std::move(net), origin);
    log_info(origin + ": wrote the windows of 3-D layers as lists");
  }
  if (needs_branch_type_upgrade(net)) {
    net = upgrade_branch_types(std::move(net), origin);
    log_info(origin + ": wrote types of branches as those that compute the same here");
  }
  if (needs_scale_filler_upgrade(net)) {
    net = upgrade_scale_fillers(std::move(net));
    log_info(origin +
             ": gave Scale layers the fillers of the BatchNorm layers before them, as in Intel's Caffe");
  }
  if (needs_dialect_upgrade(net)) {
    net = upgrade_dialects(std::move(net), origin);
    log_info(origin + ": wrote layers of branches as those that they stand for");
  }
  if (needs_param_bottoms_upgrade(net)) {
    net = upgrade_param_bottoms(std::move(net), origin);
    log_info(origin + ": made parameters of the bottoms that hold them");
  }
  if (needs_frcnn_upgrade(net)) {
    net = upgrade_frcnn(std::move(net), origin);
    log_info(origin + ": wrote the settings of a Faster R-CNN in C++ into its layers");
  }
  if (needs_trt_upgrade(net)) net = upgrade_trt(net, origin);
  refuse_fusions(net, origin);
  if (needs_fused_relu_upgrade(net)) {
    net = upgrade_fused_relu(std::move(net));
    log_info(origin + ": made layers of fused ReLUs");
  }
  if (needs_bn_stats_upgrade(net)) {
    net = upgrade_bn_stats(std::move(net));
    log_info(origin + ": wrote the net's bn_stats_batch_size into its BatchNorm layers");
  }
  if (needs_input_upgrade(net)) {
    net = upgrade_inputs(std::move(net), origin);
    log_info(origin + ": upgraded `input` fields to an Input layer");
  }
  if (needs_batch_norm_upgrade(net)) {
    net = upgrade_batch_norm(std::move(net));
    log_info(origin + ": set lr_mult and decay_mult of BatchNorm statistics to 0");
  }
  warn_of_idle_settings(net, origin);
}

void upgrade_solver(caffe::SolverParameter& solver, const std::string& origin) {
  if (!solver.has_solver_type()) return;
  if (solver.has_type()) {
    bad_input(origin, ": give `type` or `solver_type`, not both (found type: ", quoted(solver.type()),
              " and solver_type: ", caffe::SolverParameter::SolverType_Name(solver.solver_type()), ")");
  }
  const char* type = "SGD";
  switch (solver.solver_type()) {
    case caffe::SolverParameter::SGD:
      type = "SGD";
      break;
    case caffe::SolverParameter::NESTEROV:
      type = "Nesterov";
      break;
    case caffe::SolverParameter::ADAGRAD:
      type = "AdaGrad";
      break;
    case caffe::SolverParameter::RMSPROP:
      type = "RMSProp";
      break;
    case caffe::SolverParameter::ADADELTA:
      type = "AdaDelta";
      break;
    case caffe::SolverParameter::ADAM:
      type = "Adam";
      break;
    case caffe::SolverParameter::SAG:
      type = "SAG";
      break;
  }
  solver.set_type(type);
  solver.clear_solver_type();
  log_info(cat(origin, ": upgraded solver_type to type: \"", type, "\""));
}

}  // namespace banyan::io
