#include "banyan/net/tensor_uses.hpp"

namespace banyan {
namespace {

class Builder {
 public:
  Builder(const Graph& graph, const Activations& activations) : graph_(graph), activations_(activations) {
    for (std::size_t b = 0; b < graph.blobs.size(); ++b) {
      const int blob = static_cast<int>(b);
      const bool outside = graph.from_source(blob);
      const int tensor = add(*activations.blobs[b], graph.has_gradient(blob), outside);
      uses_.keeps_data[tensor] = graph.loss_weight(blob) != 0;
    }
    for (const int output : graph.outputs()) uses_.keeps_data[output] = true;
  }

  void add_layer(int index, const Fusion& fusion, int kept_by, double cost) {
    const GraphLayer& layer = graph_.layers[index];
    const LayerTraits& traits = layer.traits;
    LayerUse& use = uses_.layers.emplace_back();
    use.outputs = layer.outputs;
    use.needs_backward = layer.needs_backward;
    if (kept_by >= 0) use.backward_reads = {graph_.layers[kept_by].outputs[0]};
    const auto ends_with_gradient = [&](InputActivation by) {
      return fusion.input.on() && traits.fuses_activation_of_input == by;
    };
    const bool reads_inputs = traits.backward_reads_inputs || ends_with_gradient(InputActivation::by_input);
    const bool begins_with_elu = fusion.output.kind == ops::Activation::Kind::elu &&
                                 traits.fuses_activation == ActivationFusion::both && kept_by < 0;
    const bool reads_outputs = traits.backward_reads_outputs || begins_with_elu ||
                               ends_with_gradient(InputActivation::relu_by_output);
    const bool backward = layer.needs_backward && !fusion.backward_elsewhere;
    use.reads_inputs = backward && reads_inputs && kept_by < 0;
    use.reads_outputs = backward && reads_outputs;
    use.propagate = layer.propagate;
    use.passes_gradient = traits.passes_gradient;
    use.gathers_gradients = traits.gathers_gradients;
    for (const double weight : layer.loss_weights) use.weighted.push_back(weight != 0);
    use.view = traits.view != View::none;
    // In place by the layer itself, whoever runs its backward pass.
    use.in_place = traits.in_place &&
                   !(layer.needs_backward && traits.backward_reads_inputs && kept_by < 0) &&
                   activations_.layers[index].output_like_input();
    use.backward_elsewhere = fusion.backward_elsewhere;
    use.forward_elsewhere = fusion.forward_elsewhere;
    use.repeatable = traits.repeatable;
    use.one_sweep = traits.one_sweep && fusion.addend < 0;
    use.cost = cost;
    if (fusion.left_out) {
      use.outputs.clear();
      use.backward_elsewhere = false;
      if (traits.activation.on()) share_fused(layer, fusion);
      return;
    }
    // An expansion's input is not converted, so it is one of the graph's blobs.
    if (fusion.expansion >= 0)
      use.inputs = graph_.layers[fusion.expansion].inputs, use.converted_from = {-1};
    else
      add_inputs(index, use);
    if (use.view) show_input(layer, use);
    share_fused(layer, fusion);
  }

  TensorUses take() { return std::move(uses_); }

 private:
  int add(const Blob& blob, bool has_grad, bool outside) {
    const int number = static_cast<int>(uses_.data_of.size());
    const std::int64_t bytes = blob.shape.count() * static_cast<std::int64_t>(size_of(blob.dtype));
    uses_.data_of.push_back(number);
    uses_.grad_of.push_back(number);
    uses_.has_grad.push_back(has_grad);
    uses_.keeps_data.push_back(false);
    uses_.data_size.push_back(outside ? 0 : bytes);
    uses_.grad_size.push_back(bytes);
    return number;
  }

  void add_inputs(int index, LayerUse& use) {
    const GraphLayer& layer = graph_.layers[index];
    const LayerBlobs& blobs = activations_.layers[index];
    for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
      if (blobs.conversions[i] == Conversion::none) {
        use.inputs.push_back(layer.inputs[i]);
        use.converted_from.push_back(-1);
        continue;
      }
      const int stand_in = add(*blobs.stand_ins[i], layer.propagate[i], false);
      use.inputs.push_back(stand_in);
      use.converted_from.push_back(layer.inputs[i]);
      if (blobs.conversions[i] != Conversion::relabel) continue;
      uses_.data_of[stand_in] = layer.inputs[i];
      uses_.grad_of[stand_in] = layer.inputs[i];
    }
  }

  void show_input(const GraphLayer& layer, const LayerUse& use) {
    const int source = use.inputs[0];
    for (const int output : layer.outputs) {
      uses_.data_of[output] = source;
      if (layer.traits.view == View::data_and_gradient && layer.propagate[0] && uses_.has_grad[output])
        uses_.grad_of[output] = source;
    }
  }

  /// A layer that runs another's activation, dropout, Scale or sum writes its result where that layer would;
  /// where others run its backward pass, its output's gradient counts as its input's.
  void share_fused(const GraphLayer& layer, const Fusion& fusion) {
    if (fusion.forward_elsewhere && !layer.traits.plain_sum)
      uses_.data_of[layer.outputs[0]] = layer.inputs[0];
    if (fusion.backward_elsewhere) uses_.grad_of[layer.outputs[0]] = layer.inputs[0];
    if (fusion.sum_layer >= 0) uses_.data_of[graph_.layers[fusion.sum_layer].outputs[0]] = layer.outputs[0];
  }

  const Graph& graph_;
  const Activations& activations_;
  TensorUses uses_;
};

}  // namespace

TensorUses find_tensor_uses(const Graph& graph, const Activations& activations,
                            const std::vector<Fusion>& fusions, const std::vector<int>& kept_by,
                            const std::vector<double>& costs) {
  Builder builder(graph, activations);
  for (int i = 0; i < static_cast<int>(graph.layers.size()); ++i)
    builder.add_layer(i, fusions[i], kept_by[i], costs[i]);
  return builder.take();
}

}  // namespace banyan
