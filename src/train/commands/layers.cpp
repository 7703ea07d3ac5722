// `trainer layers`: every type of layer, as its code describes itself.
#include <algorithm>
#include <iomanip>
#include <sstream>

#include "banyan/base/text.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/train/commands.hpp"

namespace banyan {
namespace {

struct TypeRow {
  std::string type, inputs, outputs, layout, in_place, settings, about;
};

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

TypeRow describe(const std::string& type) {
  caffe::LayerParameter parameter;
  parameter.set_type(type);
  const LayerTraits traits = make_layer(parameter, {})->traits();
  const LayerInfo& info = layer_info(type);
  const Arity& arity = traits.arity;
  return {type,
          count_of(arity.min_inputs, arity.max_inputs),
          arity.outputs_equal_inputs ? "as inputs" : count_of(arity.min_outputs, arity.max_outputs),
          layout_of(traits),
          traits.view != View::none ? "a view"
          : traits.in_place         ? "yes"
                                    : "no",
          info.message,
          info.about};
}

}  // namespace

std::string describe_layers(bool json) {
  std::vector<TypeRow> rows;
  for (const std::string& type : registered_layer_types()) rows.push_back(describe(type));
  std::ostringstream out;
  if (json) {
    std::vector<std::string> objects;
    for (const TypeRow& row : rows)
      objects.push_back(
          cat("{\"type\": ", json_string(row.type), ", \"inputs\": ", json_string(row.inputs),
              ", \"outputs\": ", json_string(row.outputs), ", \"layout\": ", json_string(row.layout),
              ", \"in_place\": ", json_string(row.in_place), ", \"settings\": ", json_string(row.settings),
              ", \"about\": ", json_string(row.about), "}"));
    out << "[" << join(objects, ",\n ") << "]\n";
    return out.str();
  }
  rows.insert(rows.begin(), {"type", "inputs", "outputs", "layout", "in place", "settings", "what it does"});
  const auto width = [&](std::string TypeRow::*column) {
    std::size_t widest = 0;
    for (const TypeRow& row : rows) widest = std::max(widest, (row.*column).size());
    return static_cast<int>(widest) + 2;
  };
  for (const TypeRow& row : rows) {
    out << std::left;
    for (const auto column : {&TypeRow::type, &TypeRow::inputs, &TypeRow::outputs, &TypeRow::layout,
                              &TypeRow::in_place, &TypeRow::settings})
      out << std::setw(width(column)) << row.*column;
    out << row.about << "\n";
  }
  return out.str();
}

}  // namespace banyan
