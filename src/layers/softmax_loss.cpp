// SoftmaxWithLoss: the multinomial logistic loss of softmax(scores), -log(max(p[label], FLT_MIN)); inputs,
// divisor and second output: softmaxed_loss_layer.hpp.
//
// In training, label_smoothing takes that part of each label's weight and divides it among all classes
// (Szegedy et al. 2016). NVIDIA's shows the loss without it, but has the same gradients.
//
// With weight_by_label_freqs (SegNet), the loss of each position is multiplied by its label's
// class_weighting. The divisor stays: the weights are meant to be around 1 (the median of the classes'
// frequencies over each).
//
// In training, thresh_ratio (yjxiong) gives a gradient to that part of the positions only whose labels are
// least likely, of the whole batch; with normalization VALID their number divides it. The loss that is shown
// is that of all.
#include <algorithm>
#include <cmath>
#include <vector>

#include "banyan/ops/basic.hpp"
#include "banyan/ops/class_loss.hpp"
#include "banyan/tensor/values.hpp"
#include "hardest_positions.hpp"
#include "softmaxed_loss_layer.hpp"

namespace banyan {
namespace {

class SoftmaxLossLayer : public SoftmaxedLossLayer {
 public:
  SoftmaxLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SoftmaxedLossLayer(parameter, options, 2, true) {}

  void read_settings() override {
    SoftmaxedLossLayer::read_settings();
    const auto& loss = parameter_.loss_param();
    if (!(loss.label_smoothing() >= 0 && loss.label_smoothing() <= 1))
      refuse("label_smoothing must be from 0 to 1; found ", loss.label_smoothing());
    smoothing_ = options().phase == Phase::train ? loss.label_smoothing() : 0;
    if (!(loss.thresh_ratio() >= 0)) refuse("thresh_ratio must not be negative; found ", loss.thresh_ratio());
    selects_ = options().phase == Phase::train && loss.thresh_ratio() < 1;
    if (selects_) traits_.meets = Meets::forward;
    for (const float weight : loss.class_weighting())
      if (!(weight >= 0 && std::isfinite(weight)))
        refuse("class_weighting must be finite and not negative; found ", weight);
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    SoftmaxedLossLayer::reshape(inputs, outputs);
    const auto& loss = parameter_.loss_param();
    if (loss.weight_by_label_freqs() && loss.class_weighting_size() != over_.channels)
      refuse("weight_by_label_freqs needs one class_weighting for each of the ", over_.channels,
             " classes; found ", loss.class_weighting_size());
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    SoftmaxedLossLayer::forward(pass, inputs, outputs);
    if (selects_) select(pass, inputs, outputs);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    const Tensor &probabilities = probabilities_of(outputs), &grad_loss = outputs[0]->grad;
    const Tensor& labels = selects_ ? selected_ : inputs[1]->data;
    const ops::IgnoreLabel ignore = selects_ ? left_out() : ignore_;
    const Tensor& divisor = selects_ && normalization_ == Normalization::valid ? selected_count_ : divisor_;
    if (smoothing_ > 0 || weighted())
      ops::smoothed_loss_backward(*pass.context, probabilities, labels, weights(*pass.context), over_, ignore,
                                  smoothing_, grad_loss, divisor, inputs[0]->grad);
    else
      ops::softmax_loss_backward(*pass.context, probabilities, labels, over_, ignore, grad_loss, divisor,
                                 inputs[0]->grad);
  }

 private:
  int axis() const override { return parameter_.softmax_param().axis(); }

  void add_up(Context& context, const Tensor& probabilities, const Blobs& inputs) override {
    if (smoothing_ > 0 || weighted())
      ops::smoothed_loss_forward(context, probabilities, inputs[1]->data, weights(context), over_, ignore_,
                                 smoothing_, partial_, note_.on(context));
    else
      ops::softmax_loss_forward(context, probabilities, inputs[1]->data, over_, ignore_, partial_,
                                note_.on(context));
  }

  /// The label of positions without a gradient, for backward().
  ops::IgnoreLabel left_out() const { return {true, ignore_.enabled ? ignore_.label : -1}; }

  /// thresh_ratio: the labels of the positions that count, and left_out() for the others.
  void select(Pass& pass, const Blobs& inputs, const Blobs& outputs) {
    Context& context = *pass.context;
    const Shape positions{over_.outer * over_.inner};
    ensure(context, losses_, positions, dtype());
    ensure(context, selected_, positions, dtype());
    ensure(context, selected_count_, Shape{1}, DType::f64);
    ops::position_losses(context, probabilities_of(outputs), inputs[1]->data, over_, ignore_, false, losses_);
    std::vector<double> labels = values_of(context, inputs[1]->data).values;
    std::vector<double> losses = values_of(context, losses_).values;
    for (double& loss : losses) loss = std::isnan(loss) ? HUGE_VAL : std::max(loss, 0.0);
    std::vector<double> counted;
    const auto counts = [&](std::size_t i) {
      return !(ignore_.enabled && labels[i] == ignore_.label) && labels[i] >= 0 &&
             labels[i] < static_cast<double>(over_.channels);
    };
    for (std::size_t i = 0; i < labels.size(); ++i)
      if (counts(i)) counted.push_back(losses[i]);
    const HardestPositions hardest =
        find_hardest(pass, counted, parameter_.loss_param().thresh_ratio(), counts_, name().c_str());
    for (std::size_t i = 0; i < labels.size(); ++i)
      if (!counts(i) || losses[i] < hardest.least) labels[i] = left_out().label;
    set_values(context, labels, selected_);
    ops::fill(context, selected_count_, static_cast<double>(hardest.kept));
  }

  bool weighted() const { return parameter_.loss_param().weight_by_label_freqs(); }

  ops::LossWeights weights(Context& context) {
    if (weighted() && !by_class_.defined()) {
      by_class_ = Tensor(context.device(), Shape{over_.channels}, dtype());
      const auto& listed = parameter_.loss_param().class_weighting();
      set_values(context, {listed.begin(), listed.end()}, by_class_);
    }
    return {none_, by_class_};
  }

  double smoothing_ = 0;
  bool selects_ = false;  ///< by thresh_ratio
  Tensor by_class_, none_;
  Tensor losses_, selected_, selected_count_, counts_;
};

const RegisterLayer<SoftmaxLossLayer> registered_softmax_loss("SoftmaxWithLoss",
                                                              {"multinomial logistic loss of the softmax",
                                                               "softmax_param"});

}  // namespace
}  // namespace banyan
