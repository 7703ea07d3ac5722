// Sparsify (wenwei202/caffe, SSL): y = x; with thre y = x - thre above thre, x + thre below -thre, else 0. To
// the gradient coef * sign(y) is added, which draws values to 0; with thre it is 0 where y is 0.
#include <cmath>

#include "banyan/ops/basic.hpp"
#include "banyan/ops/soft_threshold.hpp"
#include "elementwise_layer.hpp"

namespace banyan {
namespace {

class SparsifyLayer : public ElementwiseLayer {
 public:
  SparsifyLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : ElementwiseLayer(parameter, options, false, true) {
    traits_.by_sample = true;
  }

  void read_settings() override {
    for (const auto& [field, value] :
         {std::pair{"coef", settings().coef()}, std::pair{"thre", settings().thre()}})
      if (!(value >= 0) || !std::isfinite(value)) refuse(field, " must be a number >= 0; found ", value);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor& x = inputs[0]->data;
    if (settings().thre() == 0) return ops::copy(context, x, outputs[0]->data);
    ensure(context, threshold_, Shape{1}, dtype());
    ops::fill(context, threshold_, settings().thre());
    ops::soft_threshold_forward(context, x, threshold_, {1, 1, x.count()}, outputs[0]->data);
  }
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    const Tensor &y = outputs[0]->data, &dy = outputs[0]->grad;
    Tensor& dx = inputs[0]->grad;
    ops::add_signs(*pass.context, y, dy, settings().coef(), dx);
    if (settings().thre() > 0)
      ops::soft_threshold_backward(*pass.context, y, dx, {1, 1, y.count()}, dx, none_);
  }

 private:
  const caffe::SparsifyParameter& settings() const { return parameter_.sparsify_param(); }

  Tensor threshold_, none_;
};

const RegisterLayer<SparsifyLayer> registered_sparsify(
    "Sparsify", {"its input; its gradient draws values to 0 (SSL)", "sparsify_param", {"", "thre: 0.2"}});

}  // namespace
}  // namespace banyan
