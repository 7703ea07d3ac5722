// What SSH's layers read from its default_config.yml, and RON's from config.py, is their default here;
// further keys of param_str, named as the fields of the native layer's message, replace it.
#include "layers/python_detectors.hpp"

#include "banyan/base/number.hpp"
#include "layers/python_settings.hpp"

namespace banyan {
namespace {

/// In tests SSH joins the boxes of three modules, and drops overlapping ones outside the net.
caffe::LayerParameter ssh_proposal(const caffe::LayerParameter& python, Phase phase) {
  const bool train = phase == Phase::train;
  caffe::LayerParameter layer = as_native(python, "Proposal");
  caffe::ProposalParameter& settings = *layer.mutable_proposal_param();
  settings.set_pre_nms_topn(1000);
  settings.set_post_nms_topn(train ? 300 : 0);
  settings.set_nms_thresh(train ? 0.3F : 1.F);
  settings.set_min_size(train ? 4 : 0);
  read_python_settings(python, settings);
  return layer;
}

/// Keeps python_param, by which AnchorTarget knows SSH's rules.
caffe::LayerParameter ssh_anchor_target(const caffe::LayerParameter& python) {
  caffe::LayerParameter layer = python;
  layer.set_type("AnchorTarget");
  caffe::AnchorTargetParameter& settings = *layer.mutable_anchor_target_param();
  settings.set_positive_overlap(0.5);
  settings.set_fg_fraction(0.25);
  read_python_settings(python, settings);
  return layer;
}

/// Ten anchors of 16 pixels width. Their heights 11, 16, 23, 33, 48, 68, 97, 139, 198 and 283 are halved as
/// whole numbers, and corners are rounded toward zero.
caffe::LayerParameter ctpn_proposal(const caffe::LayerParameter& python) {
  caffe::LayerParameter layer = as_native(python, "TextProposal");
  caffe::ProposalParameter& settings = *layer.mutable_proposal_param();
  read_python_settings(python, settings);
  if (settings.anchor_size() + settings.ratio_size() + settings.scale_size() > 0) return layer;
  constexpr int kRows[][2] = {{2, 12},   {0, 15},   {-3, 18},  {-8, 23},   {-16, 31},
                              {-26, 41}, {-40, 55}, {-61, 76}, {-91, 106}, {-133, 148}};
  for (const auto& [first, last] : kRows)
    for (const int corner : {0, first, 15, last}) settings.add_anchor(static_cast<float>(corner));
  return layer;
}

/// Two scales and five ratios; of `stride,scale,classes` the third follows from the input.
caffe::LayerParameter ron_boxes(const caffe::LayerParameter& python) {
  caffe::LayerParameter layer = as_native(python, "AnchorBoxes");
  caffe::ProposalParameter& settings = *layer.mutable_proposal_param();
  settings.set_base_size(32);
  bool found = false;
  for (const PythonSetting& entry : python_settings(python)) {
    if (entry.key == "base_size") {
      set_python_field(python, entry, *settings.GetDescriptor()->FindFieldByName("base_size"), settings);
      continue;
    }
    if (entry.key != "stride_scale_numcls")
      refuse_python_key(python, entry.key, {"stride_scale_numcls", "base_size"});
    const std::vector<std::string> words = comma_separated(entry.list ? std::string() : entry.values[0]);
    std::vector<int> numbers;
    for (const std::string& word : words)
      if (const auto number = number_in<int>(word); number && *number > 0) numbers.push_back(*number);
    if (words.size() != 3 || numbers.size() != 3)
      refuse_python(python, "param_str: stride_scale_numcls must be three whole numbers as 64,7,21");
    settings.set_feat_stride(static_cast<std::uint32_t>(numbers[0]));
    for (const int more : {0, 1}) settings.add_scale(static_cast<float>(numbers[1] + more));
    found = true;
  }
  if (!found) refuse_python(python, "param_str needs stride_scale_numcls");
  for (const float ratio : {0.333F, 0.5F, 1.F, 2.F, 3.F}) settings.add_ratio(ratio);
  return layer;
}

}  // namespace

std::optional<caffe::LayerParameter> detector_layer(const caffe::LayerParameter& python, Phase phase) {
  const std::string name = python.python_param().module() + "." + python.python_param().layer();
  if (name == "SSH.layers.proposal_layer.ProposalLayer") return ssh_proposal(python, phase);
  if (name == "SSH.layers.anchor_target_layer.AnchorTargetLayer") return ssh_anchor_target(python);
  if (name == "layers.text_proposal_layer.ProposalLayer") return ctpn_proposal(python);
  if (name == "ron_layer.det_layer.DetLayer") return ron_boxes(python);
  return std::nullopt;
}

}  // namespace banyan
