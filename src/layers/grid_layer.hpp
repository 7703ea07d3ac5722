// A layer whose output holds elements of its first input, each at most once, in other places.
#pragma once

#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/grid.hpp"

namespace banyan {

class GridLayer : public Layer {
 public:
  GridLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, LayerTraits traits)
      : Layer(parameter, options, std::move(traits)) {
    traits_.storage = StorageRule::follows;
    traits_.backward_reads_inputs = traits_.backward_reads_outputs = false;
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::copy_grid(*pass.context, inputs[0]->data, outputs[0]->data, places(*inputs[0], *outputs[0]));
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    const bool all = inputs[0]->shape.count() == outputs[0]->shape.count();
    if (!all) ops::fill(*pass.context, inputs[0]->grad, 0);
    ops::copy_grid(*pass.context, outputs[0]->grad, inputs[0]->grad,
                   places(*inputs[0], *outputs[0]).reversed());
  }

 private:
  /// Of the output's elements in the input and in the output.
  virtual ops::Grid places(const Blob& input, const Blob& output) const = 0;
};

}  // namespace banyan
