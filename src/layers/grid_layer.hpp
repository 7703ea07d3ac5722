// A layer whose output holds elements of its first input, each at most once, in other places, and 0
// elsewhere.
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
    copy(*pass.context, inputs[0]->data, outputs[0]->data, places(*inputs[0], *outputs[0]));
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      copy(*pass.context, outputs[0]->grad, inputs[0]->grad, places(*inputs[0], *outputs[0]).reversed());
  }

 private:
  static void copy(Context& context, const Tensor& from, Tensor& to, const ops::Grid& grid) {
    if (grid.count() != to.count()) ops::fill(context, to, 0);
    ops::copy_grid(context, from, to, grid);
  }

  /// Of the elements that are in both, in the input and in the output.
  virtual ops::Grid places(const Blob& input, const Blob& output) const = 0;
};

}  // namespace banyan
