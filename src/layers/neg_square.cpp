// NegSquare (LiteFlowNet): y = -x^2.
#include "function_layer.hpp"

namespace banyan {
namespace {

class NegSquareLayer : public FunctionLayer {
 public:
  NegSquareLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : FunctionLayer(parameter, options, {ops::Function::Kind::negative_square}) {}
};

const RegisterLayer<NegSquareLayer> registered_neg_square("NegSquare", {"-x^2 (LiteFlowNet)", ""});

}  // namespace
}  // namespace banyan
