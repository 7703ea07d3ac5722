// Softmax along one axis.
#include "banyan/layers/layer.hpp"
#include "softmax_axes.hpp"

namespace banyan {
namespace {

class SoftmaxLayer : public Layer {
 public:
  SoftmaxLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options, {.backward_reads_inputs = false}) {}

  void read_settings() override {
    require_softmax(parameter_.softmax_param(), [&](const auto&... why) { refuse(why...); });
  }
  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    over_ = channels_along(inputs[0]->shape, parameter_.softmax_param().axis());
    set_output(*outputs[0], inputs[0]->shape);
  }
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::softmax_forward(*pass.context, inputs[0]->data, over_, outputs[0]->data);
  }
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::softmax_backward(*pass.context, outputs[0]->data, outputs[0]->grad, over_, inputs[0]->grad);
  }

 private:
  ops::Channels over_{};
};

const RegisterLayer<SoftmaxLayer> registered_softmax("Softmax",
                                                     {"probabilities of classes", "softmax_param"});

}  // namespace
}  // namespace banyan
