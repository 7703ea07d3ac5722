// Eltwise: SUM (with optional coefficients), PROD, MAX or STOCHASTIC_SUM of two or more inputs of one shape,
// or of shapes that differ by ones at their ends (32 18 and 32 18 1 1, which early Caffe did not tell apart);
// the output has the first one's.
//
// MAX ties as in Caffe: the later input wins in the first pair, the earlier one against the third and later
// ones. PROD's gradient multiplies the other inputs unless stable_prod_grad is false; then it is dy * y / x,
// which fails at x = 0. MAX leaves coeff aside, as in Caffe. STOCHASTIC_SUM (yjxiong) keeps each input with
// the probability coeff in training, drawn once per pass for the whole batch and all devices, and is the sum
// of coeff * input in tests.
#include <algorithm>

#include "banyan/base/contains.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"

namespace banyan {
namespace {

class EltwiseLayer : public Layer {
 public:
  EltwiseLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, -1, 1, 1}, .layout = LayoutRule::follows, .storage = StorageRule::sixteen_bits}),
        operation_(parameter.eltwise_param().operation()) {
    const bool product = operation_ == caffe::EltwiseParameter::PROD;
    traits_.backward_reads_inputs = product;
    traits_.backward_reads_outputs = product && !parameter.eltwise_param().stable_prod_grad();
    traits_.by_sample = !draws();
    if (is_sum()) traits_.fuses_activation = ActivationFusion::forward;
  }

  void read_settings() override;
  void setup(const Blobs& inputs, const Blobs&) override;
  void reshape(const Blobs& inputs, const Blobs& outputs) override;
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override;
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override;
  double forward_flops(const Blobs& inputs, const Blobs& outputs) const override {
    return static_cast<double>(inputs.size() - 1) * static_cast<double>(outputs[0]->shape.count());
  }

 private:
  bool is_sum() const { return operation_ == caffe::EltwiseParameter::SUM; }
  bool is_stochastic() const { return operation_ == caffe::EltwiseParameter::STOCHASTIC_SUM; }
  bool draws() const { return is_stochastic() && options().phase == Phase::train; }
  static bool are_alike(const Shape& a, const Shape& b);
  void product_gradient(Context& context, const Blobs& inputs, const Blob& output, std::size_t of);

  caffe::EltwiseParameter::EltwiseOp operation_;
  std::vector<double> coefficients_;
  bool mixed_ = false;  ///< the inputs differ in their numbers of axes
  Tensor mask_;         ///< MAX: index of the winning input, i32
};

void EltwiseLayer::read_settings() {
  const auto& settings = parameter_.eltwise_param();
  if (settings.relu()) refuse("eltwise_param.relu (a fused ReLU) is not supported; add a ReLU layer");
  if (settings.has_negative_slope()) refuse("negative_slope needs relu: true");
  if (settings.coeff_size() > 0 && operation_ == caffe::EltwiseParameter::PROD)
    refuse("coeff cannot be used with PROD");
  const int bottoms = parameter_.bottom_size();
  if (settings.coeff_size() > 0 && settings.coeff_size() != bottoms)
    refuse("expected one coeff for each of ", bottoms, " inputs; found ", settings.coeff_size());
  coefficients_.assign(static_cast<std::size_t>(bottoms), 1);
  for (int i = 0; i < settings.coeff_size(); ++i) coefficients_[i] = settings.coeff(i);
  for (const double c : coefficients_)
    if (is_stochastic() && !(c >= 0 && c <= 1))
      refuse("coeff is a probability with STOCHASTIC_SUM; expected 0 to 1, found ", c);
}

void EltwiseLayer::setup(const Blobs& inputs, const Blobs&) {
  mixed_ = std::any_of(inputs.begin(), inputs.end(),
                       [&](const Blob* input) { return input->shape.axes() != inputs[0]->shape.axes(); });
  if (mixed_) traits_.layout = LayoutRule::contiguous;
  if (!is_sum() || mixed_) return;
  for (const double c : coefficients_) traits_.passes_gradient.push_back(c == 1);
  traits_.plain_sum = !contains(traits_.passes_gradient, false);
}

