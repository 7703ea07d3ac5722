// GradientScaler (Ganin, Lempitsky 2015): the output is the input; the gradient is multiplied by -c, where c
// changes with the iterations of the run (ops/reversal.hpp), so a resumed run goes on with it. With iter_size
// all passes of an iteration have the same c. GradientReversal (a branch) is the same with c = 1.
#include <cmath>

#include "banyan/layers/layer.hpp"
#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/reversal.hpp"

namespace banyan {
namespace {

class GradientScalerLayer : public Layer {
 public:
  GradientScalerLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.layout = LayoutRule::follows,
               .storage = StorageRule::follows,
               .view = View::data,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false}) {}

  void read_settings() override {
    const auto& s = settings();
    if (!std::isfinite(s.lower_bound()) || !std::isfinite(s.upper_bound()) ||
        s.lower_bound() > s.upper_bound())
      refuse("lower_bound and upper_bound must be finite, and lower_bound not above upper_bound; found ",
             s.lower_bound(), " and ", s.upper_bound());
    if (!std::isfinite(s.alpha())) refuse("alpha must be finite; found ", s.alpha());
    if (!(s.max_iter() >= 1)) refuse("max_iter must be at least 1; found ", s.max_iter());
    if (type() == "GradientReversal")
      schedule_.lower = 1;
    else
      schedule_ = {s.lower_bound(), s.upper_bound(), s.alpha(), s.max_iter()};
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    set_output(*outputs[0], inputs[0]->shape, inputs[0]->layout);
  }

  void forward(Pass&, const Blobs&, const Blobs&) override {}

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    Context& context = *pass.context;
    schedule_.passes = pass.passes;
    ensure(context, factor_, Shape{1}, dtype());
    ops::reversal_factor(context, schedule_, pass.draw_on_device, factor_);
    ops::scale_bias(context, outputs[0]->grad, factor_, none_, {1, 1, inputs[0]->shape.count()}, {},
                    inputs[0]->grad);
  }

 private:
  const caffe::GradientScalerParameter& settings() const { return parameter_.gradient_scaler_param(); }

  ops::ReversalSchedule schedule_;
  Tensor factor_, none_;
};

const RegisterLayer<GradientScalerLayer> registered_gradient_scaler(
    "GradientScaler", {"its input; reverses the gradient, more and more (Ganin, Lempitsky 2015)",
                       "gradient_scaler_param",
                       {"", "lower_bound: 0.5 upper_bound: 2 alpha: 3 max_iter: 40"}});
const RegisterLayer<GradientScalerLayer> registered_gradient_reversal("GradientReversal",
                                                                      {"its input; reverses the gradient",
                                                                       ""});

}  // namespace
}  // namespace banyan
