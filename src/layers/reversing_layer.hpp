// What layers have in common that reverse the order along some axes.
#pragma once

#include "grid_layer.hpp"

namespace banyan {

class ReversingLayer : public GridLayer {
 public:
  ReversingLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : GridLayer(parameter, options, {.layout = LayoutRule::follows}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    reversed_ = reversed_axes(*inputs[0]);
    set_output(*outputs[0], inputs[0]->shape, inputs[0]->layout);
  }

 private:
  /// Of each axis of the input.
  virtual std::vector<bool> reversed_axes(const Blob& input) const = 0;

  ops::Grid places(const Blob& input, const Blob&) const override {
    const std::vector<std::int64_t> strides = ops::strides_of(input.shape, input.layout);
    ops::Grid grid;
    for (std::size_t axis = 0; axis < strides.size(); ++axis) {
      const std::int64_t length = input.shape.dims()[axis], stride = strides[axis];
      if (reversed_[axis]) grid.from_offset += (length - 1) * stride;
      grid.add(length, reversed_[axis] ? -stride : stride, stride);
    }
    return grid;
  }

  std::vector<bool> reversed_;
};

}  // namespace banyan
