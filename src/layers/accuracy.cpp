// Accuracy: the fraction of positions whose true class has fewer than top_k other classes scoring at least as
// high, or with min_is_better at least as low (ties count against the prediction). Positions with
// ignore_label do not count; 0 if nothing counts. A second output holds the accuracy per class.
//
// In training on several devices an output is the device's share: its own correct positions over all devices'
// counted ones.
#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"
#include "softmax_axes.hpp"

namespace banyan {
namespace {

class AccuracyLayer : public Layer {
 public:
  AccuracyLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 1, 2},
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .repeatable = false,
               .differentiable_inputs = 0,
               .label_input = 1,
               .shares = options.net_phase == Phase::train && options.devices > 1 ? 2 : 0,
               .meets = options.net_phase == Phase::train ? Meets::forward : Meets::never}) {}

  void read_settings() override {
    const auto& settings = parameter_.accuracy_param();
    if (settings.top_k() < 1) refuse("top_k must be positive");
    ignore_ = {settings.has_ignore_label(), settings.ignore_label()};
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    over_ = channels_along(inputs[0]->shape, parameter_.accuracy_param().axis());
    if (inputs[1]->shape.count() != over_.outer * over_.inner)
      refuse("expected one label for each of ", over_.outer, " x ", over_.inner, " positions of the scores ",
             inputs[0]->shape.to_string(), "; ", quoted(inputs[1]->name), " is ",
             inputs[1]->shape.to_string());
    if (static_cast<std::int64_t>(parameter_.accuracy_param().top_k()) > over_.channels)
      refuse("top_k ", parameter_.accuracy_param().top_k(), " exceeds the number of classes ",
             over_.channels);
    set_output(*outputs[0], Shape{});
    if (outputs.size() > 1) set_output(*outputs[1], Shape{over_.channels});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    ensure(context, counts_, Shape{2 + 2 * over_.channels}, DType::f64);
    ops::accuracy_counts(context, inputs[0]->data, inputs[1]->data, over_, ignore_,
                         static_cast<int>(parameter_.accuracy_param().top_k()),
                         parameter_.accuracy_param().min_is_better(), counts_, note_.on(context));
    // Every device needs the sum of all counts as divisor; the numerators stay its own.
    const bool per_class = outputs.size() > 1;
    const Shape message{per_class ? 2 + 2 * over_.channels : 2};
    ensure(context, all_counts_, message, DType::f64);
    ops::copy(context, counts_.slice(0, message), all_counts_);
    sum_over_devices(pass, all_counts_, {name().c_str(), "divisor"});
    ops::quotient(context, counts_, all_counts_, {0, 1, 0}, outputs[0]->data);
    for (std::int64_t c = 0; per_class && c < over_.channels; ++c) {
      Tensor value = outputs[1]->data.slice(c, Shape{1});
      ops::quotient(context, counts_, all_counts_, {2 + 2 * c, 3 + 2 * c, 0}, value);
    }
  }

  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

  void check_results(Context& context) override { note_.check(context, name(), over_, "accuracy_param"); }

 private:
  ops::IgnoreLabel ignore_;
  ops::Channels over_{};
  Tensor counts_, all_counts_;
  LabelNote note_;
};

const RegisterLayer<AccuracyLayer> registered_accuracy(
    "Accuracy", {"the share of samples whose class is among the top_k scores", "accuracy_param"});

}  // namespace
}  // namespace banyan
