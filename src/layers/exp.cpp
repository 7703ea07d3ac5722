// Exp: y = base^(shift + scale * x); base -1 stands for e.
#include "function_layer.hpp"

namespace banyan {
namespace {

class ExpLayer : public FunctionLayer {
 public:
  ExpLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : FunctionLayer(parameter, options, {ops::Function::Kind::exponential}) {}

  void read_settings() override { raise(parameter_.exp_param()); }
};

const RegisterLayer<ExpLayer> registered_exp("Exp", {"base^(shift + scale * x)",
                                                     "exp_param",
                                                     {"", "base: 2 scale: 0.5 shift: 1.5"}});

}  // namespace
}  // namespace banyan
