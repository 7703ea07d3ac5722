// What InnerProduct and InnerDistance have in common: they compare each vector of their input (M x K, M being
// the product of the axes before `axis`, K that of the others) with N rows (N x K), and add a bias (N).
//
// Rows and bias are parameters, or with more than one input the second and the third (caffe-windows), then N
// is the second input's first axis. `normalize` divides stored rows by sqrt(|row|^2 + 1e-6) before each pass;
// their gradient is the one without this (Parameter::adjusted).
#pragma once

#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/functions.hpp"
#include "banyan/ops/norms.hpp"

namespace banyan {

class RowsLayer : public Layer {
 public:
  void read_settings() override {
    settings_ = row_settings();
    if (parameter_.bottom_size() > 1) return;
    require_num_output(settings_.has_num_output, settings_.num_output);
    if (settings_.normalize && settings_.transpose) refuse("normalize and transpose exclude each other");
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    axis_ = inputs[0]->shape.canonical_axis(settings_.axis);
    k_ = inputs[0]->shape.count(axis_);
    given_ = inputs.size() > 1;
    if (given_) {
      check_given(inputs);
      n_ = inputs[1]->shape[0];
      return;
    }
    n_ = settings_.num_output;
    declare(settings_.transpose ? Shape{k_, n_} : Shape{n_, k_}, settings_.weight_filler).adjusted =
        settings_.normalize;
    if (settings_.bias_term) declare(Shape{n_}, settings_.bias_filler);
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = inputs[0]->shape;
    if (input.axes() <= axis_ || input.count(axis_) != k_)
      refuse("input ", quoted(inputs[0]->name), " of shape ", input.to_string(),
             " does not fit the weights for ", k_, " values from axis ", axis_, " on");
    if (given_) check_shapes(inputs);
    std::vector<std::int64_t> dims(input.dims().begin(), input.dims().begin() + axis_);
    dims.push_back(n_);
    set_output(*outputs[0], Shape(dims));
    m_ = input.count(0, axis_);
  }

  double forward_flops(const Blobs&, const Blobs&) const override {
    return static_cast<double>(m_) * static_cast<double>(n_) * static_cast<double>(k_);
  }

 protected:
  struct RowSettings {
    bool has_num_output = false;
    std::int64_t num_output = 0;
    int axis = 1;
    bool bias_term = true, transpose = false, normalize = false;
    caffe::FillerParameter weight_filler, bias_filler;
  };
  /// Where a gradient goes; null: it is not wanted. What is there is multiplied by `keep`.
  struct Target {
    Tensor* gradient = nullptr;
    double keep = 0;
  };

  using Layer::Layer;
  virtual RowSettings row_settings() const = 0;

  /// To be called first in forward().
  void make_rows(Context& context) {
    if (given_ || !settings_.normalize) return;
    Parameter& rows = parameters_[0];
    const ops::Channels over{n_, k_, 1};
    ensure(context, squares_, Shape{n_}, DType::f64);
    ensure(context, rows.used, rows.value.shape(), rows.value.dtype());
    ops::dot_products(context, rows.value, rows.value, over, 1e-6, squares_);
    ops::divide_by_norm(context, rows.value, squares_, over, rows.used);
  }
  const Tensor& rows(const Blobs& inputs) const {
    if (given_) return inputs[1]->data;
    return settings_.normalize ? parameters_[0].used : parameters_[0].value;
  }
  /// Undefined: there is none.
  const Tensor& bias(const Blobs& inputs) const {
    if (given_) return inputs.size() > 2 ? inputs[2]->data : none_;
    return parameters_.size() > 1 ? parameters_[1].value : none_;
  }

  /// Of the rows (which: 0) or the bias (1).
  Target target(const Pass& pass, std::size_t which, const std::vector<bool>& propagate,
                const Blobs& inputs) {
    if (given_)
      return {which + 1 < inputs.size() && propagate[which + 1] ? &inputs[which + 1]->grad : nullptr, 0};
    if (which >= parameters_.size() || !parameters_[which].grad.defined()) return {};
    return {&parameters_[which].grad, pass.is_fresh(which) ? 0.0 : 1.0};
  }
  /// The bias's gradient; and all that are not those of input 0 if there is no vector. Is there one?
  bool begin_backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                      const Blobs& inputs) {
    for (std::size_t which = 0; which < 2; ++which) {
      const auto [gradient, keep] = target(pass, which, propagate, inputs);
      if (gradient == nullptr) continue;
      if (keep == 0 && (m_ == 0 || which == 1)) ops::fill(*pass.context, *gradient, 0);
      if (m_ > 0 && which == 1)
        ops::scale_backward(*pass.context, none_, outputs[0]->grad, {m_, n_, 1}, *gradient);
    }
    return m_ > 0;
  }

  RowSettings settings_;
  int axis_ = 1;
  bool given_ = false;  ///< rows and bias are inputs
  std::int64_t m_ = 0, n_ = 0, k_ = 0;
  Tensor none_;

 private:
  void check_given(const Blobs& inputs) const {
    if (settings_.normalize)
      refuse("normalize is for stored weights; a Normalize layer does the same with a blob");
    if (settings_.transpose) refuse("transpose is for stored weights");
    if (settings_.bias_term != (inputs.size() > 2))
      refuse(
          "with weights as second input the bias is a third one; bias_term: false means that there is none");
    if (inputs[1]->shape.axes() < 1) refuse("the second input holds the weights, a row for each output");
    if (settings_.num_output != 0 && settings_.num_output != inputs[1]->shape[0])
      refuse("num_output is ", settings_.num_output, ", and ", quoted(inputs[1]->name), " has ",
             inputs[1]->shape[0], " rows");
  }
  void check_shapes(const Blobs& inputs) const {
    const Shape& rows = inputs[1]->shape;
    if (rows.axes() < 1 || rows[0] != n_ || rows.count(1) != k_)
      refuse("expected ", n_, " rows of ", k_, " values; ", quoted(inputs[1]->name), " is ",
             rows.to_string());
    if (inputs.size() > 2 && inputs[2]->shape.count() != n_)
      refuse("expected a bias of ", n_, " values; ", quoted(inputs[2]->name), " is ",
             inputs[2]->shape.to_string());
  }

  Tensor squares_;
};

}  // namespace banyan
