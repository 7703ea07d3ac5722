// CReLU (Shang et al. 2016): ReLU of the input, then ReLU of its negative, one after the other along
// concat_axis, which becomes twice as long. A negative_slope is that of both.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/functions.hpp"
#include "banyan/ops/join.hpp"

namespace banyan {
namespace {

class CReluLayer : public Layer {
 public:
  CReluLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options, {.backward_reads_outputs = false}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = inputs[0]->shape;
    const int axis = input.canonical_axis(settings().concat_axis());
    std::vector<std::int64_t> dims(input.dims().begin(), input.dims().end());
    dims[static_cast<std::size_t>(axis)] *= 2;
    set_output(*outputs[0], Shape(dims));
    parts_ = {input.count(0, axis), {input.count(axis), input.count(axis)}};
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor& x = inputs[0]->data;
    ensure_parts(context, x);
    ops::relu_forward(context, x, slope(), positive_);
    ops::apply_function(context, x, kNegated, negative_);
    ops::relu_forward(context, negative_, slope(), negative_);
    ops::join_blocks(context, {&positive_, &negative_}, parts_, outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    Context& context = *pass.context;
    const Tensor& x = inputs[0]->data;
    Tensor& dx = inputs[0]->grad;
    ensure_parts(context, x);
    ops::split_blocks(context, outputs[0]->grad, parts_, {&positive_, &negative_});
    ops::apply_function(context, x, kNegated, dx);
    ops::relu_backward(context, dx, negative_, slope(), negative_);
    ops::relu_backward(context, x, positive_, slope(), dx);
    ops::axpby(context, -1, negative_, 1, dx);
  }

  double forward_flops(const Blobs&, const Blobs& outputs) const override {
    return static_cast<double>(outputs[0]->shape.count());
  }

 private:
  static constexpr ops::Function kNegated{ops::Function::Kind::affine, -1};

  const caffe::CReLUParameter& settings() const { return parameter_.crelu_param(); }
  double slope() const { return settings().negative_slope(); }
  void ensure_parts(Context& context, const Tensor& x) {
    ensure(context, positive_, x.shape(), x.dtype());
    ensure(context, negative_, x.shape(), x.dtype());
  }

  ops::BlockParts parts_;
  Tensor positive_, negative_;  ///< of the output, or of its gradient
};

const RegisterLayer<CReluLayer> registered_crelu("CReLU", {"rectifiers of x and of -x (Shang et al. 2016)",
                                                           "crelu_param",
                                                           {"", "negative_slope: 0.25 concat_axis: -1"}});

}  // namespace
}  // namespace banyan
