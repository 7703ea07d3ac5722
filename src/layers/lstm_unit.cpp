// LSTMUnit: one time step of an LSTM from its gates. Inputs: c of the step before (1 x N x D), the gates'
// inputs i, f, o, g (1 x N x 4D), cont (1 x N). Outputs: c and h (1 x N x D). Several steps at once (T x N x
// D) are steps of different sequences.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/lstm.hpp"

namespace banyan {
namespace {

class LstmUnitLayer : public Layer {
 public:
  LstmUnitLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options, {.arity = {3, 3, 2, 2}, .differentiable_inputs = 2}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &c = inputs[0]->shape, &gates = inputs[1]->shape, &cont = inputs[2]->shape;
    if (c.axes() != 3 || !(gates == Shape{c[0], c[1], 4 * c[2]}) || !(cont == Shape{c[0], c[1]}))
      refuse("expected the shapes 1 x N x D, 1 x N x 4D and 1 x N; found ", c.to_string(), ", ",
             gates.to_string(), " and ", cont.to_string());
    for (Blob* output : outputs) set_output(*output, c);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    const Tensor& gates = inputs[1]->data;
    ensure(*pass.context, activated_, gates.shape(), gates.dtype());
    ops::lstm_forward(*pass.context, gates, inputs[2]->data, inputs[0]->data, activated_, outputs[0]->data,
                      outputs[1]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Tensor none, &dc = propagate[0] ? inputs[0]->grad : none, &dgates = propagate[1] ? inputs[1]->grad : none;
    ops::lstm_backward(*pass.context, activated_, inputs[2]->data, inputs[0]->data, outputs[0]->data,
                       outputs[0]->grad, outputs[1]->grad, dgates, dc, 0);
  }

 private:
  Tensor activated_;  ///< like the gates
};

const RegisterLayer<LstmUnitLayer> registered_lstm_unit("LSTMUnit",
                                                        {.about = "one time step of an LSTM from its gates",
                                                         .message = "",
                                                         .inputs = {{2, 3}, {2, 12}, {2}}});

}  // namespace
}  // namespace banyan
