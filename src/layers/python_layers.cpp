// py-faster-rcnn's and R-FCN's layers, ENet's, and the one of BVLC's examples. What the first read from their
// configuration files is their default here (that of faster_rcnn_end2end.yml), and further keys of param_str,
// named as the fields of the native layer's message, replace it.
#include "layers/python_layers.hpp"

#include <algorithm>

#include "layers/python_data.hpp"
#include "layers/python_settings.hpp"

namespace banyan {
namespace {

struct NativeType {
  const char *module, *layer, *type, *message;
};
constexpr NativeType kNative[] = {
    {"rpn.proposal_layer", "ProposalLayer", "Proposal", "proposal_param"},
    {"rpn.anchor_target_layer", "AnchorTargetLayer", "AnchorTarget", "anchor_target_param"},
    {"rpn.proposal_target_layer", "ProposalTargetLayer", "ProposalTarget", "proposal_target_param"},
};

void read_settings(const caffe::LayerParameter& layer, google::protobuf::Message& settings) {
  std::vector<std::string> known;
  for (int i = 0; i < settings.GetDescriptor()->field_count(); ++i)
    known.emplace_back(settings.GetDescriptor()->field(i)->name());
  for (const PythonSetting& entry : python_settings(layer)) {
    const std::string name = entry.key == "scales" ? "scale" : entry.key == "ratios" ? "ratio" : entry.key;
    const auto* field = settings.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr)
      refuse_python(layer, "param_str has the key ", quoted(entry.key), "; known are ", join(known, ", "));
    set_python_field(layer, entry, *field, settings);
  }
}

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
      refuse_python(python, "param_str has the key ", quoted(entry.key), "; known are phase, p");
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

}  // namespace

std::optional<caffe::LayerParameter> native_layer(const caffe::LayerParameter& python, Phase phase) {
  const caffe::PythonParameter& code = python.python_param();
  if (auto data = python_data(python, phase)) return data;
  if (code.module() == "spatial_dropout" && code.layer() == "SpatialDropoutLayer")
    return spatial_dropout(python);
  if (code.module() == "pyloss" && code.layer() == "EuclideanLossLayer") {
    caffe::LayerParameter layer = python;
    layer.set_type("EuclideanLoss");
    layer.clear_python_param();
    return layer;
  }
  const auto* const found =
      std::find_if(std::begin(kNative), std::end(kNative), [&](const NativeType& native) {
        return code.module() == native.module && code.layer() == native.layer;
      });
  if (found == std::end(kNative)) return std::nullopt;
  caffe::LayerParameter layer = python;
  layer.set_type(found->type);
  layer.clear_python_param();
  if (layer.type() == "Proposal" && phase == Phase::train) {
    layer.mutable_proposal_param()->set_pre_nms_topn(12000);
    layer.mutable_proposal_param()->set_post_nms_topn(2000);
  }
  const auto* field = layer.GetDescriptor()->FindFieldByName(found->message);
  read_settings(python, *layer.GetReflection()->MutableMessage(&layer, field));
  return layer;
}

}  // namespace banyan
