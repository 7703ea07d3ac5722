// CharbonnierLoss (Hidden Two-Stream): the sum of w ((beta x)^2 + epsilon^2)^alpha over all elements. Inputs:
// x, a difference N x C x ..., and if given w, a mask with at least as many channels. The sum is divided by
// the number of places, N x ... without the channels, or with a mask by N times the sum of its magnitudes; of
// all devices. x has a gradient.
#include <algorithm>
#include <cmath>

#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/photometric_loss.hpp"

namespace banyan {
namespace {

class CharbonnierLossLayer : public LossLayer {
 public:
  CharbonnierLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LossLayer(parameter, options,
                  {.arity = {1, 2, 1, 1},
                   .backward_reads_outputs = false,
                   .differentiable_inputs = 1,
                   .meets = Meets::forward}),
        how_{settings().alpha(), settings().beta(), settings().epsilon()} {}

  void read_settings() override {
    if (!(how_.alpha > 0) || !(how_.alpha <= kMost))
      refuse("alpha must be above 0 and at most ", kMost, "; found ", how_.alpha);
    if (!std::isfinite(how_.beta)) refuse("beta must be finite; found ", how_.beta);
    if (!(how_.epsilon >= 0)) refuse("epsilon must not be negative; found ", how_.epsilon);
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& x = inputs[0]->shape;
    if (x.axes() < 2)
      refuse("input ", quoted(inputs[0]->name), " is ", x.to_string(), "; expected samples with channels");
    if (inputs.size() > 1 && !fits(x, inputs[1]->shape))
      refuse("the mask ", quoted(inputs[1]->name), " is ", inputs[1]->shape.to_string(),
             "; expected the shape of ", quoted(inputs[0]->name), ", ", x.to_string(), ", or more channels");
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    ensure(context, partial_, Shape{1}, DType::f64);
    ops::charbonnier_forward(context, difference(inputs), how_, partial_);
    if (inputs.size() > 1) {
      multiply_counts(pass, inputs);
    } else {
      const Shape& x = inputs[0]->shape;
      const std::int64_t places = x[0] * x.count(2);
      find_divisor(pass, Normalization::full, places, x[0]);
    }
    write_exact_loss(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::charbonnier_backward(*pass.context, difference(inputs), how_, exact_scale(pass, *outputs[0]),
                                inputs[0]->grad);
  }

 private:
  static constexpr double kMost = 100;

  const caffe::CharbonnierLossParameter& settings() const { return parameter_.charbonnier_loss_param(); }
  static bool fits(const Shape& x, const Shape& mask) {
    return mask.axes() == x.axes() && mask[0] == x[0] && mask[1] >= x[1] &&
           std::equal(mask.dims().begin() + 2, mask.dims().end(), x.dims().begin() + 2);
  }
  static ops::WeightedDifference difference(const Blobs& inputs) {
    return {inputs[0]->data, inputs.size() > 1 ? inputs[1]->data : Tensor()};
  }

  /// The divisor with a mask.
  void multiply_counts(Pass& pass, const Blobs& inputs) {
    Context& context = *pass.context;
    ensure(context, divisor_, Shape{1}, DType::f64);
    ensure(context, counts_, Shape{2}, DType::f64);
    Tensor samples = counts_.slice(0, Shape{1}), weights = counts_.slice(1, Shape{1});
    ops::fill(context, samples, static_cast<double>(inputs[0]->shape[0]));
    ops::absolute_sum(context, inputs[1]->data, weights);
    sum_over_devices(pass, counts_, {name().c_str(), "divisor"});
    ops::multiply(context, samples, weights, divisor_);
  }

  ops::Charbonnier how_;
  Tensor counts_;  ///< samples, and the sum of the mask
};

const RegisterLayer<CharbonnierLossLayer> registered_charbonnier_loss(
    "CharbonnierLoss", {.about = "powers of squared differences, with or without a mask (Hidden Two-Stream)",
                        .message = "charbonnier_loss_param",
                        .examples = {"", "alpha: 0.4 beta: 2.5"},
                        .inputs = {{2, 4, 3}, {3, 4, 3}}});

}  // namespace
}  // namespace banyan
