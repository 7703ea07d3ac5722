// MarginInnerProduct (SphereFace, Liu et al. 2017): y (M x N) = x (M x K) W^T with rows of W of length 1, the
// score of each sample's own class made smaller by an angular margin (ops/margin.hpp): type SINGLE (none) to
// QUADRUPLE. Inputs: x, labels (M). W is (N, K). A second output holds lambda.
//
// lambda decays with the number of training passes so far (SphereFace's layer counts its own from
// `iteration`), which is iteration * iter_size + sub-iteration of the run, so a resumed run goes on with it.
// In a test net the batches of the test count. The gradient is exact; SphereFace leaves out factors of it,
// and replaces the rows of W by unit vectors in each pass. Here only the update writes parameters: while a
// device is already in its next pass, others may still read its copy. So the unit vectors are never made:
// scores and gradients are divided by the rows' lengths, of which there are fewer than of weights.
//
// LargeMarginInnerProduct (L-Softmax, Liu et al. 2016) is the same with rows of W of any length, by which
// scores grow: y = x W^T, with the margin for each sample's own class.
#include <cfloat>

#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/margin.hpp"
#include "banyan/ops/norms.hpp"

namespace banyan {
namespace {

class MarginInnerProductLayer : public Layer {
 public:
  MarginInnerProductLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 1, 2},
               .differentiable_inputs = 1,
               .label_input = 1,
               .differentiable_outputs = 1,
               .overwrites_gradients = true}),
        any_length_(parameter.type() == "LargeMarginInnerProduct"),
        margin_(static_cast<int>(settings().type()) + 1) {
    traits_.backward_reads_outputs = !any_length_;
  }

  void read_settings() override {
    const auto& s = settings();
    require_num_output(s.has_num_output(), s.num_output());
    if (!(s.base() >= 0) || !(s.gamma() >= 0) || !(s.lambda_min() >= 0) || s.iteration() < 0)
      refuse("base, gamma, lambda_min and iteration must not be negative");
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    const auto& s = settings();
    axis_ = inputs[0]->shape.canonical_axis(s.axis());
    classes_ = {s.num_output(), inputs[0]->shape.count(axis_), 1};
    decay_ = {s.base(), s.gamma(), s.power(), s.lambda_min(), s.iteration()};
    declare(Shape{classes_.outer, classes_.channels}, s.weight_filler());
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = inputs[0]->shape;
    if (input.axes() <= axis_ || input.count(axis_) != classes_.channels)
      refuse("input ", quoted(inputs[0]->name), " of shape ", input.to_string(),
             " does not fit the weights for ", classes_.channels, " values from axis ", axis_, " on");
    samples_ = {input.count(0, axis_), classes_.channels, 1};
    if (inputs[1]->shape.count() != samples_.outer)
      refuse("expected one label for each of ", samples_.outer, " samples; ", quoted(inputs[1]->name), " is ",
             inputs[1]->shape.to_string());
    std::vector<std::int64_t> dims(input.dims().begin(), input.dims().begin() + axis_);
    dims.push_back(classes_.outer);
    set_output(*outputs[0], Shape(dims));
    if (outputs.size() > 1) set_output(*outputs[1], Shape{1});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor& w = parameters_[0].value;
    const Shape rows{classes_.outer};
    ensure(context, weight_squares_, rows, DType::f64);
    ensure(context, inverse_, rows, w.dtype());
    ensure(context, steps_, rows, w.dtype());
    ops::dot_products(context, w, w, classes_, kLeastSquare, weight_squares_);
    ops::invert_lengths(context, weight_squares_, kShortLength, inverse_, steps_);
    recompute(pass, inputs, outputs);
  }

  /// With the lengths found in the forward pass.
  void recompute(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor& x = inputs[0]->data;
    Tensor& y = outputs[0]->data;
    ensure(context, lambda_, Shape{1}, DType::f64);
    ops::margin_lambda(context, decay_, pass.draw_on_device, lambda_);
    if (outputs.size() > 1) ops::copy(context, lambda_, outputs[1]->data);
    if (samples_.outer == 0) return;
    for (Tensor* tensor : {&squares_, &slopes_, &lengths_, &plain_})
      ensure(context, *tensor, Shape{samples_.outer}, DType::f64);
    ops::gemm(context, {false, true, samples_.outer, classes_.outer, classes_.channels}, 1, x,
              parameters_[0].value, 0, y);
    if (!any_length_) ops::scale_bias(context, y, inverse_, none_, scores(), {}, y);
    ops::dot_products(context, x, x, samples_, 0, squares_);
    ops::add_margin(context, squares_, inputs[1]->data, margin_, lambda_, any_length_ ? inverse_ : none_, y,
                    slopes_, lengths_, plain_, note_.on(context));
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    Tensor& dw = parameters_[0].grad;
    if (samples_.outer == 0) {
      if (pass.is_fresh(0)) ops::fill(context, dw, 0);
      return;
    }
    const Tensor &x = inputs[0]->data, &labels = inputs[1]->data, &w = parameters_[0].value;
    const Tensor &y = outputs[0]->data, &dy = outputs[0]->grad;
    ensure(context, dz_, dy.shape(), dy.dtype());
    if (!any_length_) ensure(context, divided_, dy.shape(), dy.dtype());
    ops::scale_at_labels(context, dy, labels, slopes_, dz_);
    // dz, divided by the rows' lengths where these are not part of the scores.
    const auto divided = [&](const Tensor& inverse) -> const Tensor& {
      if (any_length_) return dz_;
      ops::scale_bias(context, dz_, inverse, none_, scores(), {}, divided_);
      return divided_;
    };
    const std::int64_t m = samples_.outer, n = classes_.outer, k = classes_.channels;
    if (dw.defined()) {
      // Of a row w with unit vector u: (dz x - u (dz u.x)) / length, summed over the samples. If scores grow
      // with the length: dz x, and at the labels what the margin makes of u.
      ensure(context, along_, Shape{n}, w.dtype());
      ops::sum_along_classes(context, any_length_ ? dy : dz_, any_length_ ? none_ : y, labels, plain_,
                             along_);
      ops::gemm(context, {true, false, n, k, m}, 1, divided(steps_), x, pass.is_fresh(0) ? 0 : 1, dw);
      ops::subtract_along_rows(context, w, along_, inverse_, any_length_ ? inverse_ : steps_, dw);
    }
    if (!propagate[0]) return;
    ops::gemm(context, {false, false, m, k, n}, 1, divided(inverse_), w, 0, inputs[0]->grad);
    ops::add_along_samples(context, dy, labels, lengths_, x, inputs[0]->grad);
  }

  void check_results(Context& context) override {
    note_.check(context, name(), {samples_.outer, classes_.outer, 1});
  }

  double forward_flops(const Blobs&, const Blobs&) const override {
    return static_cast<double>(samples_.outer) * static_cast<double>(parameters_[0].shape.count());
  }

 private:
  /// Added to squared lengths, so that a row of zeros stays one.
  static constexpr double kLeastSquare = 1e-60;
  /// Shorter rows (of zeros) get the gradient of one of this length.
  static constexpr double kShortLength = 0.01;

  const caffe::MarginInnerProductParameter& settings() const {
    return any_length_ ? parameter_.largemargin_inner_product_param()
                       : parameter_.margin_inner_product_param();
  }

  /// As a matrix with one column per class.
  ops::Broadcast scores() const { return {samples_.outer, classes_.outer, 1}; }

  bool any_length_;  ///< of the rows of W
  int margin_, axis_ = 1;
  ops::MarginDecay decay_;
  ops::Channels classes_{}, samples_{};  ///< rows of W, of x: outer is their number, channels their length
  Tensor weight_squares_, inverse_, steps_;             ///< of the rows of W
  Tensor lambda_, squares_, slopes_, lengths_, plain_;  ///< see ops/margin.hpp
  Tensor dz_, divided_, along_, none_;
  LabelNote note_;
};

const RegisterLayer<MarginInnerProductLayer> registered_margin_inner_product(
    "MarginInnerProduct", {"inner product with an angular margin for the label's class (SphereFace)",
                           "margin_inner_product_param",
                           {"num_output: 4 weight_filler { value: 1 }",
                            "num_output: 4 type: QUADRUPLE base: 3 gamma: 0.5 weight_filler { value: 1 }"}});
const RegisterLayer<MarginInnerProductLayer> registered_large_margin_inner_product(
    "LargeMarginInnerProduct",
    {"inner product with an angular margin for the label's class (L-Softmax)",
     "largemargin_inner_product_param",
     {"num_output: 4 weight_filler { value: 1 }",
      "num_output: 4 type: TRIPLE base: 3 gamma: 0.5 weight_filler { value: 1 }"}});

}  // namespace
}  // namespace banyan
