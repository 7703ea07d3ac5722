// Quantize (DeepSkeleton): scales of a skeleton become the number of the side output that sees them: [1, 12)
// is 1, [12, 36) 2, [36, 80) 3, [80, 200) 4, all others 0. It has no gradient.
#include "function_layer.hpp"

namespace banyan {
namespace {

class QuantizeLayer : public FunctionLayer {
 public:
  QuantizeLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : FunctionLayer(parameter, options, {ops::Function::Kind::scale_group}) {
    traits_.differentiable_inputs = 0;
    traits_.storage = StorageRule::full;  // 16 bits would move scales across the bounds
  }
};

const RegisterLayer<QuantizeLayer> registered_quantize("Quantize",
                                                       {"numbers of groups of scales, 0 to 4 (DeepSkeleton)",
                                                        ""});

}  // namespace
}  // namespace banyan
