// LabelSpecificRescale (caffe-windows): scores (N x classes, further axes count as classes), labels (N): in
// training, or with rescale_test in tests too, the label's score times positive_weight, the others times
// negative_weight; elsewhere they stay. A second output holds the label's factor. With positive_weight_base
// that factor changes, in training, with the iteration of the run, which counts from `iteration` + 1 on, so a
// resumed run goes on with it.
#include <limits>

#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/label_maps.hpp"
#include "labelled_samples.hpp"

namespace banyan {
namespace {

class LabelSpecificRescaleLayer : public Layer {
 public:
  LabelSpecificRescaleLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 1, 2},
               .in_place = true,
               .backward_reads_outputs = false,
               .differentiable_inputs = 1,
               .label_input = 1,
               .differentiable_outputs = 1}) {}

  void read_settings() override {
    const auto& s = settings();
    if (s.bias_fix() || s.power_on_positive()) refuse("bias_fix and power_on_positive are not supported");
    if (!s.has_positive_weight_base() && (s.has_gamma() || s.has_power() || s.has_positive_weight_min() ||
                                          s.has_positive_weight_max() || s.has_iteration()))
      refuse(
          "gamma, power, positive_weight_min, positive_weight_max and iteration need positive_weight_base");
    if (s.has_positive_weight_min() && s.has_positive_weight_max() &&
        s.positive_weight_min() > s.positive_weight_max())
      refuse("positive_weight_min ", s.positive_weight_min(), " exceeds positive_weight_max ",
             s.positive_weight_max());
    constexpr double kNone = std::numeric_limits<double>::infinity();
    trains_ = options().phase == Phase::train;
    rescales_ = trains_ || s.rescale_test();
    schedule_ = {0,
                 s.positive_weight_base(),
                 s.gamma(),
                 -static_cast<double>(s.power()),
                 s.has_positive_weight_min() ? s.positive_weight_min() : -kNone,
                 s.has_positive_weight_max() ? s.positive_weight_max() : kNone,
                 std::int64_t{s.iteration()} + 1};
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    over_ = labelled_samples(inputs, [&](const auto&... why) { refuse(why...); });
    set_output(*outputs[0], inputs[0]->shape);
    if (outputs.size() > 1) set_output(*outputs[1], Shape{1});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    ensure(context, weight_, Shape{1}, inputs[0]->data.dtype());
    schedule_.passes = pass.passes;
    if (trains_ && settings().has_positive_weight_base())
      ops::scheduled_value(context, schedule_, pass.draw_on_device, weight_);
    else
      ops::fill(context, weight_, settings().positive_weight());
    rescale(context, inputs[0]->data, inputs[1]->data, outputs[0]->data);
    if (outputs.size() > 1) ops::copy(context, weight_, outputs[1]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0]) rescale(*pass.context, outputs[0]->grad, inputs[1]->data, inputs[0]->grad);
  }

  void check_results(Context& context) override {
    if (rescales_) note_.check(context, name(), over_);
  }

 private:
  const caffe::LabelSpecificRescaleParameter& settings() const {
    return parameter_.label_specific_rescale_param();
  }

  void rescale(Context& context, const Tensor& x, const Tensor& labels, Tensor& y) {
    if (rescales_)
      ops::rescale_by_labels(context, x, labels, over_, weight_, settings().negative_weight(), y,
                             note_.on(context));
    else
      ops::copy(context, x, y);
  }

  ops::Channels over_{};
  ops::IterationSchedule schedule_;
  bool trains_ = true, rescales_ = true;
  Tensor weight_;
  LabelNote note_;
};

const RegisterLayer<LabelSpecificRescaleLayer> registered_label_specific_rescale(
    "LabelSpecificRescale", {.about = "factors for the score of each sample's class and for the others",
                             .message = "label_specific_rescale_param",
                             .examples = {"positive_weight: 0.5 negative_weight: 2",
                                          "positive_weight_base: 3 gamma: 0.5 positive_weight_min: 0.25"}});

}  // namespace
}  // namespace banyan
