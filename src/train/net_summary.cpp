#include "net_summary.hpp"

#include <algorithm>

namespace banyan {
namespace {

/// Does the layer write its output over one of its inputs?
bool works_in_place(const Net& net, int layer, std::size_t output) {
  const auto memory = [&](int tensor) {
    const std::vector<PlannedTensor>& tensors = net.plan().tensors;
    while (tensors[tensor].data_of != tensor) tensor = tensors[tensor].data_of;
    return tensor;
  };
  const GraphLayer& node = net.graph().layers[layer];
  return node.traits.view == View::none &&
         std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](int input) { return memory(input) == memory(node.outputs[output]); });
}

}  // namespace

NetSummary summary_of(const Net& net, const std::map<std::string, std::string>& stood_in_for) {
  NetSummary summary;
  summary.net = net.name();
  const auto element = static_cast<std::int64_t>(size_of(net.options().dtype));
  for (int i = 0; i < static_cast<int>(net.layers().size()); ++i) {
    const Layer& layer = *net.layers()[i];
    LayerSummary row;
    row.name = layer.name();
    const auto real = stood_in_for.find(row.name);
    row.type = real == stood_in_for.end() ? layer.type() : real->second;
    const Blobs inputs = net.inputs_of(i), outputs = net.outputs_of(i);
    for (const Blob* input : inputs) row.inputs.push_back(input->name);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const Blob& output = *outputs[k];
      row.outputs.emplace_back(output.name, output.shape);
      const bool in_place = works_in_place(net, i, k);
      row.in_place = row.in_place || in_place;
      const PlannedTensor& planned = net.plan().tensors[net.graph().layers[i].outputs[k]];
      const bool is_left_out = !planned.outside && planned.data < 0;  // a later step does the layer's work
      if (!in_place && !is_left_out && layer.traits().view == View::none)
        row.output_bytes += output.shape.count() * static_cast<std::int64_t>(size_of(output.dtype));
    }
    for (const int owner : net.parameter_store().owner[i]) {
      const LearnableParameter& parameter = net.parameters()[owner];
      (parameter.layer == row.name ? row.parameters : row.shared_parameters) += parameter.count;
    }
    row.multiply_adds = layer.forward_flops(inputs, outputs);
    summary.multiply_adds += row.multiply_adds;
    summary.layers.push_back(row);
  }
  for (const LearnableParameter& parameter : net.parameters()) {
    summary.parameters += parameter.count;
    if (parameter.is_statistic)
      summary.running_statistics += parameter.count;
    else if (parameter.lr_mult == 0)
      summary.not_learning += parameter.count;
  }
  summary.parameter_bytes = summary.parameters * element;
  const Plan& plan = net.plan();
  summary.activation_bytes = plan.bytes;
  summary.unshared_bytes = plan.unshared_bytes;
  summary.uncut_bytes = plan.bytes_without_cuts;
  summary.repeats = plan.repeats.size();
  for (const int cut : plan.cuts) summary.cuts.push_back(summary.layers[cut].name);
  for (const PlanStep& step : plan.steps)
    if (step.work == Work::recompute) summary.repeated += summary.layers[step.layer].multiply_adds;
  for (const InPlaceAbn& found : plan.in_place_abn) {
    if (found.activation < 0)
      summary.not_abn.emplace_back(found.norm, found.reason);
    else
      summary.abn.push_back(summary.layers[found.norm].name);
  }
  summary.without_abn_bytes = net.plan_without_in_place_abn().bytes;
  summary.precision = net.precision();
  return summary;
}

}  // namespace banyan
