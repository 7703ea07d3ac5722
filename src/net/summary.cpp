#include "banyan/net/summary.hpp"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan {
namespace {

LayerSummary summarize_layer(const Net& net, int index) {
  const Layer& layer = *net.layers()[static_cast<std::size_t>(index)];
  const Blobs inputs = net.inputs_of(index), outputs = net.outputs_of(index);
  LayerSummary row;
  row.name = layer.name();
  row.type = layer.type();
  row.needs_backward = net.needs_backward(index);
  row.flops = net.opened(index) ? 2 * layer.forward_flops(inputs, outputs) : 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Blob* output = outputs[i];
    row.output_names.push_back(output->name);
    row.output_shapes.push_back(output->shape);
    const bool in_place = std::find(inputs.begin(), inputs.end(), output) != inputs.end();
    row.in_place = row.in_place || in_place;
    if (!in_place && layer.shared_input(static_cast<int>(i)) < 0)
      row.activation_bytes += output->shape.count() * static_cast<std::int64_t>(size_of(output->dtype));
  }
  return row;
}

std::string with_separators(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (int i = static_cast<int>(digits.size()) - 3; i > (number < 0 ? 1 : 0); i -= 3)
    digits.insert(static_cast<std::size_t>(i), ",");
  return digits;
}

std::string mebibytes(std::int64_t bytes) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(2) << static_cast<double>(bytes) / (1 << 20) << " MiB";
  return out.str();
}

std::string millions(double flops) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(2) << flops / 1e6;
  return out.str();
}

std::string shape_text(const Shape& shape) {
  std::string text;
  for (const std::int64_t dim : shape.dims()) text += (text.empty() ? "" : " ") + std::to_string(dim);
  return text.empty() ? "(scalar)" : text;
}

using Row = std::vector<std::string>;

std::string aligned(const std::vector<Row>& rows, std::size_t left_columns) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (c == widths.size()) widths.push_back(0);
      widths[c] = std::max(widths[c], row[c].size());
    }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string space(widths[c] - row[c].size(), ' ');
      line += (c == 0 ? "" : "  ") + (c < left_columns ? row[c] + space : space + row[c]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

}  // namespace

NetSummary summarize(const Net& net) {
  NetSummary summary;
  summary.name = net.name();
  summary.phase = net.options().phase == Phase::train ? "TRAIN" : "TEST";
  const auto element = static_cast<std::int64_t>(size_of(net.options().dtype));
  for (int i = 0; i < static_cast<int>(net.layers().size()); ++i) {
    LayerSummary row = summarize_layer(net, i);
    for (const int owner : net.parameter_owners(i)) {
      const LearnableParameter& parameter = net.parameters()[static_cast<std::size_t>(owner)];
      (parameter.layer == row.name ? row.parameters : row.shared_parameters) += parameter.count;
    }
    summary.flops += row.flops;
    summary.activation_bytes += row.activation_bytes;
    summary.layers.push_back(std::move(row));
  }
  for (const LearnableParameter& parameter : net.parameters()) {
    const bool learns = !parameter.is_statistic && parameter.lr_mult != 0;
    summary.parameters += parameter.count;
    if (parameter.is_statistic) summary.statistics += parameter.count;
    if (!learns && !parameter.is_statistic) summary.frozen_parameters += parameter.count;
    summary.parameter_bytes += parameter.count * element * (learns && net.has_backward() ? 2 : 1);
  }
  summary.planned_bytes = net.memory_plan().total * element;
  summary.unplanned_bytes = net.memory_plan().sum * element;
  summary.layout_conversions = net.layout_conversions();
  return summary;
}

std::string to_table(const NetSummary& summary) {
  std::vector<Row> rows{{"layer", "type", "output", "shape", "parameters", "MFLOP", "kept"}};
  for (const LayerSummary& layer : summary.layers) {
    const std::size_t lines = std::max<std::size_t>(1, layer.output_names.size());
    for (std::size_t i = 0; i < lines; ++i) {
      Row row = i == 0 ? Row{layer.name, layer.type} : Row{"", ""};
      row.push_back(i < layer.output_names.size() ? layer.output_names[i] : "");
      row.push_back(i < layer.output_shapes.size() ? shape_text(layer.output_shapes[i]) : "");
      if (i == 0) {
        row.push_back(with_separators(layer.parameters) +
                      (layer.shared_parameters > 0
                           ? " (+" + with_separators(layer.shared_parameters) + " shared)"
                           : ""));
        row.push_back(millions(layer.flops));
        row.push_back(layer.in_place ? "in place" : mebibytes(layer.activation_bytes));
      }
      rows.push_back(row);
    }
  }
  std::string text = cat("Net ", quoted(summary.name), ", phase ", summary.phase, '\n', aligned(rows, 4));
  text += cat("Parameters: ", with_separators(summary.parameters), " (",
              with_separators(summary.frozen_parameters), " frozen, ", with_separators(summary.statistics),
              " running statistics), ", mebibytes(summary.parameter_bytes),
              summary.phase == "TRAIN" ? " with gradients\n" : "\n");
  text += cat("Forward pass: ", millions(summary.flops), " MFLOP\n");
  text += cat("Activations: ", mebibytes(summary.activation_bytes), "; with gradients ",
              mebibytes(summary.unplanned_bytes), ", planned into ", mebibytes(summary.planned_bytes), '\n');
  text += cat("Layout conversions per pass: ", summary.layout_conversions, '\n');
  return text;
}

std::string to_json(const NetSummary& summary) {
  std::ostringstream out;
  out << std::setprecision(17);
  out << "{\"name\": " << json_string(summary.name) << ", \"phase\": \"" << summary.phase
      << "\", \"layers\": [";
  for (std::size_t l = 0; l < summary.layers.size(); ++l) {
    const LayerSummary& layer = summary.layers[l];
    out << (l == 0 ? "" : ", ") << "{\"name\": " << json_string(layer.name)
        << ", \"type\": " << json_string(layer.type) << ", \"outputs\": [";
    for (std::size_t i = 0; i < layer.output_names.size(); ++i) {
      out << (i == 0 ? "" : ", ") << "{\"name\": " << json_string(layer.output_names[i]) << ", \"shape\": [";
      const std::vector<std::int64_t>& dims = layer.output_shapes[i].dims();
      for (std::size_t d = 0; d < dims.size(); ++d) out << (d == 0 ? "" : ", ") << dims[d];
      out << "]}";
    }
    out << "], \"parameters\": " << layer.parameters << ", \"shared_parameters\": " << layer.shared_parameters
        << ", \"flops\": " << layer.flops << ", \"activation_bytes\": " << layer.activation_bytes
        << ", \"in_place\": " << (layer.in_place ? "true" : "false")
        << ", \"needs_backward\": " << (layer.needs_backward ? "true" : "false") << "}";
  }
  out << "], \"parameters\": " << summary.parameters
      << ", \"frozen_parameters\": " << summary.frozen_parameters
      << ", \"statistics\": " << summary.statistics << ", \"flops\": " << summary.flops
      << ", \"parameter_bytes\": " << summary.parameter_bytes
      << ", \"activation_bytes\": " << summary.activation_bytes
      << ", \"unplanned_bytes\": " << summary.unplanned_bytes
      << ", \"planned_bytes\": " << summary.planned_bytes
      << ", \"layout_conversions\": " << summary.layout_conversions << "}";
  return out.str();
}

}  // namespace banyan
