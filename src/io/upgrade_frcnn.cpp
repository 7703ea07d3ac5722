// Nets of a Faster R-CNN in C++ (makefile/frcnn): its layers read their settings from a JSON file that
// FrcnnRoiData names, or that a program is given. Here they become the settings of the layers.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/base/number.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/atomic_file.hpp"
#include "banyan/io/upgrade.hpp"

namespace banyan::io {
namespace {

/// Each value is a list of numbers.
using FrcnnSettings = std::map<std::string, std::vector<double>>;

/// Those of that project's voc_config.json.
const FrcnnSettings& default_frcnn_settings() {
  static const FrcnnSettings settings{
      {"scales", {600}},
      {"max_size", {1000}},
      {"im_size_align", {1}},
      {"use_flipped", {1}},
      {"pixel_means", {102.9801, 115.9465, 122.7717}},
      {"feat_stride", {16}},
      {"n_classes", {21}},
      {"anchors",
       {-84, -40, 99,   55,   -176, -88, 191, 103, -360, -184, 375, 100,  -56, -56, 71,   72,   -120, -120,
        135, 135, -248, -248, 263,  263, -36, -80, 51,   95,   -80, -168, 95,  183, -168, -344, 183,  359}},
      {"batch_size", {128}},
      {"fg_fraction", {0.25}},
      {"fg_thresh", {0.5}},
      {"bg_thresh_hi", {0.5}},
      {"bg_thresh_lo", {0}},
      {"bbox_normalize_targets", {1}},
      {"bbox_inside_weights", {1, 1, 1, 1}},
      {"bbox_normalize_means", {0, 0, 0, 0}},
      {"bbox_normalize_stds", {0.1, 0.1, 0.2, 0.2}},
      {"rpn_positive_overlap", {0.7}},
      {"rpn_negative_overlap", {0.3}},
      {"rpn_clobber_positives", {0}},
      {"rpn_fg_fraction", {0.5}},
      {"rpn_batchsize", {256}},
      {"rpn_bbox_inside_weights", {1, 1, 1, 1}},
      {"rpn_positive_weight", {-1}},
      {"rpn_allowed_border", {0}},
      {"rpn_nms_thresh", {0.7}},
      {"rpn_pre_nms_top_n", {12000}},
      {"rpn_post_nms_top_n", {2000}},
      {"rpn_min_size", {16}},
      {"test_rpn_nms_thresh", {0.7}},
      {"test_rpn_pre_nms_top_n", {6000}},
      {"test_rpn_post_nms_top_n", {300}},
      {"test_rpn_min_size", {16}},
      {"test_rpn_score_thresh", {0}},
      {"data_jitter", {-1}},
      {"use_hist_equalize", {0}},
      {"use_haze_free", {0}}};
  return settings;
}

/// Names and values of a JSON object without members of their own. As there, `//` begins a comment, texts may
/// have several lines, and the numbers of a list are in a text, between commas.
class FrcnnFile {
 public:
  explicit FrcnnFile(const std::string& path) : path_(path), text_(read_file(path, kLargest)) {}

  FrcnnSettings read() {
    FrcnnSettings found;
    if (!take('{')) fail("{");
    while (!take('}')) {
      const std::string name = quoted_text();
      if (!take(':')) fail(cat("a colon after ", quoted(name)));
      const std::string value = next() == '"' ? quoted_text() : plain_text();
      if (default_frcnn_settings().contains(name)) found[name] = numbers(name, value);
      if (!take(',') && next() != '}') fail("a comma or }");
    }
    return found;
  }

 private:
  static constexpr std::size_t kLargest = std::size_t{1} << 20;

  [[noreturn]] void fail(const std::string& expected) const {
    bad_input(path_, ":",
              1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n'),
              ": expected ", expected);
  }
  /// The next character that is no blank and in no comment; 0 at the end.
  char next() {
    while (at_ < text_.size()) {
      if (text_.compare(at_, 2, "//") == 0)
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0)
        ++at_;
      else
        return text_[at_];
    }
    return 0;
  }
  bool take(char wanted) {
    if (next() != wanted) return false;
    ++at_;
    return true;
  }
  std::string quoted_text() {
    const std::size_t end = take('"') ? text_.find('"', at_) : std::string::npos;
    if (end == std::string::npos) fail("a text in quotes");
    const std::string found = text_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }
  std::string plain_text() {
    const std::size_t end = std::min(text_.find_first_of(",}/ \t\r\n", at_), text_.size());
    const std::string found = text_.substr(at_, end - at_);
    at_ = end;
    return found;
  }
  std::vector<double> numbers(const std::string& name, const std::string& value) const {
    std::vector<double> found;
    for (std::size_t at = 0; at <= value.size();) {
      const std::size_t end = std::min(value.find(',', at), value.size());
      const std::size_t first = value.find_first_not_of(" \t\r\n", at);
      const std::size_t last = value.find_last_not_of(" \t\r\n", end == 0 ? 0 : end - 1);
      const bool empty = first >= end || last == std::string::npos || last < first;
      const auto number = empty ? std::nullopt : number_in<double>(value.substr(first, last - first + 1));
      if (!number || !std::isfinite(*number))
        fail(cat("numbers as ", name, ", not ", quoted(value), ", before this"));
      found.push_back(*number);
      at = end + 1;
    }
    return found;
  }

