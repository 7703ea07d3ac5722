// Mish (Misra 2019): y = x * tanh(log(1 + exp(x))). The gradient is taken at the input (caffe-yolov3's layer
// puts the output in its place).
#include "function_layer.hpp"

namespace banyan {
namespace {

class MishLayer : public FunctionLayer {
 public:
  MishLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : FunctionLayer(parameter, options, {ops::Function::Kind::mish}) {}
};

const RegisterLayer<MishLayer> registered_mish("Mish", {"x * tanh(log(1 + exp(x)))", ""});

}  // namespace
}  // namespace banyan
