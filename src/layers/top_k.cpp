// TopK (k-sparse autoencoders: Makhzani, Frey 2013): the k largest values of each sample, with
// across_channels of the channels at each position, and 0 for all others; in tests a times as many, rounded
// down. Of equal values the later one. Gradients pass where values do.
#include <algorithm>
#include <cmath>

#include "banyan/layers/layer.hpp"
#include "banyan/ops/selection.hpp"

namespace banyan {
namespace {

class TopKLayer : public Layer {
 public:
  TopKLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options, {.backward_reads_inputs = false, .backward_reads_outputs = false}) {}

  void read_settings() override {
    if (settings().k() < 1) refuse("k must be positive");
    if (!(settings().a() > 0) || !std::isfinite(settings().a()))
      refuse("a must be positive; found ", settings().a());
    if (kept() < 1) refuse("in tests k times a, ", settings().k(), " x ", settings().a(), ", keeps nothing");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = inputs[0]->shape;
    if (input.axes() < 2) refuse("the input needs a batch and values; it is ", input.to_string());
    over_ = settings().across_channels() ? ops::Channels{input[0], input[1], input.count(2)}
                                         : ops::Channels{input[0], input.count(1), 1};
    constexpr std::int64_t kMostPlaces = std::int64_t{1} << 24;  // the integers that f32 holds
    if (over_.channels > kMostPlaces)
      refuse("a sample may have ", kMostPlaces, " values at most; it has ", over_.channels);
    if (kept() > over_.channels)
      refuse("k ", settings().k(), phase_is_test() ? " times a" : "", " exceeds the ", over_.channels,
             settings().across_channels() ? " channels" : " values of a sample");
    set_output(*outputs[0], input);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const int k = static_cast<int>(kept());
    Tensor none;
    ensure(context, places_, Shape{over_.outer, k, over_.inner}, inputs[0]->data.dtype());
    ops::largest(context, inputs[0]->data, over_, k, k * over_.inner, places_, none);
    ops::keep_places(context, inputs[0]->data, places_, over_, k, outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::keep_places(*pass.context, outputs[0]->grad, places_, over_, static_cast<int>(kept()),
                       inputs[0]->grad);
  }

 private:
  const caffe::TopKParameter& settings() const { return parameter_.topk_param(); }
  bool phase_is_test() const { return options().phase == Phase::test; }
  std::int64_t kept() const {
    if (!phase_is_test()) return settings().k();
    constexpr float kMost = 1e9F;  // more than any sample holds
    return static_cast<std::int64_t>(std::min(static_cast<float>(settings().k()) * settings().a(), kMost));
  }

  ops::Channels over_{};
  Tensor places_;
};

const RegisterLayer<TopKLayer> registered_top_k("TopK", {"the k largest values of each sample, else 0",
                                                         "topk_param",
                                                         {"k: 2", "k: 2 across_channels: true"}});

}  // namespace
}  // namespace banyan
