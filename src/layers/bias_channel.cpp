// BiasChannel (DeepLab): adds a constant to the channels of scores (N, C, H, W) that labels name.
//
// IMAGE: labels (N, L, 1, 1), as UniqueLabel gives them; fg_bias for each label's channel, bg_bias for label
// 0's. PIXEL: labels (N, 1, H, W); at each pixel fg_bias for its label's channel and, if bg_bias or
// background_label is written, bg_bias for the background's (which gets only that). Labels -1 and
// ignore_label add nothing.
#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"
#include "label_list.hpp"

namespace banyan {
namespace {

class BiasChannelLayer : public Layer {
 public:
  BiasChannelLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 1, 1},
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .differentiable_inputs = 1,
               .label_input = 1}) {}

  void read_settings() override {
    const auto& s = settings();
    if (!(s.bg_bias() >= 0) || !(s.fg_bias() >= 0))
      refuse("bg_bias and fg_bias must not be negative; found ", s.bg_bias(), " and ", s.fg_bias());
    bias_.lists = s.label_type() == caffe::BiasChannelParameter::IMAGE;
    if (bias_.lists && s.background_label() != 0)
      refuse("label_type IMAGE has background_label 0; found ", s.background_label());
    bias_.foreground = s.fg_bias();
    bias_.background = s.bg_bias();
    bias_.background_label = s.background_label();
    bias_.without_background = !s.has_background_label() && !s.has_bg_bias();
    google::protobuf::RepeatedField<google::protobuf::int32> ignored = s.ignore_label();
    ignored.Add(-1);
    bias_.ignored = label_list(ignored, name(), "ignore_label");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &scores = inputs[0]->shape, &labels = inputs[1]->shape;
    if (scores.axes() < 2 || labels.axes() < 1 || labels[0] != scores[0] ||
        (bias_.lists && labels.axes() < 2))
      refuse("expected scores (N, C, H, W) and labels of the same N; found ", scores.to_string(), " and ",
             labels.to_string());
    over_ = {scores[0], scores[1], scores.count(2)};
    if (!bias_.lists && labels.count(1) != over_.inner)
      refuse("label_type PIXEL needs a label for each of ", over_.inner, " pixels; ", quoted(inputs[1]->name),
             " is ", labels.to_string());
    if (bias_.background_label < 0 || bias_.background_label >= over_.channels)
      refuse("background_label ", bias_.background_label, " is none of the ", over_.channels, " channels");
    bias_.each = bias_.lists ? labels.count(1) : 1;
    set_output(*outputs[0], scores);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::bias_channels(*pass.context, inputs[0]->data, inputs[1]->data, over_, bias_, outputs[0]->data,
                       note_.on(*pass.context));
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0]) ops::copy(*pass.context, outputs[0]->grad, inputs[0]->grad);
  }

  void check_results(Context& context) override {
    note_.check(context, name(), {over_.outer, over_.channels, bias_.lists ? bias_.each : over_.inner});
  }

 private:
  const caffe::BiasChannelParameter& settings() const { return parameter_.bias_channel_param(); }

  ops::ChannelBias bias_;
  ops::Channels over_{};
  LabelNote note_;
};

const RegisterLayer<BiasChannelLayer> registered_bias_channel(
    "BiasChannel", {.about = "adds constants to the scores of labelled classes (DeepLab)",
                    .message = "bias_channel_param",
                    .examples = {"ignore_label: 3", "fg_bias: 4 bg_bias: 0.5"},
                    .inputs = {{4, 5, 5}, {2, 1, 1}}});

}  // namespace
}  // namespace banyan
