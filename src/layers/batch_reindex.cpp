// BatchReindex: sample i of the output is sample index[i] of the first input; the second input holds the
// indices. On several devices an index counts within the device's own part of the batch.
#include "banyan/layers/index_note.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/rows.hpp"

namespace banyan {
namespace {

class BatchReindexLayer : public Layer {
 public:
  BatchReindexLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 1, 1},
               .backward_reads_outputs = false,
               .differentiable_inputs = 1,
               .label_input = 1}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    Shape shape = inputs[0]->shape;
    if (shape.axes() < 1 || inputs[1]->shape.axes() != 1)
      refuse("expected samples and one axis of indices; found ", shape.to_string(), " and ",
             inputs[1]->shape.to_string());
    samples_ = shape[0];
    shape.set_dim(0, inputs[1]->shape[0]);
    set_output(*outputs[0], shape);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    ops::note_outside(context, inputs[1]->data, 1, samples_, note_.on(context));
    ops::gather_rows(context, inputs[0]->data, samples_, inputs[1]->data, outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    ops::fill(*pass.context, inputs[0]->grad, 0);
    ops::add_to_rows(*pass.context, outputs[0]->grad, inputs[1]->data, samples_, inputs[0]->grad);
  }

  void check_results(Context& context) override { note_.check(context, name(), samples_); }

 private:
  std::int64_t samples_ = 0;
  IndexNote note_;
};

const RegisterLayer<BatchReindexLayer> registered_batch_reindex(
    "BatchReindex", {.about = "picks samples by their numbers", .message = "", .inputs = {{4, 5}, {}}});

}  // namespace
}  // namespace banyan
