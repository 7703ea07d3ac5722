// LSTM (see recurrent_layer.hpp): states h and c, gates i, f, o, g of D values each; the output is h.
// Parameters: W_xc (4D x I), b_c (4D), [W_xc_static (4D x S)], W_hc (4D x D).
#include "banyan/ops/lstm.hpp"

#include "layers/recurrent_layer.hpp"

namespace banyan {
namespace {

class LstmLayer : public RecurrentLayer {
 public:
  LstmLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LstmLayer(parameter, options, {.settings = parameter.recurrent_param()}, 0) {}

 protected:
  LstmLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, const RecurrentForm& form,
            double bound)
      : RecurrentLayer(parameter, options, 2, 4, form), bound_(bound) {
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
    ops::lstm_backward(context, of_gates, cont, state(1, t - 1), state(1, t), dc, dstates_[0], of_gates, dc,
                       bound_);
  }

  double bound_;  ///< of the gradients of the gates; 0: none
};

/// Lstm (Junhyuk Oh): the same with parameters W_x, W_h, b, which needs no cont.
class LstmOfOhLayer : public LstmLayer {
 public:
  LstmOfOhLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LstmLayer(parameter, options, form_of(parameter.lstm_param()),
                  parameter.lstm_param().clipping_threshold()) {}

  void read_settings() override {
    LstmLayer::read_settings();
    if (parameter().lstm_param().has_batch_size() && parameter().lstm_param().batch_size() == 0)
      refuse("lstm_param.batch_size must be positive");
  }

 private:
  static RecurrentForm form_of(const caffe::LstmParameter& s) {
    RecurrentForm form;
    form.bias_last = form.joins_axes = true;
    form.needs_cont = false;
    if (s.has_num_output()) form.settings.set_num_output(s.num_output());
    if (s.has_weight_filler()) *form.settings.mutable_weight_filler() = s.weight_filler();
    if (s.has_bias_filler()) *form.settings.mutable_bias_filler() = s.bias_filler();
    form.sequences = s.batch_size();
    return form;
  }
};

const RegisterLayer<LstmLayer> registered_lstm("LSTM",
                                               {.about = "long short-term memory over time steps x sequences",
                                                .message = "recurrent_param",
                                                .examples = {"num_output: 2 weight_filler { value: 0.1 }"},
                                                .inputs = {{3, 5}, {3}}});
const RegisterLayer<LstmOfOhLayer> registered_lstm_of_oh(
    "Lstm", {.about = "LSTM (Junhyuk Oh) of sequences that all begin with a batch, or with marks as LSTM's",
             .message = "lstm_param",
             .examples = {"num_output: 2 weight_filler { value: 0.1 }"},
             .inputs = {{3, 5}}});

}  // namespace
}  // namespace banyan
