// ScaleTanH (HashNet, Cao et al. 2017): y = tanh(s x). In training s = init_scale (1 + gamma i)^power, i
// being the iteration of the run at the last multiple of step_size, so a resumed run goes on with it; with
// iter_size all passes of an iteration have the same s. In tests s is init_scale, which leaves the signs as
// they are.
#include <cmath>
#include <limits>

#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/label_maps.hpp"

namespace banyan {
namespace {

class ScaleTanHLayer : public Layer {
 public:
  ScaleTanHLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.layout = LayoutRule::follows, .in_place = true, .backward_reads_inputs = false}) {}

  void read_settings() override {
    const auto& s = settings();
    if (s.step_size() < 1) refuse("step_size must be positive");
    for (const float value : {s.init_scale(), s.gamma(), s.power()})
      if (!std::isfinite(value)) refuse("init_scale, gamma and power must be finite; found ", value);
    if (s.gamma() < 0) refuse("gamma must not be negative; found ", s.gamma());
    constexpr double kNone = std::numeric_limits<double>::infinity();
    schedule_ = {0, s.init_scale(), s.gamma(), s.power(), -kNone, kNone};
    schedule_.step = s.step_size();
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    set_output(*outputs[0], inputs[0]->shape, inputs[0]->layout);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    Tensor& y = outputs[0]->data;
    ensure(context, scale_, Shape{1}, y.dtype());
    schedule_.passes = pass.passes;
    if (options().phase == Phase::train)
      ops::scheduled_value(context, schedule_, pass.draw_on_device, scale_);
    else
      ops::fill(context, scale_, settings().init_scale());
    ops::scale_bias(context, inputs[0]->data, scale_, none_, {1, 1, y.count()}, {}, y);
    ops::tanh_forward(context, y, y);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    Context& context = *pass.context;
    Tensor& dx = inputs[0]->grad;
    ops::tanh_backward(context, outputs[0]->data, outputs[0]->grad, dx);
    ops::scale_bias(context, dx, scale_, none_, {1, 1, dx.count()}, {}, dx);
  }

 private:
  const caffe::ScaleTanHParameter& settings() const { return parameter_.scale_tanh_param(); }

  ops::IterationSchedule schedule_;
  Tensor scale_, none_;
};

const RegisterLayer<ScaleTanHLayer> registered_scale_tanh(
    "ScaleTanH", {"hyperbolic tangent, steeper and steeper (HashNet)",
                  "scale_tanh_param",
                  {"", "init_scale: 2 gamma: 0.5 power: 0.5 step_size: 3"}});

}  // namespace
}  // namespace banyan
