#include <algorithm>
#include <iomanip>
#include <sstream>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "train/commands/model.hpp"

namespace banyan {

namespace {

struct LayerRow {
  std::string name, type;
  std::vector<std::pair<std::string, Shape>> outputs;
  std::int64_t parameters = 0;
  double multiply_adds = 0;
  std::int64_t output_bytes = 0;
};

struct Summary {
  std::string net;
  std::vector<LayerRow> layers;
  std::int64_t parameters = 0, parameter_bytes = 0;
  double multiply_adds = 0;
  std::int64_t activation_bytes = 0;  ///< with the memory plan: activations and their gradients
  std::int64_t unshared_bytes = 0;    ///< the same if no blob shared memory
  std::vector<std::string> cuts;      ///< layers before which the net is cut for checkpointing
  std::int64_t uncut_bytes = 0;       ///< activation_bytes without checkpoints
  double repeated = 0;                ///< multiply-adds that are done twice
  std::vector<std::string> abn;       ///< batch normalizations in place with their activation
  std::vector<std::pair<int, std::string>> not_abn;  ///< layers that keep their input, and why
  std::int64_t without_abn_bytes = 0;                ///< activation_bytes without in_place_abn
};

Summary summary_of(Net& net) {
  Summary summary;
  summary.net = net.name();
  const auto element = static_cast<std::int64_t>(size_of(net.options().dtype));
  for (int i = 0; i < static_cast<int>(net.layers().size()); ++i) {
    const Layer& layer = *net.layers()[static_cast<std::size_t>(i)];
    LayerRow row;
    row.name = layer.name();
    row.type = layer.type();
    for (const Blob* output : net.outputs_of(i)) {
      row.outputs.emplace_back(output->name, output->shape);
      row.output_bytes += output->shape.count() * static_cast<std::int64_t>(size_of(output->dtype));
    }
    for (const auto& parameter : layer.parameters()) row.parameters += parameter.shape.count();
    row.multiply_adds = layer.forward_flops(net.inputs_of(i), net.outputs_of(i));
    summary.multiply_adds += row.multiply_adds;
    summary.layers.push_back(row);
  }
  // Owners only: a shared parameter counts once in the totals.
  for (const auto& parameter : net.parameters()) summary.parameters += parameter.count;
  summary.parameter_bytes = summary.parameters * element;
  summary.activation_bytes = net.memory_plan().total * element;
  summary.unshared_bytes = net.memory_plan().sum * element;
  summary.uncut_bytes = net.planned_without_checkpoints() * element;
  for (const int cut : net.checkpoint_cuts())
    summary.cuts.push_back(summary.layers[static_cast<std::size_t>(cut)].name);
  for (const auto& [work, layer] : net.schedule())
    if (work == Work::recompute)
      summary.repeated += summary.layers[static_cast<std::size_t>(layer)].multiply_adds;
  for (const InPlaceAbn& found : net.in_place_abn()) {
    if (found.activation < 0)
      summary.not_abn.emplace_back(found.norm, found.reason);
    else
      summary.abn.push_back(summary.layers[static_cast<std::size_t>(found.norm)].name);
  }
  summary.without_abn_bytes = net.planned_without_in_place_abn() * element;
  return summary;
}

std::string dims_text(const Shape& shape) {
  std::vector<std::string> dims;
  for (auto dim : shape.dims()) dims.push_back(std::to_string(dim));
  return dims.empty() ? "scalar" : join(dims, "x");
}

std::string megabytes(std::int64_t bytes) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(2) << static_cast<double>(bytes) / (1 << 20) << " MiB";
  return out.str();
}

/// 1234567 as 1.235 M
std::string scaled(double count) {
  const std::pair<double, const char*> scales[] = {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}};
  std::ostringstream out;
  out << std::setprecision(4);
  for (const auto& [scale, suffix] : scales)
    if (count >= scale) {
      out << count / scale << suffix;
      return out.str();
    }
  out << count;
  return out.str();
}

