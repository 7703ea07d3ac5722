// py-faster-rcnn's and R-FCN's layers, ENet's, and the one of BVLC's examples. What the first read from their
// configuration files is their default here (that of faster_rcnn_end2end.yml), and further keys of param_str,
// named as the fields of the native layer's message, replace it.
#include "layers/python_layers.hpp"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cctype>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan {
namespace {

/// A dictionary as YAML writes it: `key: value` per line, or `{key: value, key: value}`; a value is a number,
/// a word or a list `[value, value]`; keys and words may be quoted; tags (!!python/tuple) and comments do not
/// count.
class DictionaryReader {
 public:
  struct Entry {
    std::string key;
    std::vector<std::string> values;
    bool list = false;
  };

  explicit DictionaryReader(const std::string& text) : text_(text) {}

  /// False if the text is anything else; rest() is where it went wrong.
  bool read(std::vector<Entry>& entries) {
    skip(true);
    const bool braces = take('{');
    while (true) {
      skip(true);
      if (braces ? take('}') : at_end()) break;
      if (!read_entry(entries.emplace_back())) return false;
      skip(braces);
      const bool more = braces ? take(',') : take('\n');
      skip(true);
      if (!more && !(braces ? peek() == '}' : at_end())) return false;
    }
    skip(true);
    return at_end();
  }
  std::string rest() const { return text_.substr(at_, text_.find('\n', at_) - at_); }

 private:
  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool take(char wanted) {
    if (at_end() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void skip(bool lines) {
    while (!at_end()) {
      if (peek() == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (peek() == ' ' || peek() == '\t' || peek() == '\r' || (lines && peek() == '\n'))
        ++at_;
      else
        break;
    }
  }
  bool read_entry(Entry& entry) {
    if (!read_word(entry.key)) return false;
    skip(false);
    if (!take(':')) return false;
    skip(false);
    while (text_.compare(at_, 2, "!!") == 0) {
      while (!at_end() && std::isspace(static_cast<unsigned char>(peek())) == 0) ++at_;
      skip(false);
    }
    entry.list = take('[');
    if (!entry.list) return read_word(entry.values.emplace_back());
    skip(true);
    if (take(']')) return true;
    do {
      skip(true);
      if (!read_word(entry.values.emplace_back())) return false;
      skip(true);
    } while (take(','));
    return take(']');
  }
  bool read_word(std::string& word) {
    const char quote = peek() == '\'' || peek() == '"' ? peek() : '\0';
    if (quote != '\0') ++at_;
    const std::size_t start = at_;
    while (!at_end() && (std::isalnum(static_cast<unsigned char>(peek())) != 0 || peek() == '_' ||
                         peek() == '-' || peek() == '+' || peek() == '.'))
      ++at_;
    word = text_.substr(start, at_ - start);
    return !word.empty() && (quote == '\0' || take(quote));
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

struct NativeType {
  const char *module, *layer, *type, *message;
};
constexpr NativeType kNative[] = {
    {"rpn.proposal_layer", "ProposalLayer", "Proposal", "proposal_param"},
    {"rpn.anchor_target_layer", "AnchorTargetLayer", "AnchorTarget", "anchor_target_param"},
    {"rpn.proposal_target_layer", "ProposalTargetLayer", "ProposalTarget", "proposal_target_param"},
};

class NoMessages : public google::protobuf::io::ErrorCollector {
  void AddError(int, google::protobuf::io::ColumnNumber, const std::string&) override {}
};

template <class... Parts>
[[noreturn]] void refuse(const caffe::LayerParameter& layer, const Parts&... parts) {
  bad_input("layer ", quoted(layer.name()), " (Python, ", quoted(layer.python_param().layer()),
            "): ", parts...);
}

std::vector<DictionaryReader::Entry> read_entries(const caffe::LayerParameter& layer) {
  std::vector<DictionaryReader::Entry> entries;
  DictionaryReader reader(layer.python_param().param_str());
  if (!reader.read(entries))
    refuse(layer, "param_str is not understood at ", quoted(reader.rest()),
           "; expected a dictionary of numbers, words and lists, as {feat_stride: 16, scales: [8, 16, 32]}");
  return entries;
}

void set_field(const caffe::LayerParameter& layer, const DictionaryReader::Entry& entry,
               const google::protobuf::FieldDescriptor& field, google::protobuf::Message& settings) {
  settings.GetReflection()->ClearField(&settings, &field);
  if (entry.list && !field.is_repeated()) refuse(layer, "param_str: ", entry.key, " must be one value");
  google::protobuf::TextFormat::Parser parser;
  NoMessages silent;
  parser.RecordErrorsTo(&silent);
  for (const std::string& value : entry.values)
    if (!parser.MergeFromString(cat(field.name(), ": ", value), &settings))
      refuse(layer, "param_str: ", entry.key, " cannot be ", quoted(value));
}

void read_settings(const caffe::LayerParameter& layer, google::protobuf::Message& settings) {
  std::vector<std::string> known;
  for (int i = 0; i < settings.GetDescriptor()->field_count(); ++i)
    known.emplace_back(settings.GetDescriptor()->field(i)->name());
  for (const DictionaryReader::Entry& entry : read_entries(layer)) {
    const std::string name = entry.key == "scales" ? "scale" : entry.key == "ratios" ? "ratio" : entry.key;
    const auto* field = settings.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr)
      refuse(layer, "param_str has the key ", quoted(entry.key), "; known are ", join(known, ", "));
    set_field(layer, entry, *field, settings);
  }
}

/// ENet's layer has the phase of its param_str, whatever the net's is. With TEST it multiplies by 1 / (1 -
/// p), which a Power layer does.
caffe::LayerParameter spatial_dropout(const caffe::LayerParameter& python) {
  caffe::LayerParameter layer = python;
  layer.clear_python_param();
  caffe::DropoutParameter settings;
  std::string phase;
  for (const DictionaryReader::Entry& entry : read_entries(python)) {
    if (entry.key == "p")
      set_field(python, entry, *settings.GetDescriptor()->FindFieldByName("dropout_ratio"), settings);
    else if (entry.key == "phase" && !entry.list)
      phase = entry.values[0];
    else
      refuse(python, "param_str has the key ", quoted(entry.key), "; known are phase, p");
  }
  if (!settings.has_dropout_ratio() || !(settings.dropout_ratio() > 0 && settings.dropout_ratio() < 1))
    refuse(python, "param_str needs p between 0 and 1");
  if (phase != "TRAIN" && phase != "TEST") refuse(python, "param_str needs the phase TRAIN or TEST");
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

/// What a program has to fill: the shapes of Faster R-CNN's, or the names of whatever the layer makes.
std::string tops_of_roi_data(const caffe::LayerParameter& python) {
  const std::vector<std::string> tops(python.top().begin(), python.top().end());
  if (tops.empty() || tops == std::vector<std::string>{"data", "im_info", "gt_boxes"})
    return "data (1 x 3 x H x W), im_info (1 x 3: height, width, scale), gt_boxes (G x 5: x1, y1, x2, y2, "
           "class)";
  return join(tops, ", ", " and ");
}

}  // namespace

std::optional<caffe::LayerParameter> native_layer(const caffe::LayerParameter& python, Phase phase) {
  const caffe::PythonParameter& code = python.python_param();
  if (code.module() == "roi_data_layer.layer" && code.layer() == "RoIDataLayer")
    refuse(
        python,
        "reads a detection data set with Python, which Banyan does not run; put an Input layer in its place "
        "whose tops a program fills: ",
        tops_of_roi_data(python));
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
