// LSTM (see recurrent_layer.hpp): states h and c, gates i, f, o, g of D values each; the output is h.
// Parameters: W_xc (4D x I), b_c (4D), [W_xc_static (4D x S)], W_hc (4D x D).
#include "banyan/ops/lstm.hpp"

#include "layers/recurrent_layer.hpp"

namespace banyan {
namespace {

class LstmLayer : public RecurrentLayer {
 public:
  LstmLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : RecurrentLayer(parameter, options, 2, 4) {
    traits_.backward_reads_outputs = false;
  }

 private:
  void begin(Context& context, const Blobs& outputs) override {
    states_[0] = outputs[0]->data;
    ensure(context, states_[1], per_step(), dtype());
  }
  void step(Context& context, const Tensor& cont, std::int64_t t) override {
    Tensor activated = gates(t), c = state(1, t), h = state(0, t);
    ops::lstm_forward(context, activated, cont, state(1, t - 1), activated, c, h);
  }
  void finish(Context&, const Blobs&) override { states_[0] = Tensor(); }  // the net's memory

  Tensor begin_backward(Context&, const Blobs& outputs) override { return outputs[0]->grad; }
  void step_backward(Context& context, const Tensor& cont, std::int64_t t) override {
    Tensor of_gates = gates(t), &dc = dstates_[1];
    ops::lstm_backward(context, of_gates, cont, state(1, t - 1), state(1, t), dc, dstates_[0], of_gates, dc);
  }
};

const RegisterLayer<LstmLayer> registered_lstm("LSTM",
                                               {.about = "long short-term memory over time steps x sequences",
                                                .message = "recurrent_param",
                                                .examples = {"num_output: 2 weight_filler { value: 0.1 }"},
                                                .inputs = {{3, 5}, {3}}});

}  // namespace
}  // namespace banyan