  std::string path_, text_;
  std::size_t at_ = 0;
};

bool is_frcnn_type(const std::string& type) {
  return type == "FrcnnAnchorTarget" || type == "FrcnnProposal" || type == "FrcnnProposalTarget";
}

bool names_frcnn_file(const caffe::LayerParameter& layer) {
  return layer.type() == "FrcnnRoiData" && layer.window_data_param().has_config();
}

class FrcnnUpgrade {
 public:
  FrcnnUpgrade(caffe::NetParameter& net, const std::string& origin) : net_(net), origin_(origin) {}

  void run() {
    read_settings();
    for (caffe::LayerParameter& layer : *net_.mutable_layer()) {
      if (layer.type() == "FrcnnRoiData") fill_data(layer);
      if (layer.type() == "FrcnnAnchorTarget") fill_anchor_target(layer);
      if (layer.type() == "FrcnnProposal") fill_proposal(layer);
      if (layer.type() == "FrcnnProposalTarget") fill_proposal_target(layer);
    }
  }

 private:
  void read_settings() {
    settings_ = default_frcnn_settings();
    const auto data = std::find_if(net_.layer().begin(), net_.layer().end(), names_frcnn_file);
    const bool named = data != net_.layer().end();
    const std::string path = named ? data->window_data_param().config() : "";
    for (const caffe::LayerParameter& layer : net_.layer())
      if (names_frcnn_file(layer) && layer.window_data_param().config() != path)
        bad_input(origin_, ": FrcnnRoiData layers name two files, window_data_param.config ", quoted(path),
                  " and ", quoted(layer.window_data_param().config()), "; the settings of a net are in one");
    if (named && std::filesystem::is_regular_file(path)) {
      for (auto& [name, values] : FrcnnFile(path).read()) settings_[name] = std::move(values);
      refuse_what_is_not_here(path);
      return;
    }
    log_warning(
        cat(origin_, ": ",
            named ? cat("window_data_param.config ", quoted(path), " is not there")
                  : std::string("no FrcnnRoiData names a config"),
            "; the Frcnn layers get the settings of makefile/frcnn's voc_config.json (9 anchors, 21 classes) "
            "where they have none in anchor_target_param, proposal_param, proposal_target_param and "
            "roi_data_param"));
  }

  void refuse_what_is_not_here(const std::string& path) const {
    const auto refuse = [&](const char* name, const char* what) {
      bad_input(path, ": ", name, " (", what, ") is not supported; change the images beforehand");
    };
    if (number("data_jitter") >= 0) refuse("data_jitter", "images are cut and get other colours by chance");
    if (number("use_hist_equalize") != 0) refuse("use_hist_equalize", "histograms are equalized");
    if (number("use_haze_free") != 0) refuse("use_haze_free", "haze is removed");
    if (settings_.at("anchors").size() % 4 != 0)
      bad_input(path, ": anchors has ", settings_.at("anchors").size(), " numbers; expected four of each");
  }

  double number(const std::string& name, std::size_t i = 0) const {
    const std::vector<double>& values = settings_.at(name);
    return i < values.size() ? values[i] : values.back();
  }
  template <class Field>
  void fill(Field* field, const char* name) const {
    if (!field->empty()) return;
    for (const double value : settings_.at(name)) field->Add(static_cast<float>(value));
  }

  void fill_data(caffe::LayerParameter& layer) const {
    caffe::RoiDataParameter& how = *layer.mutable_roi_data_param();
    fill(how.mutable_scale(), "scales");
    if (!how.has_max_size()) how.set_max_size(static_cast<float>(number("max_size")));
    if (!how.has_align()) how.set_align(std::max(1U, whole("im_size_align")));  // 0: as they are
    caffe::TransformationParameter& transform = *layer.mutable_transform_param();
    fill(transform.mutable_mean_value(), "pixel_means");
    if (!transform.has_mirror()) transform.set_mirror(number("use_flipped") != 0);
    layer.mutable_window_data_param()->clear_config();
  }

  std::uint32_t whole(const std::string& name) const {
    const double value = number(name);
    if (!(value >= 0 && value < 1e9) || value != std::floor(value))
      bad_input(origin_, ": the Frcnn layers' ", name, " must be a whole number, not ", value);
    return static_cast<std::uint32_t>(value);
  }

