// Insanity (caffe-windows; the randomized leaky ReLU of Xu et al. 2015): y = x where x > 0, else x / a. In
// training a is drawn uniformly from [lb, ub], for each element anew in each pass; in tests it is m = (ub -
// lb) / ln(ub / lb): 1 / m is the mean of 1 / a. The gradient at 0 is that of the negative side.
//
// As in Dropout, what is drawn is a function of (seed, layer name, draw, global sample, element), so that
// nothing is stored: the backward pass draws it again. Axis 0 is assumed to be the batch.
#include <cmath>

#include "banyan/ops/elementwise.hpp"
#include "elementwise_layer.hpp"

namespace banyan {
namespace {

class InsanityLayer : public ElementwiseLayer {
 public:
  InsanityLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : ElementwiseLayer(parameter, options, false, true) {}

  void read_settings() override {
    const double lb = parameter_.insanity_param().lb(), ub = parameter_.insanity_param().ub();
    if (!(0 < lb && lb < ub && std::isfinite(ub)))
      refuse("lb must be positive, and ub above it and finite; found ", lb, " and ", ub);
    divisors_ = {parameter_.insanity_param().lb(), parameter_.insanity_param().ub()};
    stream_ = ops::stream_of(name().c_str());
    if (draws()) return;
    slope_ = std::log(divisors_.most / divisors_.least) / (divisors_.most - divisors_.least);
    traits_.activation = ops::relu_activation(slope_);
    traits_.by_sample = true;
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    const Tensor& x = inputs[0]->data;
    if (draws())
      divide(pass, x, x, outputs[0]->data);
    else
      ops::relu_forward(*pass.context, x, slope_, outputs[0]->data);
  }
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    const Tensor &y = outputs[0]->data, &dy = outputs[0]->grad;
    if (draws())
      divide(pass, y, dy, inputs[0]->grad);
    else
      ops::relu_backward(*pass.context, y, dy, slope_, inputs[0]->grad);
  }

 private:
  bool draws() const { return options().phase == Phase::train; }
  void divide(const Pass& pass, const Tensor& sign, const Tensor& from, Tensor& to) const {
    ops::divide_negatives(*pass.context, sign, from, divisors_, {pass.seed, stream_, pass.draw_on_device},
                          pass.samples, to);
  }

  ops::Divisors divisors_;
  std::uint32_t stream_ = 0;
  double slope_ = 0;  ///< of negative values in tests
};

const RegisterLayer<InsanityLayer> registered_insanity("Insanity",
                                                       {"rectifier, leaky with random slopes (caffe-windows)",
                                                        "insanity_param",
                                                        {"", "lb: 1.5 ub: 4"}});

}  // namespace
}  // namespace banyan
