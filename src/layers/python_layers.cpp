// py-faster-rcnn's and R-FCN's layers, DetectNet's, ENet's, and ones of colorization and of BVLC's examples.
// What the first read from their configuration files is their default here (that of faster_rcnn_end2end.yml),
// and further keys of param_str, named as the fields of the native layer's message, replace it.
#include "layers/python_layers.hpp"

#include <algorithm>

#include "banyan/base/number.hpp"
#include "layers/python_data.hpp"
#include "layers/python_detectors.hpp"
#include "layers/python_settings.hpp"

namespace banyan {
namespace {

/// Other projects have layers of the same names with other numbers of inputs.
struct NativeType {
  const char *module, *layer, *type, *message;
  int least_inputs, most_inputs;
};
constexpr NativeType kNative[] = {
    {"rpn.proposal_layer", "ProposalLayer", "Proposal", "proposal_param", 3, 3},
    {"rpn.anchor_target_layer", "AnchorTargetLayer", "AnchorTarget", "anchor_target_param", 3, 4},
    {"rpn.proposal_target_layer", "ProposalTargetLayer", "ProposalTarget", "proposal_target_param", 2, 2},
};

/// ENet's layer has the phase of its param_str, whatever the net's is. With TEST it multiplies by 1 / (1 -
/// p), which a Power layer does.
caffe::LayerParameter spatial_dropout(const caffe::LayerParameter& python) {
  caffe::LayerParameter layer = python;
  layer.clear_python_param();
  caffe::DropoutParameter settings;
  std::string phase;
  for (const PythonSetting& entry : python_settings(python)) {
    if (entry.key == "p")
      set_python_field(python, entry, *settings.GetDescriptor()->FindFieldByName("dropout_ratio"), settings);
    else if (entry.key == "phase" && !entry.list)
      phase = entry.values[0];
    else
      refuse_python_key(python, entry.key, {"phase", "p"});
  }
  if (!settings.has_dropout_ratio() || !(settings.dropout_ratio() > 0 && settings.dropout_ratio() < 1))
    refuse_python(python, "param_str needs p between 0 and 1");
  if (phase != "TRAIN" && phase != "TEST") refuse_python(python, "param_str needs the phase TRAIN or TEST");
  if (phase == "TEST") {
    layer.set_type("Power");
    layer.mutable_power_param()->set_scale(1 / (1 - settings.dropout_ratio()));
    return layer;
  }
  layer.set_type("SpatialDropout");
  layer.set_phase(caffe::TRAIN);
  *layer.mutable_dropout_param() = settings;
  return layer;
}

/// DetectNet's boxes; what follows the settings is not read, as there.
caffe::LayerParameter clustered_boxes(const caffe::LayerParameter& python) {
  caffe::LayerParameter layer = as_native(python, python.python_param().layer());
  std::vector<const char*> fields = {"image_size_x", "image_size_y", "stride"};
  if (layer.type() == "ClusterDetections")
    fields.insert(fields.end(), {"coverage_threshold", "rect_threshold", "rect_eps", "min_height"});
  const std::size_t needed = fields.size();
  fields.insert(fields.end(), {"num_classes", "max_boxes"});
  const std::vector<std::string> words = comma_separated(python.python_param().param_str());
  if (words.size() < needed)
    refuse_python(python, "param_str has ", words.size(), " numbers; expected ",
                  join(std::vector<std::string>(fields.begin(), fields.end()), ", "),
                  ", of which num_classes and max_boxes may be left out");
  caffe::ClusterBoxesParameter& settings = *layer.mutable_cluster_boxes_param();
  for (std::size_t i = 0; i < std::min(words.size(), fields.size()); ++i) {
    if (!number_in<double>(words[i]))  // protobuf's reader would take more than Python does
      refuse_python(python, "param_str: ", fields[i], " cannot be ", quoted(words[i]));
    set_python_field(python, {fields[i], {words[i]}}, *settings.GetDescriptor()->FindFieldByName(fields[i]),
                     settings);
  }
  return layer;
}

/// A param_str that is no number has no effect, as there.
caffe::LayerParameter scored_detections(const caffe::LayerParameter& python) {
  caffe::LayerParameter layer = as_native(python, "ScoreDetections");
  const std::vector<std::string> words = comma_separated(python.python_param().param_str());
  const auto threshold = words.size() == 1 ? number_in<float>(words[0]) : std::nullopt;
  if (threshold) layer.mutable_score_detections_param()->set_overlap_threshold(*threshold);
  return layer;
}

/// NVIDIA's DetectNet.
std::optional<caffe::LayerParameter> detectnet_layer(const caffe::LayerParameter& python) {
  const caffe::PythonParameter& code = python.python_param();
  const std::string room = "caffe.layers.detectnet.";
  if (code.module() == room + "clustering" &&
      (code.layer() == "ClusterDetections" || code.layer() == "ClusterGroundtruth"))
    return clustered_boxes(python);
  if (code.module() != room + "mean_ap") return std::nullopt;
  if (code.layer() == "ScoreDetections") return scored_detections(python);
  if (code.layer() != "mAP") return std::nullopt;
  return as_native(python, "PrecisionRecall");
}

}  // namespace

std::optional<caffe::LayerParameter> native_layer(const caffe::LayerParameter& python, Phase phase) {
  const caffe::PythonParameter& code = python.python_param();
  if (auto data = python_data(python, phase)) return data;
  if (auto layer = detectnet_layer(python)) return layer;
  if (auto layer = detector_layer(python, phase)) return layer;
  if (code.module() == "spatial_dropout" && code.layer() == "SpatialDropoutLayer")
    return spatial_dropout(python);
  if (code.module() == "pyloss" && code.layer() == "EuclideanLossLayer")
    return as_native(python, "EuclideanLoss");
  if (code.module() == "caffe_traininglayers" && code.layer() == "LossMeterLayer")
    return as_native(python, "Silence");  // it writes means of its inputs into files
  const auto* const found =
      std::find_if(std::begin(kNative), std::end(kNative), [&](const NativeType& native) {
        const int inputs = python.bottom_size();
        return code.module() == native.module && code.layer() == native.layer &&
               (inputs == 0 || (inputs >= native.least_inputs && inputs <= native.most_inputs));
      });
  if (found == std::end(kNative)) return std::nullopt;
  caffe::LayerParameter layer = as_native(python, found->type);
  if (layer.type() == "Proposal" && phase == Phase::train) {
    layer.mutable_proposal_param()->set_pre_nms_topn(12000);
    layer.mutable_proposal_param()->set_post_nms_topn(2000);
  }
  const auto* field = layer.GetDescriptor()->FindFieldByName(found->message);
  read_python_settings(python, *layer.GetReflection()->MutableMessage(&layer, field));
  return layer;
}

}  // namespace banyan
