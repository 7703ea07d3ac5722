// Threshold: y = 1 where x > threshold, else 0. It has no gradient.
#include "function_layer.hpp"

namespace banyan {
namespace {

class ThresholdLayer : public FunctionLayer {
 public:
  ThresholdLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : FunctionLayer(parameter, options,
                      {ops::Function::Kind::threshold, parameter.threshold_param().threshold()}) {
    traits_.differentiable_inputs = 0;
  }
};

const RegisterLayer<ThresholdLayer> registered_threshold("Threshold",
                                                         {"1 above a threshold, else 0", "threshold_param"});

}  // namespace
}  // namespace banyan
