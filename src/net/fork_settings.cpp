#include "banyan/net/fork_settings.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/crop_offset.hpp"
#include "banyan/layers/batch_norm.hpp"

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

/// Intel's settings of slopes and biases in a layer that learns none.
bool has_idle_slopes(const caffe::LayerParameter& layer) {
  const caffe::BatchNormParameter& s = layer.batch_norm_param();
  if (layer.type() != "BatchNorm" || !s.use_weight_bias()) return false;
  return !learns_slopes(s) && (s.has_filler() || s.has_use_weight_bias() || s.has_bias_term());
}

/// Slopes and biases in a layer of their own, as BVLC's users write them.
bool has_scale_after(const caffe::NetParameter& net, const caffe::LayerParameter& norm) {
  return std::any_of(net.layer().begin(), net.layer().end(), [&](const caffe::LayerParameter& layer) {
    return layer.type() == "Scale" && layer.bottom_size() == 1 && norm.top_size() > 0 &&
           layer.bottom(0) == norm.top(0);
  });
}

bool has_idle_coefficients(const caffe::LayerParameter& layer) {
  return layer.type() == "Eltwise" && layer.eltwise_param().operation() == caffe::EltwiseParameter::MAX &&
         layer.eltwise_param().coeff_size() > 0;
}

bool has_idle_class_weights(const caffe::LayerParameter& layer) {
  const caffe::LossParameter& s = layer.loss_param();
  return layer.type() == "SoftmaxWithLoss" && s.class_weighting_size() > 0 && !s.weight_by_label_freqs();
}

/// Fields that choose an implementation of a branch (SkimCaffe, fpga_caffe, GLP4NN and others), or what it
/// writes to files.
std::vector<std::string> implementation_fields(const caffe::LayerParameter& layer) {
  std::vector<std::string> found;
  const auto look = [&](const google::protobuf::Message& message, std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (message.GetReflection()->HasField(message, message.GetDescriptor()->FindFieldByName(name)))
        found.emplace_back(name);
  };
  look(layer, {"ocl_enable"});
  look(layer.convolution_param(),
       {"conv_mode", "subengine", "mem_group_size", "parallel_degree", "dump_parameter", "dump_activation"});
  look(layer.inner_product_param(),
       {"gemm_mode", "spmdm_transpose_in", "spmdm_transpose_out", "dump_parameter", "dump_activation"});
  return found;
}

bool has_shown_weight(const caffe::LayerParameter& layer) {
  return layer.type() == "EuclideanLossHeatmap" && layer.loss_weight_size() > 0 &&
         layer.loss_weight(0) != 0 && layer.loss_weight(0) != 1;
}

/// Does a filler anywhere in the message have a scale?
bool scales_a_filler(const google::protobuf::Message& message) {
  if (message.GetDescriptor() == caffe::FillerParameter::descriptor())
    return static_cast<const caffe::FillerParameter&>(message).scale() != 1;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->message_type() == nullptr) continue;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i)
      if (scales_a_filler(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                               : reflection.GetMessage(message, field)))
        return true;
  }
  return false;
}

/// Projects whose anchors are others change the file that py-faster-rcnn's layers in Python have them from.
bool has_usual_anchors(const caffe::LayerParameter& layer) {
  const caffe::PythonParameter& code = layer.python_param();
  const auto given = [&](const char* key) { return code.param_str().find(key) != std::string::npos; };
  const bool proposes = code.module() == "rpn.proposal_layer" && code.layer() == "ProposalLayer";
  const bool targets = code.module() == "rpn.anchor_target_layer" && code.layer() == "AnchorTargetLayer";
  const int most = targets ? 4 : 3;  // other projects have layers of the same names with other inputs
  return layer.type() == "Python" && (proposes || targets) && layer.bottom_size() >= 3 &&
         layer.bottom_size() <= most &&
         !(given("anchor") || given("scale") || given("ratio") || given("base_size"));
}

/// One line for all layers that have the setting; empty: none has it.
template <class Has>
std::string said_once(const caffe::NetParameter& net, const std::string& what, const Has& has) {
  const auto& layers = net.layer();
  const auto first = std::find_if(layers.begin(), layers.end(), has);
  if (first == layers.end()) return "";
  const auto found = std::count_if(first, layers.end(), has);
  return cat("layer ", quoted(first->name()), found > 1 ? cat(" and ", found - 1, " more") : std::string(),
             ": ", what);
}

template <class Has>
void warn_once(const caffe::NetParameter& net, const std::string& what, const Has& has) {
  if (const std::string said = said_once(net, what, has); !said.empty()) log_warning(said);
}

void warn_of_implementation(const caffe::NetParameter& net) {
  std::vector<std::string> names;
  for (const caffe::LayerParameter& layer : net.layer())
    for (const std::string& name : implementation_fields(layer))
      if (!contains(names, name)) names.push_back(name);
  warn_once(net,
            cat(join(names, ", ", " and "), names.size() > 1 ? " have" : " has",
                " no effect: branches choose an implementation so, or what it writes to files"),
            [](const caffe::LayerParameter& layer) { return !implementation_fields(layer).empty(); });
}

