// What the layers have in common that change images and flows at random (FlowNet2). Coefficients travel from
// one to the next as N x 42 x 1 x 1, in the order of ops/augmentation.hpp. A sample's draws depend on the
// seed, the layer's name, the pass and the sample's number in the batch of all devices.
#pragma once

#include "banyan/layers/layer.hpp"
#include "banyan/ops/augmentation.hpp"

namespace banyan {

class AugmentationLayer : public Layer {
 public:
  AugmentationLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, const Arity& arity)
      : Layer(parameter, options,
              {.arity = arity,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .repeatable = false,
               .differentiable_inputs = 0}) {}

  void read_settings() override;
  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 protected:
  const caffe::AugmentationParameter& settings() const { return parameter_.augmentation_param(); }
  bool augments() const { return options().phase == Phase::train || settings().augment_during_test(); }
  /// What the settings say of the places; nothing in tests unless they ask for it.
  ops::AugmentationDraws draws() const;
  static bool changes_colors(const ops::AugmentationDraws& draws);
  static Shape rows_shape(std::int64_t samples) { return {samples, ops::augmentation::kNumbers, 1, 1}; }
  void check_rows(const Blob& rows, std::int64_t samples) const;
  void check_cut() const;
};

}  // namespace banyan
