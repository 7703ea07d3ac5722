#include "banyan/net/fold.hpp"

#include <algorithm>
#include <optional>

#include "banyan/base/text.hpp"
#include "banyan/layers/batch_norm.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/tensor/values.hpp"

namespace banyan {
namespace {

/// y = factor x + offset, per index of one axis: a channel.
struct ChannelMap {
  std::vector<double> factor, offset;

  /// Appends `next`, which is applied after this one.
  void append(const ChannelMap& next) {
    for (std::size_t c = 0; c < factor.size(); ++c) {
      factor[c] *= next.factor[c];
      offset[c] = offset[c] * next.factor[c] + next.offset[c];
    }
  }
};

class Folding {
 public:
  explicit Folding(const Net& net) : net_(net), graph_(net.graph()) {}

  FoldedNet fold() {
    folded_.definition = net_.definition();
    std::vector<bool> gone(graph_.layers.size(), false);
    for (int layer = 0; layer < static_cast<int>(graph_.layers.size()); ++layer) {
      if (!takes_over(layer)) continue;
      const std::vector<int> chain = chain_after(layer);
      if (chain.empty()) continue;
      for (const int after : chain) {
        gone[after] = true;
        folded_.gone.push_back(net_.layers()[after]->name());
      }
      rewrite(layer, chain.back());
    }
    auto& layers = *folded_.definition.mutable_layer();
    for (int layer = layers.size() - 1; layer >= 0; --layer)
      if (gone[layer]) layers.DeleteSubrange(layer, 1);
    return std::move(folded_);
  }

 private:
  static bool is_convolution(const std::string& type) {
    return type == "Convolution" || type == "DepthwiseConvolution" || type == "ConvolutionDepthwise";
  }

  /// Does the layer have weights of its own for each channel of its output, which no other layer uses?
  bool takes_over(int layer) const {
    const caffe::LayerParameter& parameter = net_.definition().layer(layer);
    const std::string& type = parameter.type();
    if (type != "InnerProduct" && type != "Deconvolution" && !is_convolution(type)) return false;
    const std::vector<Parameter>& own = net_.layers()[layer]->parameters();
    if (own.empty() || own[0].adjusted) return false;
    const auto& layers = net_.definition().layer();
    if (std::count_if(layers.begin(), layers.end(),
                      [&](const auto& other) { return other.name() == parameter.name(); }) > 1)
      return false;
    const std::vector<std::vector<int>>& owners = net_.parameter_store().owner;
    for (int other = 0; other < static_cast<int>(owners.size()); ++other)
      for (const int owner : owners[layer])
        if (other != layer && std::count(owners[other].begin(), owners[other].end(), owner) > 0) return false;
    return graph_.layers[layer].outputs.size() == 1;
  }

  /// The axis of its output that holds the channels.
  int channel_axis(int layer) const {
    const caffe::LayerParameter& parameter = net_.definition().layer(layer);
    const bool is_product = parameter.type() == "InnerProduct";
    const Shape& input = net_.inputs_of(layer)[0]->shape;
    return input.canonical_axis(is_product ? parameter.inner_product_param().axis()
                                           : parameter.convolution_param().axis());
  }

  /// The layers that can be folded into it; sets map_ to their combined map.
  std::vector<int> chain_after(int layer) {
    const int axis = channel_axis(layer);
    std::vector<int> chain;
    for (int last = layer;;) {
      const int blob = graph_.layers[last].outputs[0];
      const int next = graph_.loss_weight(blob) == 0 ? graph_.only_reader(blob) : -1;
      const std::optional<ChannelMap> map = next < 0 ? std::nullopt : map_of(next, axis);
      if (!map) return chain;
      if (chain.empty())
        map_ = *map;
      else
        map_.append(*map);
      chain.push_back(last = next);
    }
  }

