// What layers that map each element separately have in common.
#pragma once

#include "banyan/layers/layer.hpp"

namespace banyan {

/// One input; one output with its shape and layout, in place where the net says so. A layer states which data
/// its backward pass reads.
class ElementwiseLayer : public Layer {
 public:
  ElementwiseLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, bool reads_input,
                   bool reads_output)
      : Layer(parameter, options,
              {.layout = LayoutRule::follows,
               .storage = StorageRule::sixteen_bits,
               .in_place = true,
               .backward_reads_inputs = reads_input,
               .backward_reads_outputs = reads_output}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    set_output(*outputs[0], inputs[0]->shape, inputs[0]->layout);
  }
};

}  // namespace banyan
