#include <algorithm>
#include <iomanip>
#include <sstream>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/base/units.hpp"
#include "banyan/train/commands.hpp"
#include "train/net_summary.hpp"

namespace banyan {

namespace {

std::vector<std::string> dims_of(const Shape& shape) {
  std::vector<std::string> dims;
  for (const auto dim : shape.dims()) dims.push_back(std::to_string(dim));
  return dims;
}

std::string dims_text(const Shape& shape) {
  return shape.dims().empty() ? "scalar" : join(dims_of(shape), "x");
}

std::string as_table(const NetSummary& summary) {
  std::vector<std::vector<std::string>> rows = {
      {"layer", "type", "output", "parameters", "multiply-adds", "memory"}};
  for (const auto& layer : summary.layers) {
    std::vector<std::string> shapes;
    for (const auto& [blob, shape] : layer.outputs) shapes.push_back(dims_text(shape));
    std::string parameters = std::to_string(layer.parameters);
    if (layer.shared_parameters > 0) parameters += cat(" (+", layer.shared_parameters, " shared)");
    rows.push_back({layer.name, layer.type, join(shapes, ", "), parameters, scaled(layer.multiply_adds),
                    layer.in_place ? "in place" : size_text(layer.output_bytes)});
  }
  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::ostringstream out;
  out << "Net " << quoted(summary.net) << "\n";
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c)
      out << (c < 3 ? std::left : std::right) << std::setw(static_cast<int>(widths[c])) << row[c]
          << (c + 1 < row.size() ? "  " : "\n");
  }
  out << "\n" << summary.parameters << " parameters (" << size_text(summary.parameter_bytes);
  if (summary.running_statistics > 0) out << "; " << summary.running_statistics << " are running statistics";
  if (summary.not_learning > 0) out << "; " << summary.not_learning << " do not learn";
  out << "), " << scaled(summary.multiply_adds) << " multiply-adds in a forward pass\n"
      << "Activations and their gradients: " << size_text(summary.activation_bytes) << " ("
      << size_text(summary.unshared_bytes) << " if no blob shared memory)\n";
  if (summary.precision.storage != summary.precision.master)
    out << "Precision: activations in " << name_of(summary.precision.storage)
        << " where the layers' types allow it, products of " << name_of(summary.precision.compute)
        << ", parameters in " << name_of(summary.precision.master) << "\n";
  if (!summary.cuts.empty())
    out << "Checkpoints: " << summary.cuts.size() + 1 << " segments, cut before " << join(summary.cuts, ", ")
        << "; " << size_text(summary.uncut_bytes) << " without them; " << scaled(summary.repeated)
        << " multiply-adds are done twice\n";
  if (summary.repeats > 0)
    out << "Made again before the backward pass: " << summary.repeats
        << (summary.repeats == 1 ? " batch normalization; " : " batch normalizations; ")
        << size_text(summary.uncut_bytes) << " without that (checkpoint: \"off\")\n";
  if (!summary.abn.empty() || !summary.not_abn.empty())
    out << "In-place ABN: " << summary.abn.size() << " of " << summary.abn.size() + summary.not_abn.size()
        << " batch normalizations; " << size_text(summary.without_abn_bytes)
        << (summary.cuts.empty() ? " without it\n" : " without it, cut at the same places\n");
  for (const auto& [layer, reason] : summary.not_abn) {
    const LayerSummary& row = summary.layers[layer];
    out << "  " << quoted(row.name) << " (" << row.type << ") keeps its input: " << reason << "\n";
  }
  return out.str();
}

std::string as_json(const NetSummary& summary) {
  std::vector<std::string> not_abn;
  for (const auto& [layer, reason] : summary.not_abn)
    not_abn.push_back(cat("{\"name\": ", json_string(summary.layers[layer].name),
                          ", \"reason\": ", json_string(reason), "}"));
  std::ostringstream out;
  out << std::setprecision(17) << "{\"net\": " << json_string(summary.net)
      << ", \"parameters\": " << summary.parameters << ", \"parameter_bytes\": " << summary.parameter_bytes
      << ", \"multiply_adds\": " << summary.multiply_adds
      << ", \"activation_bytes\": " << summary.activation_bytes
      << ", \"running_statistics\": " << summary.running_statistics
      << ", \"not_learning\": " << summary.not_learning << ", \"unshared_bytes\": " << summary.unshared_bytes
      << ", \"precision\": {\"storage\": " << json_string(name_of(summary.precision.storage))
      << ", \"compute\": " << json_string(name_of(summary.precision.compute))
      << ", \"master\": " << json_string(name_of(summary.precision.master))
      << "}, \"checkpoints\": {\"cut_before\": " << json_strings(summary.cuts)
      << ", \"made_again\": " << summary.repeats << ", \"bytes_without\": " << summary.uncut_bytes
      << ", \"repeated_multiply_adds\": " << summary.repeated
      << "}, \"in_place_abn\": {\"in_place\": " << json_strings(summary.abn)
      << ", \"keep_their_input\": " << json_array(not_abn)
      << ", \"bytes_without\": " << summary.without_abn_bytes << "}, \"layers\": [";
  for (std::size_t i = 0; i < summary.layers.size(); ++i) {
    const LayerSummary& layer = summary.layers[i];
    std::vector<std::string> outputs;
    for (const auto& [name, shape] : layer.outputs)
      outputs.push_back(
          cat("{\"name\": ", json_string(name), ", \"shape\": ", json_array(dims_of(shape)), "}"));
    out << (i > 0 ? "," : "") << "\n  {\"name\": " << json_string(layer.name)
        << ", \"type\": " << json_string(layer.type) << ", \"outputs\": " << json_array(outputs)
        << ", \"inputs\": " << json_strings(layer.inputs) << ", \"parameters\": " << layer.parameters
        << ", \"shared_parameters\": " << layer.shared_parameters
        << ", \"multiply_adds\": " << layer.multiply_adds
        << ", \"in_place\": " << (layer.in_place ? "true" : "false")
        << ", \"output_bytes\": " << layer.output_bytes << "}";
  }
  out << "\n]}\n";
  return out.str();
}

}  // namespace

std::string summarize_model(const ModelOptions& options, SummaryFormat format) {
  ModelOptions of_model = options;
  of_model.missing_data = true;
  Model model(of_model, true);
  if (format == SummaryFormat::plan) return to_text(model.net().graph(), model.net().plan());
  const NetSummary summary = summary_of(model.net(), model.stood_in_for());
  return format == SummaryFormat::json ? as_json(summary) : as_table(summary);
}

std::pair<std::string, Shape> parse_shape_flag(const std::string& text) {
  const auto refuse = [&]() {
    bad_input("--shape=", text, ": expected BLOB:DIM,DIM,... such as data:32,3,227,227");
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) refuse();
  std::vector<std::int64_t> dims;
  std::istringstream list(text.substr(colon + 1));
  for (std::string item; std::getline(list, item, ',');) {
    if (item.empty() || item.size() > 12 ||
        !std::all_of(item.begin(), item.end(), [](char c) { return c >= '0' && c <= '9'; }))
      refuse();
    dims.push_back(std::stoll(item));
  }
  if (dims.empty() || text.back() == ',') refuse();
  return {text.substr(0, colon), Shape(dims)};
}

}  // namespace banyan
