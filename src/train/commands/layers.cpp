// `trainer layers`: every type of layer, as its code describes itself.
#include <algorithm>
#include <sstream>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/batch_source.hpp"
#include "banyan/io/notes.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/train/commands.hpp"
#include "field_table.hpp"
#include "io/other_types.hpp"

namespace banyan {
namespace {

struct TypeRow {
  std::string type, inputs, outputs, layout, in_place, about, settings;
};
/// All but the last, which has no width.
constexpr std::string TypeRow::*kColumns[] = {&TypeRow::type,   &TypeRow::inputs,   &TypeRow::outputs,
                                              &TypeRow::layout, &TypeRow::in_place, &TypeRow::about};

std::string count_of(int least, int most) {
  if (most < 0) return cat(least, " or more");
  return least == most ? std::to_string(least) : cat(least, " to ", most);
}

const char* layout_of(const LayerTraits& traits) {
  switch (traits.layout) {
    case LayoutRule::channels_last:
      return "channels-last";
    case LayoutRule::follows:
      return "any";
    default:
      return "contiguous";
  }
}

std::unique_ptr<Layer> plain_layer(const std::string& type) {
  caffe::LayerParameter parameter;
  parameter.set_type(type);
  return make_layer(parameter, {});
}

TypeRow describe(const std::string& type) {
  const LayerTraits traits = plain_layer(type)->traits();
  const LayerInfo& info = layer_info(type);
  const Arity& arity = traits.arity;
  return {type,
          count_of(arity.min_inputs, arity.max_inputs),
          arity.outputs_equal_inputs ? "as inputs" : count_of(arity.min_outputs, arity.max_outputs),
          layout_of(traits),
          traits.view != View::none ? "a view"
          : traits.in_place         ? "yes"
                                    : "no",
          info.about,
          join(info.messages(), ", ")};
}

/// Without the closing brace.
std::string open_json(const TypeRow& row) {
  return cat("{\"type\": ", json_string(row.type), ", \"inputs\": ", json_string(row.inputs),
             ", \"outputs\": ", json_string(row.outputs), ", \"layout\": ", json_string(row.layout),
             ", \"in_place\": ", json_string(row.in_place), ", \"settings\": ", json_string(row.settings),
             ", \"about\": ", json_string(row.about));
}

/// The fields of LayerParameter that hold settings of the type.
std::vector<const google::protobuf::FieldDescriptor*> settings_of(const std::string& type) {
  const std::unique_ptr<Layer> layer = plain_layer(type);
  std::vector<std::string> names = layer_info(type).messages();
  const bool refused = type == "HDF5Data" || type == "CPMData" || type == "CustomData" ||
                       type == "DataHeatmap" || type == "DocData";
  if (dynamic_cast<data::BatchSource*>(layer.get()) != nullptr && !refused)
    names.emplace_back("transform_param");
  if (layer->traits().loss && names != std::vector<std::string>{"loss_param"})
    names.emplace_back("loss_param");
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  for (const std::string& name : names)
    fields.push_back(caffe::LayerParameter::descriptor()->FindFieldByName(name));
  return fields;
}

std::string type_text(const std::string& type) {
  const TypeRow row = describe(type);
  std::string text = cat(row.type, ": ", row.about, "\n  inputs: ", row.inputs, "; outputs: ", row.outputs,
                         "; layout: ", row.layout, "; in place: ", row.in_place, "\n");
  for (const auto* field : settings_of(type)) {
    const std::string note = io::note_of(*field->message_type());
    text += cat("\n", field->name(), " (", field->message_type()->name(), ")", note.empty() ? "" : ": ", note,
                "\n", field_table(rows_of(*field->message_type())));
  }
  return text + "\nFields of every layer (name, bottom, top, include...): --help-field=LayerParameter\n";
}

std::string type_json(const std::string& type) {
  std::vector<std::string> messages;
  for (const auto* field : settings_of(type))
    messages.push_back(cat("{\"field\": ", json_string(field->name()),
                           ", \"message\": ", json_string(field->message_type()->name()),
                           ", \"about\": ", json_string(io::note_of(*field->message_type())),
                           ",\n  \"fields\": ", fields_json(rows_of(*field->message_type())), "}"));
  return open_json(describe(type)) + ", \"messages\": [" + join(messages, ",\n ") + "]}";
}

}  // namespace

std::string describe_layer_types(const std::vector<std::string>& types, bool json) {
  const std::vector<std::string> known = registered_layer_types();
  std::vector<std::string> texts;
  for (const std::string& type : types) {
    if (std::find(known.begin(), known.end(), type) == known.end()) {
      const std::string elsewhere = io::about_other_type(type);
      if (!elsewhere.empty()) bad_input("a layer that ", elsewhere);
      bad_input("there is no layer type ", quoted(type), io::did_you_mean_type(type),
                "; trainer layers lists all types");
    }
    texts.push_back(json ? type_json(type) : type_text(type));
  }
  return json ? "[" + join(texts, ",\n ") + "]\n" : join(texts, "\n");
}

std::string describe_layers(bool json) {
  std::vector<TypeRow> rows;
  for (const std::string& type : registered_layer_types()) rows.push_back(describe(type));
  std::ostringstream out;
  if (json) {
    std::vector<std::string> objects;
    for (const TypeRow& row : rows) objects.push_back(open_json(row) + "}");
    out << "[" << join(objects, ",\n ") << "]\n";
    return out.str();
  }
  rows.insert(rows.begin(), {"type", "inputs", "outputs", "layout", "in place", "what it does", "settings"});
  std::vector<int> widths;
  for (const auto column : kColumns) {
    std::size_t widest = 0;
    for (const TypeRow& row : rows) widest = std::max(widest, (row.*column).size());
    widths.push_back(static_cast<int>(widest) + 2);
  }
  for (const TypeRow& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < widths.size(); ++c) {
      line += row.*kColumns[c];
      if (c + 1 < widths.size() || !row.settings.empty())
        line.append(static_cast<std::size_t>(widths[c]) - (row.*kColumns[c]).size(), ' ');
    }
    out << line << row.settings << "\n";
  }
  return out.str();
}

}  // namespace banyan
