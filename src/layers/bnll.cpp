// BNLL: y = log(1 + exp(x)), the binomial normal log likelihood.
#include "function_layer.hpp"

namespace banyan {
namespace {

class BnllLayer : public FunctionLayer {
 public:
  BnllLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : FunctionLayer(parameter, options, {ops::Function::Kind::softplus}) {}
};

const RegisterLayer<BnllLayer> registered_bnll("BNLL", {"log(1 + exp(x))", ""});

}  // namespace
}  // namespace banyan