std::string as_table(const Summary& summary) {
  std::vector<std::vector<std::string>> rows = {
      {"layer", "type", "output", "parameters", "multiply-adds", "memory"}};
  for (const auto& layer : summary.layers) {
    std::vector<std::string> shapes;
    for (const auto& [blob, shape] : layer.outputs) shapes.push_back(dims_text(shape));
    rows.push_back({layer.name, layer.type, join(shapes, ", "), std::to_string(layer.parameters),
                    scaled(layer.multiply_adds), megabytes(layer.output_bytes)});
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
  out << "\n"
      << summary.parameters << " parameters (" << megabytes(summary.parameter_bytes) << "), "
      << scaled(summary.multiply_adds) << " multiply-adds in a forward pass\n"
      << "Activations and their gradients: " << megabytes(summary.activation_bytes) << " ("
      << megabytes(summary.unshared_bytes) << " if no blob shared memory)\n";
  if (!summary.cuts.empty())
    out << "Checkpoints: " << summary.cuts.size() + 1 << " segments, cut before " << join(summary.cuts, ", ")
        << "; " << megabytes(summary.uncut_bytes) << " without them; " << scaled(summary.repeated)
        << " multiply-adds are done twice\n";
  if (!summary.abn.empty() || !summary.not_abn.empty())
    out << "In-place ABN: " << summary.abn.size() << " of " << summary.abn.size() + summary.not_abn.size()
        << " batch normalizations; " << megabytes(summary.without_abn_bytes)
        << (summary.cuts.empty() ? " without it\n" : " without it, cut at the same places\n");
  for (const auto& [layer, reason] : summary.not_abn) {
    const LayerRow& row = summary.layers[static_cast<std::size_t>(layer)];
    out << "  " << quoted(row.name) << " (" << row.type << ") keeps its input: " << reason << "\n";
  }
  return out.str();
}

std::string as_json(const Summary& summary) {
  std::ostringstream out;
  out << std::setprecision(17) << "{\"net\": " << json_string(summary.net)
      << ", \"parameters\": " << summary.parameters << ", \"parameter_bytes\": " << summary.parameter_bytes
      << ", \"multiply_adds\": " << summary.multiply_adds
      << ", \"activation_bytes\": " << summary.activation_bytes
      << ", \"unshared_bytes\": " << summary.unshared_bytes << ", \"checkpoints\": {\"cut_before\": [";
  for (std::size_t i = 0; i < summary.cuts.size(); ++i)
    out << (i > 0 ? ", " : "") << json_string(summary.cuts[i]);
  out << "], \"bytes_without\": " << summary.uncut_bytes
      << ", \"repeated_multiply_adds\": " << summary.repeated << "}, \"in_place_abn\": {\"in_place\": [";
  for (std::size_t i = 0; i < summary.abn.size(); ++i)
    out << (i > 0 ? ", " : "") << json_string(summary.abn[i]);
  out << "], \"keep_their_input\": [";
  for (std::size_t i = 0; i < summary.not_abn.size(); ++i) {
    const auto& [layer, reason] = summary.not_abn[i];
    out << (i > 0 ? ", " : "")
        << "{\"name\": " << json_string(summary.layers[static_cast<std::size_t>(layer)].name)
        << ", \"reason\": " << json_string(reason) << "}";
  }
  out << "], \"bytes_without\": " << summary.without_abn_bytes << "}, \"layers\": [";
  for (std::size_t i = 0; i < summary.layers.size(); ++i) {
    const LayerRow& layer = summary.layers[i];
    out << (i > 0 ? "," : "") << "\n  {\"name\": " << json_string(layer.name)
        << ", \"type\": " << json_string(layer.type) << ", \"outputs\": [";
    for (std::size_t k = 0; k < layer.outputs.size(); ++k) {
      std::vector<std::string> dims;
      for (auto dim : layer.outputs[k].second.dims()) dims.push_back(std::to_string(dim));
      out << (k > 0 ? ", " : "") << "{\"name\": " << json_string(layer.outputs[k].first) << ", \"shape\": ["
          << join(dims, ", ") << "]}";
    }
    out << "], \"parameters\": " << layer.parameters << ", \"multiply_adds\": " << layer.multiply_adds
        << ", \"output_bytes\": " << layer.output_bytes << "}";
  }
  out << "\n]}\n";
  return out.str();
}

}  // namespace

std::string summarize_model(const ModelOptions& options, bool json) {
  Model model(options, true);
  const Summary summary = summary_of(model.net());
  return json ? as_json(summary) : as_table(summary);
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
