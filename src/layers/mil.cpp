// MIL (RstarCNN): of each context_per_roi rows (axis 0) that follow each other, the largest value in each
// place. Of equal ones the last row gets the gradient.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/selection.hpp"

namespace banyan {
namespace {

class MilLayer : public Layer {
 public:
  MilLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options, {.backward_reads_outputs = false}) {
    largest_.kind = ops::PartReduction::Kind::largest;
    largest_.count = parameter.mil_param().context_per_roi();
  }

  void read_settings() override {
    if (largest_.count < 1) refuse("context_per_roi must be given and positive");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    Shape shape = inputs[0]->shape;
    if (shape.axes() < 1 || shape[0] % largest_.count != 0)
      refuse("context_per_roi: ", largest_.count, " does not divide the rows of ", quoted(inputs[0]->name),
             ", which is ", shape.to_string());
    shape.set_dim(0, shape[0] / largest_.count);
    over_ = {shape[0], largest_.count, shape.count(1)};
    set_output(*outputs[0], shape);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::reduce_part(*pass.context, inputs[0]->data, over_, largest_, outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::reduce_part_backward(*pass.context, inputs[0]->data, outputs[0]->grad, over_, largest_,
                                inputs[0]->grad);
  }

 private:
  ops::PartReduction largest_;
  ops::Channels over_{};
};

const RegisterLayer<MilLayer> registered_mil("MIL", {.about = "the largest of rows in groups (RstarCNN)",
                                                     .message = "mil_param",
                                                     .examples = {"context_per_roi: 1"},
                                                     .inputs = {{4}}});

}  // namespace
}  // namespace banyan
