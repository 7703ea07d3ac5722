// GuidedDropout (Xiao et al. 2016, domain guided dropout): the second input, N x C, says what each channel is
// worth to a sample, and only those of worth are kept, whole.
//   deterministic  y = x * C / k for the k channels above guidance_threshold, in tests too
//   stochastic     a channel is kept with the probability r = sigmoid(sigmoid_scaler * guidance): y = x * C /
//                  (sum of r over the channels); in tests y = x
// All else is 0. The gradient has the same factors (the branch's GPU code has C * H * W in place of C).
//
// What is kept is drawn as Dropout draws for an N x C blob: a function of (seed, layer name, draw, global
// sample, channel). The backward pass takes the factors of the forward pass, so the guidance may be gone.
#include "banyan/ops/guided_dropout.hpp"

#include <cmath>

#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"

namespace banyan {
namespace {

class GuidedDropoutLayer : public Layer {
 public:
  GuidedDropoutLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 1, 1},
               .layout = LayoutRule::follows,
               .in_place = true,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .differentiable_inputs = 1}) {}

  void read_settings() override {
    const std::string& how = settings().type();
    if (how != "deterministic" && how != "stochastic")
      refuse("type must be deterministic or stochastic; found ", quoted(how));
    if (!std::isfinite(settings().sigmoid_scaler()))
      refuse("sigmoid_scaler must be finite; found ", settings().sigmoid_scaler());
    how_ = {settings().type() == "stochastic", settings().guidance_threshold(), settings().sigmoid_scaler()};
    passes_on_ = how_.drawn && options().phase == Phase::test;
    traits_.by_sample = passes_on_ || !how_.drawn;
  }
  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &x = inputs[0]->shape, &guidance = inputs[1]->shape;
    if (x.axes() < 2 || guidance.axes() < 2 || guidance[0] != x[0] || guidance[1] != x[1] ||
        guidance.count(2) != 1)
      refuse("expected one number of the second input for each channel of each sample; found ", x.to_string(),
             " and ", guidance.to_string());
    set_output(*outputs[0], x, inputs[0]->layout);
  }
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    if (!passes_on_) {
      Context& context = *pass.context;
      const Tensor& guidance = inputs[1]->data;
      const std::int64_t batch = guidance.shape()[0], channels = guidance.shape()[1];
      ensure(context, sums_, {batch}, DType::f64);
      ensure(context, factors_, {batch, channels}, guidance.dtype());
      ops::guided_factors(context, guidance, how_, random_key(pass), pass.samples, sums_, factors_);
    }
    apply(pass, inputs[0]->data, outputs[0]->data);
  }
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0]) apply(pass, outputs[0]->grad, inputs[0]->grad);
  }

 private:
  const caffe::GuidedDropoutParameter& settings() const { return parameter_.guided_dropout_param(); }
  void apply(Pass& pass, const Tensor& from, Tensor& to) {
    if (!passes_on_)
      ops::scale_planes(*pass.context, from, factors_, {}, to);
    else
      ops::copy(*pass.context, from, to);
  }

  ops::Guidance how_;
  bool passes_on_ = false;
  Tensor sums_, factors_;
};

const RegisterLayer<GuidedDropoutLayer> registered_guided_dropout(
    "GuidedDropout", {.about = "drops the channels that a second blob rates low (Xiao et al. 2016)",
                      .message = "guided_dropout_param",
                      .examples = {"", "type: 'stochastic'"},
                      .inputs = {{4, 5, 5}, {4}}});

}  // namespace
}  // namespace banyan
