// RNN (see recurrent_layer.hpp): h_t = tanh(gates), the output is o_t = tanh(W_ho h_t + b_o). Parameters:
// W_xh (D x I), b_h (D), [W_xh_static (D x S)], W_hh (D x D), W_ho (D x D), b_o (D).
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"
#include "layers/recurrent_layer.hpp"

namespace banyan {
namespace {

class RnnLayer : public RecurrentLayer {
 public:
  RnnLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : RecurrentLayer(parameter, options, 1, 1) {}

  void setup(const Blobs& inputs, const Blobs& outputs) override {
    RecurrentLayer::setup(inputs, outputs);
    output_ = static_cast<int>(parameters_.size());
    declare(Shape{d_, d_}, parameter_.recurrent_param().weight_filler());
    declare(Shape{d_}, parameter_.recurrent_param().bias_filler());
  }

  double forward_flops(const Blobs& inputs, const Blobs& outputs) const override {
    return RecurrentLayer::forward_flops(inputs, outputs) +
           static_cast<double>(rows()) * static_cast<double>(d_ * d_);
  }

 private:
  void begin(Context& context, const Blobs&) override { ensure(context, states_[0], per_step(), dtype()); }
  void step(Context& context, const Tensor&, std::int64_t t) override {
    Tensor h = state(0, t);
    ops::tanh_forward(context, gates(t), h);
  }
  void finish(Context& context, const Blobs& outputs) override {
    Tensor& o = outputs[0]->data;
    ops::gemm(context, {false, true, rows(), d_, d_}, 1, states_[0], parameters_[output_].value, 0, o);
    ops::scale_bias(context, o, none_, parameters_[output_ + 1].value, {rows(), d_, 1}, {}, o);
    ops::tanh_forward(context, o, o);
  }

  Tensor begin_backward(Context& context, const Blobs& outputs) override {
    if (!outputs[0]->grad.defined()) return {};
    ensure(context, doutput_, per_step(), dtype());
    ensure(context, dh_, per_step(), dtype());
    ops::tanh_backward(context, outputs[0]->data, outputs[0]->grad, doutput_);
    add_gradients(context, rows(), doutput_, states_[0], parameters_[output_].grad,
                  &parameters_[output_ + 1].grad);
    ops::gemm(context, {false, false, rows(), d_, d_}, 1, doutput_, parameters_[output_].value, 0, dh_);
    return dh_;
  }
  void step_backward(Context& context, const Tensor&, std::int64_t t) override {
    Tensor of_gates = gates(t);
    ops::tanh_backward(context, state(0, t), dstates_[0], of_gates);
  }

  int output_ = 0;       ///< W_ho's place among the parameters
  Tensor doutput_, dh_;  ///< T x N x D: gradients before the output's tanh, and of h
};

const RegisterLayer<RnnLayer> registered_rnn("RNN",
                                             {.about = "recurrent layer over time steps x sequences",
                                              .message = "recurrent_param",
                                              .examples = {"num_output: 2 weight_filler { value: 0.1 }"},
                                              .inputs = {{3, 5}, {3}}});

}  // namespace
}  // namespace banyan
