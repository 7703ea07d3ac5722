// A plan as readable text: `trainer summary --plan`.
#include <iomanip>
#include <sstream>

#include "banyan/base/contains.hpp"
#include "banyan/base/text.hpp"
#include "banyan/net/plan.hpp"

namespace banyan {
namespace {

using Row = std::vector<std::string>;

/// Columns as wide as their contents; the first holds numbers and is right-aligned.
std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (c == widths.size()) widths.push_back(0);
      widths[c] = std::max(widths[c], row[c].size());
    }
  std::ostringstream out;
  for (const Row& row : rows) {
    std::ostringstream line;
    for (std::size_t c = 0; c < row.size(); ++c)
      line << (c == 0 ? std::right : std::left) << std::setw(static_cast<int>(widths[c])) << row[c] << "  ";
    std::string text = line.str();
    text.erase(text.find_last_not_of(' ') + 1);
    out << "  " << text << "\n";
  }
  return out.str();
}

std::string place_of(int tensor, int shares_with, std::int64_t offset) {
  if (shares_with != tensor) return cat("that of ", shares_with);
  return offset < 0 ? "-" : std::to_string(offset);
}

std::string tensors_of(const Plan& plan) {
  std::vector<Row> rows{{"#", "tensor", "shape", "type", "layout", "data", "gradient"}};
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    const PlannedTensor& tensor = plan.tensors[t];
    const int number = static_cast<int>(t);
    std::string shape;
    for (const auto dim : tensor.shape.dims()) shape += cat(shape.empty() ? "" : "x", dim);
    rows.push_back({std::to_string(t), tensor.name, shape.empty() ? "scalar" : shape, name_of(tensor.dtype),
                    name_of(tensor.layout),
                    tensor.outside ? "outside" : place_of(number, tensor.data_of, tensor.data),
                    place_of(number, tensor.grad_of, tensor.grad)});
  }
  return table(rows);
}

std::string numbers(const std::vector<int>& list) {
  std::string text;
  for (const int number : list) text += cat(text.empty() ? "" : " ", number);
  return text;
}

std::string shown(const ops::Activation& activation) {
  if (activation.kind == ops::Activation::Kind::elu) return "an ELU";
  if (activation.kind == ops::Activation::Kind::clip)
    return cat("a clip to ", activation.low, " ... ", activation.high);
  return activation.slope == 0 ? "a ReLU" : cat("a ReLU with slope ", activation.slope);
}

/// What a step does besides running its layer.
std::vector<std::string> notes_of(const Graph& graph, const PlanStep& step) {
  const GraphLayer& layer = graph.layers[step.layer];
  std::vector<std::string> notes;
  const bool backward = step.work == Work::backward;
  if (backward && !step.needs_backward)
    notes.emplace_back("no gradient wanted");
  else if (!step.runs_layer && step.work != Work::convert)
    notes.emplace_back("runs as part of another step");
  for (const auto& [from, to] : step.copies) notes.push_back(cat("converts ", from, " to ", to));
  if (step.runs_layer && step.affine >= 0)
    notes.push_back(cat("with the slope and bias of ", graph.layers[step.affine].name));
  if (step.runs_layer && !backward) {
    if (step.expansion >= 0) {
      const std::string end = step.expanded.on() ? cat(" and ", shown(step.expanded)) : "";
      notes.push_back(cat("begins with ", graph.layers[step.expansion].name, end));
    }
    if (step.addend >= 0) notes.push_back(cat("adds ", step.addend));
    const ops::Activation& end = step.addend >= 0 ? step.sum : step.output;
    if (end.on()) notes.push_back(cat("ends with ", shown(end)));
    if (step.drop_layer >= 0)
      notes.push_back(cat("with the dropout of ", graph.layers[step.drop_layer].name));
  }
  if (step.runs_layer && backward) {
    if (step.output.on() && layer.traits.fuses_activation == ActivationFusion::both && step.kept_output < 0)
      notes.push_back(cat("begins with the gradient of ", shown(step.output)));
    if (step.input.on()) notes.push_back(cat("ends with the gradient of ", shown(step.input)));
    if (step.kept_output >= 0) notes.push_back(cat("recovers its input from ", step.kept_output));
  }
  for (const PlanStep::LossTerm& term : step.losses)
    notes.push_back(backward ? cat("gradient of ", term.tensor, term.receives ? " += " : " = ", term.weight)
                             : cat("loss ", term.first ? "= " : "+= ", term.weight, " * ", term.tensor));
  if (!step.clears.empty()) notes.push_back(cat("clears gradients of parameters ", numbers(step.clears)));
  if (step.fresh != 0) notes.emplace_back("overwrites gradients of parameters");
  // Where no gradient of an input is wanted, the sums of the backward pass stay on the device.
  const bool meets = backward ? layer.traits.meets == Meets::both_ways && contains(step.propagate, true)
                              : layer.traits.meets != Meets::never;
  if (meets && step.runs_layer && step.work != Work::recompute)
    notes.emplace_back("exchanges with other devices");
  if (step.completes) notes.emplace_back("gradients of parameters are complete: exchange begins");
  return notes;
}

/// Of a step that begins a run in parts.
std::string parts_from(const Plan& plan, std::size_t step) {
  for (const SampleParts& run : plan.parts)
    if (run.first == step)
      return cat("from here to ", run.end - 1, ": ", run.samples, run.samples == 1 ? " sample" : " samples",
                 " at a time");
  return "";
}

std::string steps_of(const Graph& graph, const Plan& plan, std::size_t first, std::size_t last) {
  std::vector<Row> rows{{"#", "step", "layer", "type", "from", "to", ""}};
  for (std::size_t i = first; i < last; ++i) {
    const PlanStep& step = plan.steps[i];
    const GraphLayer& layer = graph.layers[step.layer];
    const bool backward = step.work == Work::backward;
    std::vector<std::string> notes = notes_of(graph, step);
    if (const std::string parts = parts_from(plan, i); !parts.empty()) notes.push_back(parts);
    const char* const names[] = {"forward", "convert", "recompute", "backward"};
    rows.push_back({std::to_string(i), names[static_cast<int>(step.work)], layer.name, layer.type,
                    numbers(backward ? step.outputs : step.inputs),
                    numbers(backward ? step.inputs : step.outputs), join(notes, "; ")});
  }
  return table(rows);
}

}  // namespace

std::string to_text(const Graph& graph, const Plan& plan) {
  return cat("Tensors, with the places of data and gradient in ", plan.bytes, " bytes:\n", tensors_of(plan),
             "Forward:\n", steps_of(graph, plan, 0, plan.backward), "Backward:\n",
             graph.trains ? steps_of(graph, plan, plan.backward, plan.steps.size())
                          : "  none: the net does not train\n");
}

}  // namespace banyan
