// GlobalLSEMargin (caffe-windows, the nets that AM-Softmax calls auto): y = s (x - m at the label of each
// sample). Inputs: cosines x (N x classes, further axes count as classes), labels (N) and, if there is a
// third, what stands in place of s for each sample, its norm (N). A second output holds s or the mean norm,
// the means over the samples of the label's cosine, of lse and of the largest cosine of another class (-1 at
// least), and m.
//
// lse of a sample = log(sum over the other classes of e^(s x)) / s. Blobs: s, learned, within [min_value,
// max_value] in each pass, and m, a running statistic of how far the label's cosine is above lse: see
// ops::move_margin. In training it follows the batch of all devices, before the pass uses it; it is not
// subtracted while it is below 0. Gradients take m for a constant.
#include <limits>

#include "banyan/base/log.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/functions.hpp"
#include "banyan/ops/global_margin.hpp"
#include "labelled_samples.hpp"
#include "whole_batch_loss.hpp"

namespace banyan {
namespace {

class GlobalLSEMarginLayer : public WholeBatchLossLayer {
 public:
  GlobalLSEMarginLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : WholeBatchLossLayer(parameter, options,
                            {.arity = {2, 3, 1, 2},
                             .in_place = true,
                             .backward_reads_outputs = false,
                             .constant_input = 1,
                             .label_input = 1}) {
    traits_.loss = false;
    traits_.shares = 0;
    if (options.phase != Phase::train) traits_.meets = Meets::never;
  }

  void read_settings() override {
    const auto& s = settings();
    if (!(least() <= most())) refuse("min_value ", least(), " exceeds max_value ", most());
    if ((s.has_axis() || s.has_num_axes() || s.bias_term() || s.has_bias_filler()) && options().rank == 0)
      log_warning(cat("layer ", quoted(name()), " (", type(),
                      "): axis, num_axes, bias_term and bias_filler of scale_param have no effect"));
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    caffe::FillerParameter filler = settings().filler();
    if (!settings().has_filler()) filler.set_value(30);
    const bool learns = inputs.size() == 2;
    Parameter& s = declare(Shape{1}, filler, learns ? ParameterKind::learnable : ParameterKind::statistic);
    s.adjusted = learns;
    if (parameter_.param_size() == 0) s.decay_mult = 0;
    declare(Shape{1}, {}, ParameterKind::statistic);
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    over_ = labelled_samples(inputs, [&](const auto&... why) { refuse(why...); });
    if (inputs.size() > 2 && inputs[2]->shape.count() != over_.outer)
      refuse("expected one norm for each of ", over_.outer, " samples; ", quoted(inputs[2]->name), " is ",
             inputs[2]->shape.to_string());
    set_output(*outputs[0], inputs[0]->shape);
    if (outputs.size() > 1) set_output(*outputs[1], Shape{5});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const bool norms = inputs.size() > 2;
    if (!norms) limit(context);
    find_rows(pass, inputs);
    Tensor& m = parameters_[1].value;
    ensure(context, margin_, m.shape(), m.dtype());
    if (moves()) {
      ops::move_margin(context, whole(0), m, margin_);
      if (pass.update_statistics) ops::copy(context, margin_, m);
    } else {
      ops::copy(context, m, margin_);
    }
    if (outputs.size() > 1)
      ops::margin_statistics(context, whole(0), norms ? none_ : parameters_[0].used, margin_,
                             outputs[1]->data);
    Tensor& y = outputs[0]->data;
    ops::scale_bias(context, inputs[0]->data, scale(inputs), none_, scaled(inputs), {}, y);
    ops::subtract_margin(context, inputs[1]->data, scale(inputs), margin_, y);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    const Tensor& dy = outputs[0]->grad;
    const bool norms = inputs.size() > 2;
    Tensor& dscale = norms ? inputs[2]->grad : parameters_[0].grad;
    if (norms && propagate[2]) ops::fill(context, dscale, 0);
    if (norms ? propagate[2] : dscale.defined()) {
      ops::scale_backward(context, inputs[0]->data, dy, scaled(inputs), dscale);
      ops::subtract_margin_backward(context, inputs[1]->data, margin_, dy, dscale);
    }
    // Last because it may overwrite dy.
    if (propagate[0]) ops::scale_bias(context, dy, scale(inputs), none_, scaled(inputs), {}, inputs[0]->grad);
  }

  void check_results(Context& context) override { note_.check(context, name(), over_); }

  double forward_flops(const Blobs& inputs, const Blobs&) const override {
    return 2 * static_cast<double>(inputs[0]->shape.count());
  }

 private:
  const caffe::ScaleParameter& settings() const { return parameter_.scale_param(); }
  double least() const { return settings().min_value(); }
  double most() const {
    return settings().has_max_value() ? settings().max_value() : std::numeric_limits<double>::infinity();
  }
  bool moves() const { return options().phase == Phase::train; }

  const Tensor& scale(const Blobs& inputs) const {
    return inputs.size() > 2 ? inputs[2]->data : parameters_[0].used;
  }

  ops::Broadcast scaled(const Blobs& inputs) const {
    if (inputs.size() > 2) return {1, over_.outer, over_.channels};
    return {1, 1, inputs[0]->shape.count()};
  }

  void limit(Context& context) {
    Parameter& s = parameters_[0];
    ensure(context, s.used, s.shape, s.value.dtype());
    ops::apply_function(context, s.value, {ops::Function::Kind::clip, least(), most()}, s.used);
  }

  /// whole(0): those of all samples that the margin and the statistics are made of.
  void find_rows(Pass& pass, const Blobs& inputs) {
    Context& context = *pass.context;
    rows_.name = inputs[0]->name;
    rows_.shape = Shape{over_.outer, ops::kMarginNumbers};
    ensure(context, rows_.data, rows_.shape, inputs[0]->data.dtype());
    ops::margin_rows(context, inputs[0]->data, inputs[1]->data, scale(inputs), rows_.data, note_.on(context));
    gather(pass, {&rows_}, 1);
  }

  ops::Channels over_{};
  Blob rows_;      ///< of this device's samples
  Tensor margin_;  ///< m in this pass
  Tensor none_;
  LabelNote note_;
};

const RegisterLayer<GlobalLSEMarginLayer> registered_global_lse_margin(
    "GlobalLSEMargin", {.about = "factor and margin of cosines, which follows the batches (caffe-windows)",
                        .message = "scale_param",
                        .examples = {"", "filler { value: 8 } max_value: 4"},
                        .inputs = {{4}, {}}});

}  // namespace
}  // namespace banyan
