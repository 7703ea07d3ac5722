// MinReLU: y = x where x < 0, else positive_slope * x. The gradient at 0 is that of positive values.
#include "function_layer.hpp"

namespace banyan {
namespace {

class MinReluLayer : public FunctionLayer {
 public:
  MinReluLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : FunctionLayer(parameter, options,
                      {ops::Function::Kind::two_slopes, 1, parameter.minrelu_param().positive_slope()}) {}
};

const RegisterLayer<MinReluLayer> registered_min_relu("MinReLU", {"negative values, others times a slope",
                                                                  "minrelu_param"});

}  // namespace
}  // namespace banyan
