// What loss layers share: how the divisor of a loss is counted, summed over the devices, and applied.
//
// Synchronized batch normalization mixes the gradients of all devices in backward, so every device divides by
// the divisor of the *global* batch, and a device's loss is its share: the sum of the shares is the loss of
// the whole batch.
#pragma once

#include "banyan/layers/layer.hpp"
#include "banyan/ops/loss.hpp"

namespace banyan {

/// Sums f64 values over all devices of a training pass; nothing to do on one device or in a test pass.
void sum_over_devices(Pass& pass, Tensor& values, const Ticket& ticket);

/// A device's record of labels out of range, kept across passes until it is read.
class LabelNote {
 public:
  /// For the operators that record.
  Tensor& on(Context& context);
  /// Throws bad_input if there is a record, and clears it. `settings` names the message of the layer that has
  /// an ignore_label.
  void check(Context& context, const std::string& layer, const ops::Channels& over,
             const char* settings = nullptr);

 private:
  Tensor noted_;  ///< f64 (3), see ops/loss.hpp
};

class LossLayer : public Layer {
 public:
  /// `traits` without what all losses have in common. A layer that does not take class weights refuses a
  /// loss_param with weight_by_label_freqs.
  LossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, LayerTraits traits,
            bool takes_class_weights = false);

 protected:
  /// What the sum of the losses is divided by (never less than 1).
  enum class Normalization : std::uint8_t {
    full,        ///< all positions
    valid,       ///< positions that are not ignored
    batch_size,  ///< samples
    none,        ///< 1, on any number of devices
    fixed,       ///< pre_fixed_normalizer (Intel)
  };
  /// Reads loss_param: normalization, else the old normalize (true: VALID, false: BATCH_SIZE), else `absent`.
  Normalization read_normalization(Normalization absent) const;
  /// When a layer meets the other devices that divides so.
  static Meets meets_for(Normalization normalization) {
    const bool counts = normalization != Normalization::none && normalization != Normalization::fixed;
    return counts ? Meets::forward : Meets::never;
  }
  /// Finds divisor_ (f64, 1) from local `positions`, `samples` and, on the device, the valid positions
  /// partial_[1]; summed over the devices if it is a count.
  void find_divisor(Pass& pass, Normalization normalization, std::int64_t positions, std::int64_t samples);
  /// loss[0] = partial_[0] / max(1, divisor_).
  void write_loss(Pass& pass, Blob& loss);
  /// For divisors that are no counts and may be below 1: loss[0] = partial_[0] / divisor_, 0 where that is 0.
  void write_exact_loss(Pass& pass, Blob& loss);
  /// And what the gradients are multiplied by: that of the loss over divisor_.
  const Tensor& exact_scale(Pass& pass, const Blob& loss);

  Tensor partial_;  ///< f64 (2), see ops/loss.hpp
  Tensor divisor_;  ///< f64 (1), of all devices

 private:
  Tensor gradient_, exact_scale_;
};

}  // namespace banyan
