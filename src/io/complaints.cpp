#include "complaints.hpp"

#include <algorithm>
#include <cctype>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/upgrade.hpp"
#include "other_types.hpp"
#include "proto/banyan.pb.h"

namespace banyan::io {
namespace {

namespace pb = google::protobuf;

/// Fields of branches, and why there is nothing for them here.
struct OtherField {
  const char *message, *field, *reason;
};
constexpr const char* kSparse =
    "it is of caffe-jacinto, which sets small weights to 0 while it trains; here all weights are trained";
constexpr OtherField kOtherFields[] = {
    {"DropoutParameter", "scale_test",
     "no description says what the branch that has it computes; scale_train: false (BVLC's opencl branch) "
     "multiplies tests by 1 - dropout_ratio in place of training by its inverse"},
    {"LayerParameter", "lstm_param",
     "it is of Junhyuk Oh's branch, whose Lstm has another order of parameters; LSTM with recurrent_param "
     "takes its place"},
    {"ParameterParameter", "blob_filler",
     "it is a branch's; a Parameter begins with zeros here, and --weights gives it other values"},
    {"ROIPoolingParameter", "pooled_size",
     "it is Intel's, for maps with three spatial axes; pooled_h and pooled_w are the sizes for two"},
    {"SolverParameter", "display_sparsity", kSparse},
    {"SolverParameter", "multinode_param",
     "it is Intel's, for its servers of parameters; trainer --uplink=mpi and --parameter_server join "
     "machines"},
    {"SolverParameter", "solver_trace_param",
     "it is a branch's; trainer --metrics=FOLDER writes the figures of a run, --trace=FILE where its time "
     "goes"},
    {"SolverParameter", "sparse_mode", kSparse},
    {"SolverParameter", "sparsity_start_factor", kSparse},
    {"SolverParameter", "sparsity_start_iter", kSparse},
    {"SolverParameter", "sparsity_step_factor", kSparse},
    {"SolverParameter", "sparsity_step_iter", kSparse},
    {"SolverParameter", "sparsity_target", kSparse},
    {"SolverParameter", "stepearly",
     "it is of an early Caffe; lr_policy: \"plateau\" lowers the rate when the loss does not fall any more"},
};

/// The same of values of enumerations.
struct OtherValue {
  const char *field, *value, *reason;
};
constexpr OtherValue kOtherValues[] = {
    {"pool", "MIN",
     "it is a branch's; a Power layer with scale: -1 before and after a Pooling with pool: MAX computes it"},
};

/// What an unknown V1 type is read as: NONE, by its number.
constexpr const char* kUnknownV1Type = "0";

/// The text between the n-th pair of double quotes.
std::string quoted_part(const std::string& message, int n) {
  std::size_t begin = 0;
  for (int quote = 0; quote < 2 * n; ++quote) {
    begin = message.find('"', begin);
    if (begin == std::string::npos) return "";
    ++begin;
  }
  begin = message.find('"', begin);
  if (begin == std::string::npos) return "";
  const std::size_t end = message.find('"', begin + 1);
  return end == std::string::npos ? "" : message.substr(begin + 1, end - begin - 1);
}

std::vector<std::string> field_names(const pb::Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

/// Messages inside `type` that know the field, as `a or b`; at most five of them.
std::string homes_of(const std::string& field, const pb::Descriptor& type) {
  std::vector<std::string> homes;
  for (int i = 0; i < type.field_count(); ++i) {
    const pb::Descriptor* inner = type.field(i)->message_type();
    if (inner != nullptr && inner->FindFieldByName(field) != nullptr) homes.push_back(type.field(i)->name());
  }
  if (homes.size() > 5) {
    homes.resize(5);
    homes.push_back("...");
  }
  return join(homes, " or ");
}

/// The values of an enum field of that message; without the message, of every enum field called so.
std::vector<std::string> values_of(const std::string& field, const pb::Descriptor* type,
                                   const pb::FileDescriptor& file) {
  std::vector<std::string> values;
  const auto add = [&](const pb::Descriptor& message) {
    const pb::FieldDescriptor* found = message.FindFieldByName(field);
    if (found == nullptr || found->enum_type() == nullptr) return;
    for (int k = 0; k < found->enum_type()->value_count(); ++k)
      if (!contains(values, found->enum_type()->value(k)->name()))
        values.push_back(found->enum_type()->value(k)->name());
  };
  if (type != nullptr) {
    add(*type);
  } else {
    for (int i = 0; i < file.message_type_count(); ++i) add(*file.message_type(i));
  }
  std::sort(values.begin(), values.end());
  return values;
}

/// The message that the blocks are of; nullptr if one of them is unknown.
const pb::Descriptor* message_of(const pb::Descriptor& root, const std::vector<TextBlock>& blocks) {
  const pb::Descriptor* type = &root;
  for (const TextBlock& block : blocks) {
    const pb::FieldDescriptor* field = type->FindFieldByName(block.name);
    type = field == nullptr ? nullptr : field->message_type();
    if (type == nullptr) return nullptr;
  }
  return type;
}

}  // namespace

void Complaints::AddError(int line, pb::io::ColumnNumber column, const std::string& message) {
  errors_.push_back(reworded(line, column, message));
}

void Complaints::AddWarning(int line, pb::io::ColumnNumber column, const std::string& message) {
  raw_warnings_.push_back({line, column, message});
}

std::vector<Complaint> Complaints::warnings() {
  std::vector<Complaint> warnings;
  for (const Raw& raw : raw_warnings_) warnings.push_back(reworded(raw.line, raw.column, raw.message));
  return warnings;
}

Complaint Complaints::reworded(int line, int column, const std::string& message) {
  at_ = locate(text_, line, column);
  const std::string words = in_words(message);
  return {kind_, at_.offset, with_place(words)};
}

/// Within a layer, its name and type come first, but for a type that stands in for an unknown one.
std::string Complaints::with_place(const std::string& words) const {
  std::string layer;
  for (const TextBlock& block : blocks_around(text_, at_.offset)) {
    if (block.name != "layer" && block.name != "layers") continue;
    const std::string name = value_in(text_, block, "name"), type = value_in(text_, block, "type");
    if (name.empty() && type.empty()) continue;
    layer = name.empty() ? "layer" : cat("layer ", quoted(name, 60));
    if (!type.empty() && type != kUnknownV1Type) layer += cat(" (", type.substr(0, 60), ")");
    layer += ": ";
  }
  return cat(origin_, ":", at_.line + 1, ":", at_.column + 1, ": ", layer, words);
}

std::string Complaints::in_words(const std::string& message) {
  kind_ = Complaint::Kind::other;
  if (message.find("has no field named") != std::string::npos) {
    return unknown_field(quoted_part(message, 0), quoted_part(message, 1));
  }
  if (message.rfind("Unknown enumeration value", 0) == 0) {
    kind_ = Complaint::Kind::unknown_value;
    return unknown_value(quoted_part(message, 0), quoted_part(message, 1));
  }
  if (message.find("recursion limit") != std::string::npos) {
    return cat("blocks are nested more than ", kDeepestNesting, " deep");
  }
  if (message.find("is specified multiple times") != std::string::npos) {
    kind_ = Complaint::Kind::given_twice;
    const std::string name = quoted_part(message, 0);
    at_ = move_to_name(text_, at_, name);
    return cat("\"", name, "\" is given twice, but can be given only once here");
  }
  std::string words = message;
  while (!words.empty() && words.back() == '.') words.pop_back();
  const std::size_t got = words.find(", got: ");
  if (got != std::string::npos) {
    const std::string found = words.substr(got + 7);
    words = words.substr(0, got) + ", found " + (found.empty() ? "the end of the file" : quoted(found, 60));
  }
  words[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(words[0])));
  return words;
}

std::string Complaints::unknown_field(const std::string& type_name, const std::string& field) {
  at_ = move_to_name(text_, at_, field);
  const pb::Descriptor* type = root_.file()->pool()->FindMessageTypeByName(type_name);
  if (type == nullptr) return cat("unknown field ", quoted(field, 60));
  std::string words = cat("unknown field ", quoted(field, 60), " in ", type->name());
  for (const OtherField& other : kOtherFields)
    if (type->name() == other.message && field == other.field) return cat(words, ": ", other.reason);
  const bool of_layer = type->name() == "LayerParameter" || type->name() == "V1LayerParameter";
  if (of_layer && field.ends_with("_param") && type_of_layer() == kUnknownV1Type)
    return words + ": it belongs to the type that is unknown";
  if (const std::string other = about_layer(); (!of_layer || field.ends_with("_param")) && !other.empty())
    return cat(words, ": the layer ", other);
  const std::string homes = homes_of(field, *type);
  if (type == &root_ && type->name() == "SolverParameter" && !homes.empty()) {
    return words + ": it is a field of a net; is this a net's file instead of a solver's?";
  }
  if (type == &root_ && type->name() == "NetParameter" &&
      caffe::SolverParameter::descriptor()->FindFieldByName(field) != nullptr) {
    return words + ": it is a field of a solver; is this a solver's file instead of a net's?";
  }
  if (!homes.empty()) return cat(words, ": it belongs inside ", homes);
  return words + did_you_mean(field, field_names(*type));
}

/// Of the layer around, if its type is one that is not here; else "". A Python layer may have a native one's
/// place, and its settings are known.
std::string Complaints::about_layer() const {
  const std::string type = current_type_name(type_of_layer());
  return type == "Python" ? "" : about_other_type(type);
}

/// As it is written in the layer around; "" outside of layers.
std::string Complaints::type_of_layer() const {
  const std::vector<TextBlock> blocks = blocks_around(text_, at_.offset);
  const auto layer = std::find_if(blocks.rbegin(), blocks.rend(), [](const TextBlock& block) {
    return block.name == "layer" || block.name == "layers";
  });
  return layer == blocks.rend() ? "" : value_in(text_, *layer, "type");
}

std::string Complaints::unknown_value(const std::string& value, const std::string& field) {
  at_ = move_to_name(text_, at_, value);
  const pb::Descriptor* type = message_of(root_, blocks_around(text_, at_.offset));
  const std::vector<std::string> known = values_of(field, type, *root_.file());
  stand_in_.clear();
  if (type == caffe::V1LayerParameter::descriptor() && field == "type") return unknown_v1_type(value, known);
  const pb::FieldDescriptor* found = type == nullptr ? nullptr : type->FindFieldByName(field);
  if (found != nullptr && found->enum_type() != nullptr) {
    const pb::EnumValueDescriptor* meant = found->enum_type()->FindValueByName(nearest_name(value, known));
    stand_in_ = std::to_string((meant != nullptr ? meant : found->enum_type()->value(0))->number());
  }
  const std::string words = cat("unknown value ", quoted(value, 60), " for ", quoted(field, 60)),
                    near = did_you_mean(value, known);
  for (const OtherValue& other : kOtherValues)
    if (field == other.field && value == other.value)
      return cat(words, ": ", other.reason, "; known values: ", join(known, ", "));
  return known.empty() ? words : cat(words, near, "; known values: ", join(known, ", "));
}

/// A type that is hardly misspelled stands for itself; of a guess that is further off nothing more is said.
std::string Complaints::unknown_v1_type(const std::string& value, std::vector<std::string> known) {
  std::erase(known, "NONE");
  const std::string nearest = nearest_name(value, known);
  caffe::V1LayerParameter::LayerType meant = caffe::V1LayerParameter::NONE;
  if (edit_distance(value.substr(0, 100), nearest) <= 2)
    caffe::V1LayerParameter::LayerType_Parse(nearest, &meant);
  stand_in_ = std::to_string(static_cast<int>(meant));
  const std::string other = about_other_v1_type(value);
  if (!other.empty()) return cat("the layer ", other);
  return cat("unknown value ", quoted(value, 60), " for \"type\"", did_you_mean(value, known),
             "; trainer layers lists all types, by their current names");
}

}  // namespace banyan::io
