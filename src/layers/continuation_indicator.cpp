// ContinuationIndicator (Intel): time_step x batch_size marks for recurrent layers, whose sequences all begin
// with the batch: 0 in the first time step, 1 in all others.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan {
namespace {

class ContinuationIndicatorLayer : public Layer {
 public:
  ContinuationIndicatorLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {0, 0, 1, 1},
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .differentiable_outputs = 0}) {}

  void setup(const Blobs&, const Blobs&) override {
    if (steps() < 1) refuse("time_step must be given and positive");
    if (sequences() < 1) refuse("batch_size must be given and positive");
  }
  void reshape(const Blobs&, const Blobs& outputs) override {
    set_output(*outputs[0], Shape{steps(), sequences()});
  }
  void forward(Pass& pass, const Blobs&, const Blobs& outputs) override {
    Tensor& marks = outputs[0]->data;
    Tensor first = marks.slice(0, Shape{sequences()});
    ops::fill(*pass.context, marks, 1);
    ops::fill(*pass.context, first, 0);
  }
  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  std::int64_t steps() const { return parameter_.continuation_indicator_param().time_step(); }
  std::int64_t sequences() const { return parameter_.continuation_indicator_param().batch_size(); }
};

const RegisterLayer<ContinuationIndicatorLayer> registered_continuation_indicator(
    "ContinuationIndicator",
    {"marks the first time step of all sequences (Intel)", "continuation_indicator_param", {}});

}  // namespace
}  // namespace banyan
