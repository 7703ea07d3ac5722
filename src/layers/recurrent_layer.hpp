// What LSTM and RNN have in common: T time steps of N sequences. Inputs: x (T x N x ...), cont (T x N; 0: a
// new sequence begins, 1: it continues), optionally x_static (N x ...), which every step sees, and with
// `expose_hidden` the states before the first step (1 x N x D each). Outputs: one vector per step and
// sequence (T x N x D), and with `expose_hidden` the states after the last step.
//
// A step computes its gates from W_x x_t + b + W_static x_static + W_h (cont_t h_{t-1}). The first and the
// last but W_h are one product for all steps. Parameters in the order in which Caffe's unrolled net meets
// them: W_x, b, [W_static], W_h, then those of the derived layer.
//
// Without `expose_hidden`, the states after the last step are those before the first one in the next pass.
// Gradients end at the first step of a pass.
//
// Lstm differs in its RecurrentForm. Without cont, all its sequences begin with a pass, with states of 0.
#pragma once

#include <vector>

#include "banyan/layers/layer.hpp"

namespace banyan {

/// What some recurrent layers have in another way than the others.
struct RecurrentForm {
  caffe::RecurrentParameter settings;
  bool bias_last = false;  ///< parameters: W_x, W_h, b
  bool needs_cont = true;
  /// x may be T * N x ..., and outputs T * N x D: N is `sequences`, or 1 where that is 0 and x has two axes.
  bool joins_axes = false;
  std::int64_t sequences = 0;
};

class RecurrentLayer : public Layer {
 public:
  /// Of `states` tensors (the first is h) that go from step to step; a step has `gates` values per element of
  /// h.
  RecurrentLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, int states, int gates,
                 const RecurrentForm& form);
  RecurrentLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, int states, int gates)
      : RecurrentLayer(parameter, options, states, gates, {.settings = parameter.recurrent_param()}) {}

  void read_settings() override;
  void setup(const Blobs& inputs, const Blobs& outputs) override;
  void reshape(const Blobs& inputs, const Blobs& outputs) override;
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override;
  void recompute(Pass& pass, const Blobs& inputs, const Blobs& outputs) override;
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override;
  std::vector<Tensor*> carried() override;
  void check_results(Context& context) override;
  double forward_flops(const Blobs& inputs, const Blobs& outputs) const override;

 protected:
  /// Before the first step: binds or makes states_.
  virtual void begin(Context& context, const Blobs& outputs) = 0;
  /// From the gates to the states after step t.
  virtual void step(Context& context, const Tensor& cont, std::int64_t t) = 0;
  /// After the last step: what is left of the output.
  virtual void finish(Context& context, const Blobs& outputs) = 0;

  /// The gradient of h (T x N x D) as the outputs know it; undefined: zeros.
  virtual Tensor begin_backward(Context& context, const Blobs& outputs) = 0;
  /// Replaces the gates by their gradient, and the gradients of the states after step t (dstates_) by those
  /// of the states before it, but for that of h, which follows from the gates.
  virtual void step_backward(Context& context, const Tensor& cont, std::int64_t t) = 0;

  /// dW += dy^T x, db += the sum of dy, for rows of dy and x. An undefined gradient is not wanted.
  static void add_gradients(Context& context, std::int64_t rows, const Tensor& dy, const Tensor& x,
                            Tensor& dweights, Tensor* dbias = nullptr);
  /// State `k` after step t; t = -1: before the first.
  Tensor state(int k, std::int64_t t) const;
  Tensor gates(std::int64_t t) const { return gates_.slice(t * n_ * width_, Shape{n_, width_}); }
  std::int64_t rows() const { return t_ * n_; }
  Shape per_step() const { return {t_, n_, d_}; }

  std::int64_t t_ = 0, n_ = 0;   ///< steps, sequences
  std::int64_t d_ = 0;           ///< num_output
  std::vector<Tensor> states_;   ///< T x N x D each
  std::vector<Tensor> dstates_;  ///< N x D each
  Tensor none_;

 private:
  const caffe::RecurrentParameter& settings() const { return form_.settings; }
  bool exposed() const { return settings().expose_hidden(); }
  int state_input(int k) const { return 2 + (static_ ? 1 : 0) + k; }
  int state_count() const { return static_cast<int>(states_.size()); }
  Parameter& hidden_weights() { return parameters_[form_.bias_last ? 1 : static_ ? 3 : 2]; }
  Parameter& bias() { return parameters_[form_.bias_last ? 2 : 1]; }
  /// Whether each sequence continues at step t.
  Tensor cont(const Blobs& inputs, std::int64_t t) const {
    return (marked_ ? inputs[1]->data : ones_).slice(t * n_, Shape{n_});
  }
  void read_steps(const Blob& input);
  void read_shapes(const Blobs& inputs);
  void expect(const Blob& input, const Shape& shape, const char* what) const;
  void take_initial_states(Context& context, const Blobs& inputs);
  Tensor carried_over(Context& context, int k);
  void note_continued(Context& context, const Blobs& inputs);
  void run(Context& context, const Blobs& inputs, const Blobs& outputs, bool leaves_trace);
  void project_inputs(Context& context, const Blobs& inputs);
  void add_input_gradients(Context& context, const std::vector<bool>& propagate, const Blobs& inputs);

  RecurrentForm form_;
  bool marked_ = true;  ///< there is an input cont
  bool static_ = false;
  bool joined_ = false;                    ///< x has one axis for steps and sequences
  std::int64_t width_ = 0;                 ///< of the gates of one step and sequence
  std::int64_t x_size_ = 0, s_size_ = 0;   ///< of one x_t, of one x_static
  Tensor gates_;                           ///< T x N x width; after step_backward() their gradient
  Tensor conted_;                          ///< cont_t h_{t-1}: T x N x D
  Tensor ones_;                            ///< T x N, in place of cont
  Tensor from_static_;                     ///< N x width
  std::vector<Tensor> initial_, carried_;  ///< N x D each
  Tensor continued_, continued_here_;      ///< f64 (1): sum of |cont| at first steps of test batches
};

}  // namespace banyan
