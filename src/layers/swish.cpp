// Swish: y = x * sigmoid(beta * x) (Ramachandran, Zoph, Le 2017).
#include "function_layer.hpp"

namespace banyan {
namespace {

class SwishLayer : public FunctionLayer {
 public:
  SwishLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : FunctionLayer(parameter, options, {ops::Function::Kind::swish, parameter.swish_param().beta()}) {}
};

const RegisterLayer<SwishLayer> registered_swish("Swish", {"x * sigmoid(beta * x)", "swish_param"});

}  // namespace
}  // namespace banyan
