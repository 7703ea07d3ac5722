#include "layers/python_settings.hpp"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cctype>

namespace banyan {
namespace {

/// A dictionary as YAML writes it: `key: value` per line, or `{key: value, key: value}`; a value is a number,
/// a word or a list `[value, value]` or `[value,]`; keys and words may be quoted; tags (!!python/tuple) and
/// comments do not count. Per line a word may have commas in it, quoted ones slashes.
class DictionaryReader {
 public:
  using Entry = PythonSetting;

  explicit DictionaryReader(const std::string& text) : text_(text) {}

  /// False if the text is anything else; rest() is where it went wrong.
  bool read(std::vector<Entry>& entries) {
    skip(true);
    const bool braces = take('{');
    commas_ = !braces;
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
    if (!entry.list) return read_word(entry.values.emplace_back(), commas_);
    skip(true);
    if (take(']')) return true;
    do {
      skip(true);
      if (take(']')) return true;
      if (!read_word(entry.values.emplace_back())) return false;
      skip(true);
    } while (take(','));
    return take(']');
  }
  bool read_word(std::string& word, bool commas = false) {
    const char quote = peek() == '\'' || peek() == '"' ? peek() : '\0';
    if (quote != '\0') ++at_;
    const std::size_t start = at_;
    while (!at_end() &&
           (std::isalnum(static_cast<unsigned char>(peek())) != 0 || peek() == '_' || peek() == '-' ||
            peek() == '+' || peek() == '.' || (commas && peek() == ',') || (quote != '\0' && peek() == '/')))
      ++at_;
    word = text_.substr(start, at_ - start);
    return !word.empty() && (quote == '\0' || take(quote));
  }

  const std::string& text_;
  std::size_t at_ = 0;
  bool commas_ = false;
};

class NoMessages : public google::protobuf::io::ErrorCollector {
  void AddError(int, google::protobuf::io::ColumnNumber, const std::string&) override {}
};

}  // namespace

std::vector<PythonSetting> python_settings(const caffe::LayerParameter& layer) {
  std::vector<PythonSetting> entries;
  DictionaryReader reader(layer.python_param().param_str());
  if (!reader.read(entries))
    refuse_python(
        layer, "param_str is not understood at ", quoted(reader.rest()),
        "; expected a dictionary of numbers, words and lists, as {feat_stride: 16, scales: [8, 16, 32]}");
  return entries;
}

void refuse_python_key(const caffe::LayerParameter& layer, const std::string& key,
                       const std::vector<std::string>& known) {
  refuse_python(layer, "param_str has the key ", quoted(key), "; known are ", join(known, ", "));
}

void read_python_settings(const caffe::LayerParameter& layer, google::protobuf::Message& settings) {
  std::vector<std::string> known;
  for (int i = 0; i < settings.GetDescriptor()->field_count(); ++i)
    known.emplace_back(settings.GetDescriptor()->field(i)->name());
  for (const PythonSetting& entry : python_settings(layer)) {
    const std::string name = entry.key == "scales" ? "scale" : entry.key == "ratios" ? "ratio" : entry.key;
    const auto* field = settings.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr) refuse_python_key(layer, entry.key, known);
    set_python_field(layer, entry, *field, settings);
  }
}

std::vector<std::string> comma_separated(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::size_t first = text.find_first_not_of(" \t\n", at),
                      last = text.find_last_not_of(" \t\n", end == 0 ? 0 : end - 1);
    words.push_back(first < end ? text.substr(first, last + 1 - first) : std::string());
    at = end + 1;
  }
  return words;
}

caffe::LayerParameter as_native(const caffe::LayerParameter& python, const std::string& type) {
  caffe::LayerParameter layer = python;
  layer.set_type(type);
  layer.clear_python_param();
  return layer;
}

void set_python_field(const caffe::LayerParameter& layer, const PythonSetting& entry,
                      const google::protobuf::FieldDescriptor& field, google::protobuf::Message& settings) {
  settings.GetReflection()->ClearField(&settings, &field);
  if (entry.list && !field.is_repeated())
    refuse_python(layer, "param_str: ", entry.key, " must be one value");
  google::protobuf::TextFormat::Parser parser;
  NoMessages silent;
  parser.RecordErrorsTo(&silent);
  for (const std::string& value : entry.values)
    if (!parser.MergeFromString(cat(field.name(), ": ", value), &settings))
      refuse_python(layer, "param_str: ", entry.key, " cannot be ", quoted(value));
}

}  // namespace banyan