  /// What the layer does to each index of `axis`, if that is all it does.
  std::optional<ChannelMap> map_of(int layer, int axis) const {
    const Layer& found = *net_.layers()[layer];
    const GraphLayer& node = graph_.layers[layer];
    if (node.inputs.size() != 1 || node.outputs.size() != 1 || node.weighted()) return std::nullopt;
    if (const auto* norm = dynamic_cast<const BatchNormalization*>(&found))
      return axis == 1 ? map_of(*norm) : std::nullopt;
    const bool scales = found.type() == "Scale";
    if ((!scales && found.type() != "Bias") || found.parameters()[0].adjusted) return std::nullopt;
    const caffe::LayerParameter& parameter = found.parameter();
    const Shape &input = net_.inputs_of(layer)[0]->shape, &operand = found.parameters()[0].shape;
    const int first = scales ? parameter.scale_param().axis() : parameter.bias_param().axis();
    if (operand.axes() != 1 || input.canonical_axis(first) != axis) return std::nullopt;
    const auto channels = static_cast<std::size_t>(operand.count());
    const int bias = !scales ? 0 : parameter.scale_param().bias_term() ? 1 : -1;
    return ChannelMap{values_or(found, scales ? 0 : -1, channels, 1), values_or(found, bias, channels, 0)};
  }

  std::optional<ChannelMap> map_of(const BatchNormalization& norm) const {
    if (!norm.uses_stored()) return std::nullopt;
    Tensor statistics;
    norm.read_stored_statistics(net_.context(), statistics);
    const std::vector<double> values = values_of(net_.context(), statistics).values;
    const std::size_t channels = values.size() / 2;
    ChannelMap map{{values.begin() + static_cast<std::ptrdiff_t>(channels), values.end()}, {}};
    for (std::size_t c = 0; c < channels; ++c) map.offset.push_back(-values[c] * map.factor[c]);
    map.append({values_or(norm, norm.dialect().slope, channels, 1),
                values_or(norm, norm.dialect().bias, channels, 0)});
    return map;
  }

  std::vector<double> values_or(const Layer& layer, int slot, std::size_t count, double otherwise) const {
    if (slot < 0) return std::vector<double>(count, otherwise);
    return values_of(net_.context(), layer.parameters()[slot].value).values;
  }

  /// Which channel of the output does weight `i` count for?
  std::size_t channel_of(int layer, std::size_t i) const {
    const caffe::LayerParameter& parameter = net_.definition().layer(layer);
    const Shape& weight = net_.layers()[layer]->parameters()[0].shape;
    const std::size_t channels = map_.factor.size();
    const auto count = static_cast<std::size_t>(weight.count());
    if (parameter.type() == "Deconvolution") {  // inputs x channels of the input's group x window
      const auto window = static_cast<std::size_t>(weight.count(2));
      const std::size_t groups = parameter.convolution_param().group(), of_group = channels / groups;
      return i / (count / groups) * of_group + i / window % of_group;
    }
    const bool transposed = parameter.type() == "InnerProduct" && parameter.inner_product_param().transpose();
    return transposed ? i % channels : i / (count / channels);
  }

  void rewrite(int layer, int last) {
    const Layer& before = *net_.layers()[layer];
    FoldedNet::Weights weights{
        values_of(net_.context(), before.parameters()[0].value).values,
        values_or(before, before.parameters().size() > 1 ? 1 : -1, map_.factor.size(), 0)};
    for (std::size_t i = 0; i < weights.weight.size(); ++i)
      weights.weight[i] *= map_.factor[channel_of(layer, i)];
    for (std::size_t c = 0; c < map_.factor.size(); ++c)
      weights.bias[c] = weights.bias[c] * map_.factor[c] + map_.offset[c];
    caffe::LayerParameter& after = *folded_.definition.mutable_layer(layer);
    after.set_top(0, net_.definition().layer(last).top(0));
    if (after.type() == "InnerProduct")
      after.mutable_inner_product_param()->set_bias_term(true);
    else
      after.mutable_convolution_param()->set_bias_term(true);
    folded_.weights[before.name()] = std::move(weights);
  }

  const Net& net_;
  const Graph& graph_;
  ChannelMap map_;
  FoldedNet folded_;
};

}  // namespace

FoldedNet fold_normalizations(const Net& net) { return Folding(net).fold(); }

void load_folded(Net& to, const Net& from, const FoldedNet& folded) {
  Context& context = to.context();
  for (LearnableParameter& parameter : to.parameters()) {
    if (const auto found = folded.weights.find(parameter.layer); found != folded.weights.end()) {
      set_values(context, parameter.slot == 0 ? found->second.weight : found->second.bias, parameter.value);
      continue;
    }
    // Not among from.parameters(): the layer that owns it there may have been folded.
    for (const auto& layer : from.layers())
      if (layer->name() == parameter.layer)
        ops::copy(context, layer->parameters()[parameter.slot].value, parameter.value);
  }
  context.synchronize();
}

}  // namespace banyan
