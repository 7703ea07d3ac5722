// In-Place ABN in a Net: what find_in_place_abn needs to know, and what the layers are told.
#include "banyan/base/contains.hpp"
#include "banyan/net/net.hpp"

namespace banyan {

void Net::choose_in_place_abn() {
  in_place_abn_.clear();
  std::vector<AbnNode> nodes;
  for (int i = 0; i < steps() && wants_in_place_abn_; ++i) {
    const Step& current = step(i);
    AbnNode& node = nodes.emplace_back();
    node.name = layer(i).name();
    node.type = layer(i).type();
    node.inputs = current.inputs;
    node.outputs = current.outputs;
    node.normalizes = layer(i).recovers_input();
    node.inverse = layer(i).inverse();
    node.needs_backward = current.needs_backward;
    node.reads_outputs = layer(i).backward_reads_outputs();
    node.source = layer(i).is_source();
    node.view = layer(i).shared_input(0) >= 0;
    node.converts_inputs = current.converts_inputs();
    node.weighted = current.weighted();
  }
  std::vector<int> kept;
  for (int b = 0; b < static_cast<int>(blobs_.size()); ++b)
    if (contains(outputs_, &blob(b))) kept.push_back(b);
  in_place_abn_ = find_in_place_abn(nodes, kept);
  for (int i = 0; i < steps(); ++i) {
    step(i).kept_output = -1;
    layer(i).keep_output(nullptr, {});
  }
  for (const InPlaceAbn& found : in_place_abn_) {
    if (found.activation < 0) continue;
    step(found.norm).kept_output = step(found.activation).outputs[0];
    layer(found.norm).keep_output(&blob(step(found.norm).kept_output), *layer(found.activation).inverse());
  }
}

std::int64_t Net::planned_without_in_place_abn() {
  if (in_place_abn_.empty()) return memory_plan_.total;
  const bool wants = wants_in_place_abn_;
  wants_in_place_abn_ = false;
  bind();
  const std::int64_t planned = memory_plan_.total;
  wants_in_place_abn_ = wants;
  bind();
  return planned;
}

}  // namespace banyan