/// Crops that older branches cut elsewhere.
void warn_of_crops(const caffe::NetParameter& net) {
  std::string first;
  int found = 0;
  for (int i = 0; i < net.layer_size(); ++i) {
    const caffe::LayerParameter& layer = net.layer(i);
    if (layer.type() != "Crop" || layer.has_crop_param()) continue;
    try {
      const auto [row, column] = io::crop_offset(net, i);
      if (row == 0 && column == 0) continue;
      if (found++ == 0) first = cat(quoted(layer.name()), " from ", row, ", ", column);
    } catch (const Error&) {
      continue;  // the branches refuse it, too
    }
  }
  if (found == 0) return;
  log_warning(
      cat("a Crop without crop_param cuts from the first row and column on, as BVLC's does; in older "
          "branches (the first versions of FCN, HED) it cuts where positions agree, layer ",
          first, " on", found > 1 ? cat(", and ", found - 1, " more elsewhere, too") : std::string(),
          ": if the net is for one of them, write crop_param { automatic_offset: true }"));
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
  if (net.debug_info())
    log_warning("the net's debug_info has no effect: that of the solver logs sizes of values and gradients");
  if (net.quantize())
    log_warning("the net's quantize (caffe-jacinto) has no effect: everything computes in floating point");
  if (net.has_multinode())
    log_warning("the net's multinode settings are ignored: --gpu and --cpu choose the devices");
  warn_once(net, "multinode settings are ignored: --gpu and --cpu choose the devices", is_multinode);
  warn_once(net, "quantization_param has no effect, whatever is in it: everything computes in floating point",
            [](const caffe::LayerParameter& layer) {
              return layer.has_quantization_param() && layer.type() != "QuantizationLoss";
            });
  const auto is_scaled = [&](const caffe::LayerParameter& layer) { return has_scale_after(net, layer); };
  warn_once(
      net,
      "filler, use_weight_bias and bias_term of batch_norm_param have no effect: batch_norm_param.engine "
      "names none of Intel's; with scale_bias: true the layer learns slopes and biases",
      [&](const auto& layer) { return has_idle_slopes(layer) && !is_scaled(layer); });
  warn_once(
      net,
      "filler of batch_norm_param has no effect: the Scale layer that follows, whose factors Intel's engines "
      "let start from it, has a filler of its own, or engine of batch_norm_param is given",
      [&](const auto& layer) {
        return has_idle_slopes(layer) && layer.batch_norm_param().has_filler() && is_scaled(layer);
      });
  warn_once(net,
            "shuffle_pool_size of data_param (yjxiong) has no effect; shuffle: true shuffles all records",
            [](const caffe::LayerParameter& layer) { return layer.data_param().has_shuffle_pool_size(); });
  warn_once(net,
            "slice_point, encoding, subtract, preselection_file, range_start, range_end and rand_permute of "
            "data_param (FlowNet2) have an effect in CustomData layers only",
            [](const caffe::LayerParameter& layer) {
              const caffe::DataParameter& data = layer.data_param();
              return layer.type() != "CustomData" &&
                     (data.slice_point_size() > 0 || data.encoding_size() > 0 || data.subtract_size() > 0 ||
                      data.has_preselection_file() || data.has_range_start() || data.has_range_end() ||
                      data.has_rand_permute());
            });
  warn_once(net, "transform_param of a MemoryData layer has no effect: put in values as the net needs them",
            [](const caffe::LayerParameter& layer) {
              return layer.type() == "MemoryData" && layer.has_transform_param();
            });
  warn_once(net, "prune_param (IncReg) has no effect: nothing is pruned",
            [](const caffe::LayerParameter& layer) { return layer.has_prune_param(); });
  warn_of_crops(net);
  warn_once(net, "softmax_param has no effect in a Normalize layer, which always divides by lengths of L2",
            [](const caffe::LayerParameter& layer) {
              return layer.type() == "Normalize" && layer.has_softmax_param();
            });
  warn_once(net, "coeff of eltwise_param has no effect with MAX", has_idle_coefficients);
  warn_once(net, "class_weighting has no effect without weight_by_label_freqs: true", has_idle_class_weights);
  warn_once(net, "the scale of a filler (Intel's) has no effect", scales_a_filler);
  warn_of_implementation(net);
  warn_once(net, "normalize of image_data_param (DSS) has no effect but in ImageLabelmapData",
            [](const caffe::LayerParameter& layer) { return layer.image_data_param().has_normalize(); });
  warn_once(
      net,
      "mean_file of dense_image_data_param has no effect, as in SegNet: write mean_value into "
      "transform_param",
      [](const caffe::LayerParameter& layer) { return layer.dense_image_data_param().has_mean_file(); });
  warn_once(net, "visualise (caffe-heatmap) has no effect: nothing is shown",
            [](const caffe::LayerParameter& layer) { return layer.visualise(); });
  warn_once(
      net, "crop_meanfile of heatmap_data_param has no effect, as in caffe-heatmap",
      [](const caffe::LayerParameter& layer) { return layer.heatmap_data_param().has_crop_meanfile(); });
  warn_once(net,
            "loss_weight of EuclideanLossHeatmap multiplies the gradients, too; in caffe-heatmap only the "
            "loss that is shown: loss_weight: 1 trains as there",
            has_shown_weight);
  warn_once(net,
            "strict_dim: false (DeepLab) has no effect: weights of a file must have the shapes of the net's",
            [](const caffe::LayerParameter& layer) { return !layer.strict_dim(); });
  const std::string native =
      said_once(net,
                "native layers take the place of rpn.proposal_layer and rpn.anchor_target_layer, with "
                "py-faster-rcnn's anchors (base_size 16, ratios 0.5, 1, 2, scales 8, 16, 32): if the "
                "project's generate_anchors.py has others, write them into param_str",
                has_usual_anchors);
  if (!native.empty()) log_info(native);
}

}  // namespace banyan
