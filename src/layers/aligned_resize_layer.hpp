// What layers have in common that resize images bilinearly with aligned corners. Internal to the room.
#pragma once

#include "banyan/layers/layer.hpp"
#include "banyan/ops/resize.hpp"

namespace banyan {

/// reshape() sets part_, which becomes the first output.
class AlignedResizeLayer : public Layer {
 public:
  AlignedResizeLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, Arity arity = {})
      : Layer(parameter, options,
              {.arity = arity,
               .layout = LayoutRule::follows,
               .storage = StorageRule::sixteen_bits,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .differentiable_inputs = 1}) {}

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::resize_forward(*pass.context, part_, inputs[0]->data, outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0]) ops::resize_backward(*pass.context, part_, outputs[0]->grad, inputs[0]->grad);
  }

  double forward_flops(const Blobs&, const Blobs& outputs) const override {
    return 4 * static_cast<double>(outputs[0]->shape.count());
  }

 protected:
  ops::ImagePart part_;
};

}  // namespace banyan
