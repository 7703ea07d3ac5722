// LabelSpecificAdd (AM-Softmax, Wang et al. 2018): scores (N x classes, further axes count as classes) with
// the margin of each sample's own class, labels (N): in training, bias is added to the label's score if that
// is above -bias. In tests the scores stay. A second output holds the bias. With bias_base the bias changes
// with the iteration of the run, counted from `iteration` on, so a resumed run goes on with it; in tests the
// second output then holds `bias`.
#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/label_maps.hpp"
#include "labelled_samples.hpp"

namespace banyan {
namespace {

class LabelSpecificAddLayer : public Layer {
 public:
  LabelSpecificAddLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 1, 2},
               .in_place = true,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .differentiable_inputs = 1,
               .label_input = 1,
               .differentiable_outputs = 1}) {}

  void read_settings() override {
    const auto& s = settings();
    if (!s.has_bias_base() && (s.has_bias_gamma() || s.has_bias_power() || s.has_bias_min() ||
                               s.has_bias_max() || s.has_iteration()))
      refuse("bias_gamma, bias_power, bias_min, bias_max and iteration need bias_base");
    if (s.bias_min() > s.bias_max()) refuse("bias_min ", s.bias_min(), " exceeds bias_max ", s.bias_max());
    if (s.iteration() < 0) refuse("iteration must not be negative; found ", s.iteration());
    adds_ = options().phase == Phase::train;
    schedule_ = {static_cast<double>(s.bias_base()) - 1,
                 1,
                 s.bias_gamma(),
                 s.bias_power(),
                 s.bias_min(),
                 s.bias_max(),
                 s.iteration()};
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    over_ = labelled_samples(inputs, [&](const auto&... why) { refuse(why...); });
    set_output(*outputs[0], inputs[0]->shape);
    if (outputs.size() > 1) set_output(*outputs[1], Shape{1});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor& x = inputs[0]->data;
    Tensor& y = outputs[0]->data;
    ops::copy(context, x, y);
    ensure(context, bias_, Shape{1}, x.dtype());
    schedule_.passes = pass.passes;
    if (adds_ && settings().has_bias_base())
      ops::scheduled_value(context, schedule_, pass.draw_on_device, bias_);
    else
      ops::fill(context, bias_, settings().bias());
    if (adds_) ops::add_at_labels(context, inputs[1]->data, over_, bias_, y, note_.on(context));
    if (outputs.size() > 1) ops::copy(context, bias_, outputs[1]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    const Tensor& dy = outputs[0]->grad;
    if (propagate[0]) ops::copy(*pass.context, dy, inputs[0]->grad);
  }

  void check_results(Context& context) override {
    if (adds_) note_.check(context, name(), over_);
  }

 private:
  const caffe::LabelSpecificAddParameter& settings() const { return parameter_.label_specific_add_param(); }

  ops::Channels over_{};
  ops::IterationSchedule schedule_;
  bool adds_ = true;
  Tensor bias_;
  LabelNote note_;
};

const RegisterLayer<LabelSpecificAddLayer> registered_label_specific_add(
    "LabelSpecificAdd",
    {.about = "adds a margin to the score of each sample's class (AM-Softmax)",
     .message = "label_specific_add_param",
     .examples = {"bias: -0.35", "bias_base: -0.1 bias_gamma: -0.01 bias_min: -0.4 iteration: 3"}});

}  // namespace
}  // namespace banyan
