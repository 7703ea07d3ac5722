// What layers have in common that map each element by itself.
#pragma once

#include "banyan/layers/layer.hpp"

namespace banyan {

/// One input, one output of its shape and layout, in place where the net says so.
class ElementwiseLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {}; }
  LayoutRule layout_rule() const override { return LayoutRule::follows; }
  bool allows_in_place() const override { return true; }
  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    set_output(*outputs[0], inputs[0]->shape, inputs[0]->layout);
  }
};

}  // namespace banyan