  void fill_anchor_target(caffe::LayerParameter& layer) const {
    caffe::AnchorTargetParameter& s = *layer.mutable_anchor_target_param();
    if (!s.has_feat_stride()) s.set_feat_stride(whole("feat_stride"));
    if (s.ratio().empty() && s.scale().empty() && !s.has_base_size()) fill(s.mutable_anchor(), "anchors");
    if (!s.has_allowed_border()) s.set_allowed_border(static_cast<float>(number("rpn_allowed_border")));
    if (!s.has_batch_size()) s.set_batch_size(whole("rpn_batchsize"));
    if (!s.has_fg_fraction()) s.set_fg_fraction(static_cast<float>(number("rpn_fg_fraction")));
    if (!s.has_positive_overlap()) s.set_positive_overlap(static_cast<float>(number("rpn_positive_overlap")));
    if (!s.has_negative_overlap()) s.set_negative_overlap(static_cast<float>(number("rpn_negative_overlap")));
    if (!s.has_clobber_positives()) s.set_clobber_positives(number("rpn_clobber_positives") != 0);
    if (!s.has_positive_weight()) s.set_positive_weight(static_cast<float>(number("rpn_positive_weight")));
    fill(s.mutable_bbox_inside_weight(), "rpn_bbox_inside_weights");
    layer.set_type("AnchorTarget");
  }

  /// Training has other numbers than tests; a net without data is one for tests.
  bool trains(const caffe::LayerParameter& layer) const {
    if (layer.has_phase()) return layer.phase() == caffe::TRAIN;
    for (const caffe::NetStateRule& rule : layer.include())
      if (rule.has_phase()) return rule.phase() == caffe::TRAIN;
    if (net_.state().has_phase()) return net_.state().phase() == caffe::TRAIN;
    return std::any_of(net_.layer().begin(), net_.layer().end(),
                       [](const caffe::LayerParameter& other) { return other.type() == "FrcnnRoiData"; });
  }

  void fill_proposal(caffe::LayerParameter& layer) const {
    const std::string begin = trains(layer) ? "rpn_" : "test_rpn_";
    if (!trains(layer) && number("test_rpn_score_thresh") > 0)
      log_warning(cat(origin_, ": layer ", quoted(layer.name()), " (", layer.type(),
                      ") also keeps regions with a score below test_rpn_score_thresh, ",
                      number("test_rpn_score_thresh"), ", which has no effect"));
    caffe::ProposalParameter& s = *layer.mutable_proposal_param();
    if (!s.has_feat_stride()) s.set_feat_stride(whole("feat_stride"));
    if (s.ratio().empty() && s.scale().empty() && !s.has_base_size()) fill(s.mutable_anchor(), "anchors");
    if (!s.has_min_size()) s.set_min_size(whole(begin + "min_size"));
    if (!s.has_pre_nms_topn()) s.set_pre_nms_topn(whole(begin + "pre_nms_top_n"));
    if (!s.has_post_nms_topn()) s.set_post_nms_topn(whole(begin + "post_nms_top_n"));
    if (!s.has_nms_thresh()) s.set_nms_thresh(static_cast<float>(number(begin + "nms_thresh")));
    layer.set_type("Proposal");
  }

  void fill_proposal_target(caffe::LayerParameter& layer) const {
    caffe::ProposalTargetParameter& s = *layer.mutable_proposal_target_param();
    if (!s.has_num_classes()) s.set_num_classes(whole("n_classes"));
    if (!s.has_batch_size())
      s.set_batch_size(number("batch_size") == -1 ? -1 : static_cast<int>(whole("batch_size")));
    if (!s.has_fg_fraction()) s.set_fg_fraction(static_cast<float>(number("fg_fraction")));
    if (!s.has_fg_thresh()) s.set_fg_thresh(static_cast<float>(number("fg_thresh")));
    if (!s.has_bg_thresh_hi()) s.set_bg_thresh_hi(static_cast<float>(number("bg_thresh_hi")));
    if (!s.has_bg_thresh_lo()) s.set_bg_thresh_lo(static_cast<float>(number("bg_thresh_lo")));
    if (!s.has_agnostic()) s.set_agnostic(false);
    fill(s.mutable_bbox_inside_weight(), "bbox_inside_weights");
    if (number("bbox_normalize_targets") != 0) {
      fill(s.mutable_bbox_mean(), "bbox_normalize_means");
      fill(s.mutable_bbox_std(), "bbox_normalize_stds");
    } else if (s.bbox_std().empty()) {
      s.add_bbox_std(1);
    }
    layer.set_type("ProposalTarget");
  }

  caffe::NetParameter& net_;
  const std::string& origin_;
  FrcnnSettings settings_;
};

}  // namespace

bool needs_frcnn_upgrade(const caffe::NetParameter& net) {
  return std::any_of(net.layer().begin(), net.layer().end(), [](const caffe::LayerParameter& layer) {
    return is_frcnn_type(layer.type()) || names_frcnn_file(layer);
  });
}

caffe::NetParameter upgrade_frcnn(caffe::NetParameter net, const std::string& origin) {
  FrcnnUpgrade(net, origin).run();
  return net;
}

}  // namespace banyan::io
