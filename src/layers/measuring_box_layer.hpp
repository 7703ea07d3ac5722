// What layers share that measure how good boxes are, as means over the batch. In training on several devices
// an output is the device's share of the mean of all.
#pragma once

#include "banyan/layers/loss.hpp"
#include "box_layer.hpp"

namespace banyan {

class MeasuringBoxLayer : public BoxLayer {
 public:
  MeasuringBoxLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, const Arity& arity)
      : BoxLayer(parameter, options, arity) {
    if (options.net_phase != Phase::train) return;
    traits_.shares = options.devices > 1 ? arity.max_outputs : 0;
    traits_.meets = Meets::forward;
  }

 protected:
  /// The sums over all devices of a training pass.
  std::vector<double> of_all_devices(Pass& pass, std::vector<double> own) {
    if (!meets(pass)) return own;
    ensure(*pass.context, sums_, Shape{std::ssize(own)}, DType::f64);
    copy_from_host(*pass.context, own.data(), sums_);
    sum_over_devices(pass, sums_, {name().c_str(), "divisor"});
    copy_to_host(*pass.context, sums_, own.data());
    return own;
  }
  /// Of a device with so many samples. Where nothing counts (`count` is that of all devices), the sum of all
  /// shares is -1; 0 without any samples.
  double share(const Pass& pass, double sum, double count, std::int64_t samples) const {
    if (count > 0) return sum / count;
    return options().rank == 0 && (samples > 0 || meets(pass)) ? -1 : 0;
  }

 private:
  bool meets(const Pass& pass) const {
    return traits_.meets != Meets::never && pass.exchange != nullptr && pass.exchange->devices() > 1;
  }
  Tensor sums_;
};

}  // namespace banyan
