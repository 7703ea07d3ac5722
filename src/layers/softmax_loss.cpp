// SoftmaxWithLoss: the multinomial logistic loss of softmax(scores), -log(max(p[label], FLT_MIN)); inputs,
// divisor and second output: softmaxed_loss_layer.hpp.
//
// In training, label_smoothing takes that part of each label's weight and divides it among all classes
// (Szegedy et al. 2016). NVIDIA's shows the loss without it, but has the same gradients.
//
// With weight_by_label_freqs (SegNet), the loss of each position is multiplied by its label's
// class_weighting. The divisor stays: the weights are meant to be around 1 (the median of the classes'
// frequencies over each).
#include <cmath>
#include <vector>

#include "banyan/ops/class_loss.hpp"
#include "softmaxed_loss_layer.hpp"

namespace banyan {
namespace {

class SoftmaxLossLayer : public SoftmaxedLossLayer {
 public:
  SoftmaxLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SoftmaxedLossLayer(parameter, options, 2, true) {}

  void setup(const Blobs& inputs, const Blobs& outputs) override {
    SoftmaxedLossLayer::setup(inputs, outputs);
    const auto& loss = parameter_.loss_param();
    if (!(loss.label_smoothing() >= 0 && loss.label_smoothing() <= 1))
      refuse("label_smoothing must be from 0 to 1; found ", loss.label_smoothing());
    smoothing_ = options().phase == Phase::train ? loss.label_smoothing() : 0;
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

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    const Tensor &probabilities = probabilities_of(outputs), &grad_loss = outputs[0]->grad;
    if (smoothing_ > 0 || weighted())
      ops::smoothed_loss_backward(*pass.context, probabilities, inputs[1]->data, over_, ignore_, smoothing_,
                                  weights(*pass.context), grad_loss, divisor_, inputs[0]->grad);
    else
      ops::softmax_loss_backward(*pass.context, probabilities, inputs[1]->data, over_, ignore_, grad_loss,
                                 divisor_, inputs[0]->grad);
  }

 private:
  int axis() const override { return parameter_.softmax_param().axis(); }

  void add_up(Context& context, const Tensor& probabilities, const Blobs& inputs) override {
    if (smoothing_ > 0 || weighted())
      ops::smoothed_loss_forward(context, probabilities, inputs[1]->data, over_, ignore_, smoothing_,
                                 weights(context), partial_, note_.on(context));
    else
      ops::softmax_loss_forward(context, probabilities, inputs[1]->data, over_, ignore_, partial_,
                                note_.on(context));
  }

  bool weighted() const { return parameter_.loss_param().weight_by_label_freqs(); }

  /// By class; undefined if all count alike.
  const Tensor& weights(Context& context) {
    if (!weighted() || weights_.defined()) return weights_;
    weights_ = Tensor(context.device(), Shape{over_.channels}, dtype());
    dispatch_float(dtype(), "class weights", [&]<class T>() {
      const auto& listed = parameter_.loss_param().class_weighting();
      copy_from_host(context, std::vector<T>(listed.begin(), listed.end()).data(), weights_);
    });
    return weights_;
  }

  double smoothing_ = 0;
  Tensor weights_;
};

const RegisterLayer<SoftmaxLossLayer> registered("SoftmaxWithLoss",
                                                 {"multinomial logistic loss of the softmax",
                                                  "softmax_param"});

}  // namespace
}  // namespace banyan