bool EltwiseLayer::are_alike(const Shape& a, const Shape& b) {
  const int axes = std::min(a.axes(), b.axes());
  for (int i = 0; i < axes; ++i)
    if (a[i] != b[i]) return false;
  return a.count(axes) == 1 && b.count(axes) == 1;
}

void EltwiseLayer::reshape(const Blobs& inputs, const Blobs& outputs) {
  for (const Blob* input : inputs) {
    if (mixed_ ? !are_alike(input->shape, inputs[0]->shape) : !(input->shape == inputs[0]->shape))
      refuse("inputs must have one shape; ", quoted(inputs[0]->name), " is ", inputs[0]->shape.to_string(),
             ", ", quoted(input->name), " is ", input->shape.to_string());
  }
  set_output(*outputs[0], inputs[0]->shape, inputs[0]->layout);
}

void EltwiseLayer::forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) {
  Context& context = *pass.context;
  Tensor& y = outputs[0]->data;
  const Tensor &first = inputs[0]->data, &second = inputs[1]->data;
  switch (operation_) {
    case caffe::EltwiseParameter::PROD:
      ops::multiply(context, first, second, y);
      for (std::size_t i = 2; i < inputs.size(); ++i) ops::multiply(context, y, inputs[i]->data, y);
      return;
    case caffe::EltwiseParameter::MAX:
      ensure(context, mask_, outputs[0]->shape, DType::i32, outputs[0]->layout);
      ops::maximum(context, first, second, 1, true, y, mask_);
      for (std::size_t i = 2; i < inputs.size(); ++i)
        ops::maximum(context, y, inputs[i]->data, static_cast<int>(i), false, y, mask_);
      return;
    default:
      if (draws()) {
        for (std::size_t i = 0; i < inputs.size(); ++i)
          ops::keep_term(context, inputs[i]->data, coefficients_[i], random_key(pass), static_cast<int>(i),
                         i > 0, y);
        return;
      }
      std::vector<const Tensor*> terms;
      for (const Blob* input : inputs) terms.push_back(&input->data);
      ops::weighted_sum(context, terms, coefficients_, pass.fused.output, y);
  }
}

void EltwiseLayer::product_gradient(Context& context, const Blobs& inputs, const Blob& output,
                                    std::size_t of) {
  Tensor& dx = inputs[of]->grad;
  if (!parameter_.eltwise_param().stable_prod_grad()) {
    ops::product_backward_by_quotient(context, inputs[of]->data, output.data, output.grad, dx);
    return;
  }
  const Tensor* factor = &output.grad;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i == of) continue;
    ops::multiply(context, *factor, inputs[i]->data, dx);
    factor = &dx;
  }
}

void EltwiseLayer::backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                            const Blobs& inputs) {
  Context& context = *pass.context;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!propagate[i]) continue;
    if (operation_ == caffe::EltwiseParameter::PROD)
      product_gradient(context, inputs, *outputs[0], i);
    else if (operation_ == caffe::EltwiseParameter::MAX)
      ops::maximum_backward(context, outputs[0]->grad, mask_, static_cast<int>(i), inputs[i]->grad);
    else if (draws())
      ops::keep_term(context, outputs[0]->grad, coefficients_[i], random_key(pass), static_cast<int>(i),
                     false, inputs[i]->grad);
    else if (!inputs[i]->grad.same_memory(outputs[0]->grad))
      ops::axpby(context, coefficients_[i], outputs[0]->grad, 0, inputs[i]->grad);
  }
}

const RegisterLayer<EltwiseLayer> registered_eltwise("Eltwise",
                                                     {"sum, product or maximum of blobs",
                                                      "eltwise_param",
                                                      {"", "operation: PROD", "operation: MAX",
                                                       "operation: STOCHASTIC_SUM coeff: 0.5 coeff: 1"}});

}  // namespace
}  // namespace banyan
