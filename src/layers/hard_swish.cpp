// HardSwish (Howard et al. 2019): y = x * min(max(x + 3, 0), 6) / 6.
#include "function_layer.hpp"

namespace banyan {
namespace {

class HardSwishLayer : public FunctionLayer {
 public:
  HardSwishLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : FunctionLayer(parameter, options, {ops::Function::Kind::hard_swish}) {}
};

const RegisterLayer<HardSwishLayer> registered_hard_swish("HardSwish",
                                                          {"x * (x / 6 + 0.5 within 0 and 1)", ""});

}  // namespace
}  // namespace banyan
