// ContinuationIndicator (Intel): time_step x batch_size marks for recurrent layers, whose sequences all begin
// with the batch: 0 in the first time step, 1 in all others. An input (a branch for CTC) is read for its
// shape only: there are as many sequences as its axis `axis` is long.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan {
namespace {

class ContinuationIndicatorLayer : public Layer {
 public:
  ContinuationIndicatorLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {0, 1, 1, 1},
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .differentiable_outputs = 0}) {}

  void read_settings() override {
    const auto& s = settings();
    if (s.time_step() < 1) refuse("time_step must be given and positive");
    const bool counted = parameter_.bottom_size() == 0;
    if (counted && s.batch_size() < 1) refuse("batch_size must be given and positive");
    if (!counted && s.has_batch_size())
      refuse("with an input, there are as many sequences as its axis ", s.axis(),
             " is long; remove batch_size");
  }
  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    std::int64_t sequences = settings().batch_size();
    if (!inputs.empty()) {
      const Shape& shape = inputs[0]->shape;
      sequences = shape[shape.canonical_axis(settings().axis())];
    }
    set_output(*outputs[0], Shape{settings().time_step(), sequences});
  }
  void forward(Pass& pass, const Blobs&, const Blobs& outputs) override {
    Tensor& marks = outputs[0]->data;
    Tensor first = marks.slice(0, Shape{marks.shape()[1]});
    ops::fill(*pass.context, marks, 1);
    ops::fill(*pass.context, first, 0);
  }
  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  const caffe::ContinuationIndicatorParameter& settings() const {
    return parameter_.continuation_indicator_param();
  }
};

const RegisterLayer<ContinuationIndicatorLayer> registered_continuation_indicator(
    "ContinuationIndicator",
    {"marks the first time step of all sequences (Intel)", "continuation_indicator_param", {}});

}  // namespace
}  // namespace banyan
