// AbsVal: y = |x|; the gradient at 0 is 0.
#include "function_layer.hpp"

namespace banyan {
namespace {

class AbsValLayer : public FunctionLayer {
 public:
  AbsValLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : FunctionLayer(parameter, options, {ops::Function::Kind::absolute}) {}
};

const RegisterLayer<AbsValLayer> registered_absval("AbsVal", {"absolute value", ""});

}  // namespace
}  // namespace banyan
