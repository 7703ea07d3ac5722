// InnerProduct: y (M x N) = x (M x K) W^T + b. M is the product of the axes before `axis`, K that of the
// others.
// W is (N, K), or (K, N) with `transpose: true`; b is (N).
#include <utility>

#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/functions.hpp"

namespace banyan {
namespace {

class InnerProductLayer : public Layer {
 public:
  InnerProductLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.storage = StorageRule::sixteen_bits,
               .backward_reads_outputs = false,
               .overwrites_gradients = true,
               .fuses_activation = ActivationFusion::forward,
               .fuses_dropout = true}) {
    if (parameter.bottom_size() == 2)
      refuse(
          "a second input, which holds the weights in a branch's InnerProduct, is not supported: weights are "
          "parameters, which layers share by a name in `param`");
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    const auto& settings = parameter_.inner_product_param();
    if (settings.num_output() == 0) refuse("num_output must be positive");
    if (settings.normalize())
      refuse(
          "normalize: true is not supported: it divides the rows of the stored weights by their lengths; "
          "MarginInnerProduct does so in each pass and leaves them as they are");
    axis_ = inputs[0]->shape.canonical_axis(settings.axis());
    transpose_ = settings.transpose();
    n_ = settings.num_output();
    k_ = inputs[0]->shape.count(axis_);
    declare(transpose_ ? Shape{k_, n_} : Shape{n_, k_}, settings.weight_filler());
    if (settings.bias_term()) declare(Shape{n_}, settings.bias_filler());
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = inputs[0]->shape;
    if (input.axes() <= axis_ || input.count(axis_) != k_)
      refuse("input ", quoted(inputs[0]->name), " of shape ", input.to_string(),
             " does not fit the weights for ", k_, " values from axis ", axis_, " on");
    std::vector<std::int64_t> dims(input.dims().begin(), input.dims().begin() + axis_);
    dims.push_back(n_);
    set_output(*outputs[0], Shape(dims));
    m_ = input.count(0, axis_);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    if (m_ == 0) return;
    Context& context = *pass.context;
    ops::gemm(context, {false, !transpose_, m_, n_, k_}, 1, inputs[0]->data, parameters_[0].value, 0,
              outputs[0]->data);
    Tensor& y = outputs[0]->data;
    const Tensor& bias = parameters_.size() > 1 ? parameters_[1].value : none_;
    const ops::Activation& activation = pass.fused.output;
    if (const Dropping& dropping = pass.fused.dropping; dropping.on())
      ops::activate_and_drop(context, y, bias, activation, dropping.ratio, dropping.key(pass), pass.samples,
                             y);
    else if (bias.defined())
      ops::scale_bias(context, y, none_, bias, {m_, n_, 1}, activation, y);
    else
      ops::activate(context, activation, y);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    for (std::size_t slot = 0; slot < parameters_.size() && m_ == 0; ++slot)
      if (pass.is_fresh(slot)) ops::fill(context, parameters_[slot].grad, 0);
    if (m_ == 0) return;
    const Tensor &x = inputs[0]->data, &dy = outputs[0]->grad;
    Tensor& dw = parameters_[0].grad;
    const double keep = pass.is_fresh(0) ? 0 : 1;
    if (dw.defined() && transpose_) ops::gemm(context, {true, false, k_, n_, m_}, 1, x, dy, keep, dw);
    if (dw.defined() && !transpose_) ops::gemm(context, {true, false, n_, k_, m_}, 1, dy, x, keep, dw);
    if (parameters_.size() > 1 && parameters_[1].grad.defined()) {
      Tensor& db = parameters_[1].grad;
      if (pass.is_fresh(1)) ops::fill(context, db, 0);
      ops::scale_backward(context, none_, dy, {m_, n_, 1}, db);
    }
    if (propagate[0])
      ops::gemm(context, {false, transpose_, m_, k_, n_}, 1, dy, parameters_[0].value, 0, inputs[0]->grad);
  }

  double forward_flops(const Blobs&, const Blobs&) const override {
    return static_cast<double>(m_) * static_cast<double>(n_) * static_cast<double>(k_);
  }

 private:
  int axis_ = 1;
  bool transpose_ = false;
  std::int64_t m_ = 0, n_ = 0, k_ = 0;
  Tensor none_;
};

const RegisterLayer<InnerProductLayer> registered_inner_product(
    "InnerProduct",
    {"fully connected layer", "inner_product_param", {"num_output: 3 weight_filler { value: 1 }"}});

}  // namespace
}  // namespace banyan
