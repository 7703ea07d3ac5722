// Log: y = log(shift + scale * x) to the given base; base -1 stands for e.
#include "function_layer.hpp"

namespace banyan {
namespace {

class LogLayer : public FunctionLayer {
 public:
  LogLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : FunctionLayer(parameter, options, {ops::Function::Kind::logarithm}) {}

  void read_settings() override {
    const auto& settings = parameter_.log_param();
    const double logarithm = log_of_base(settings.base());
    if (logarithm == 0) refuse("there is no logarithm to the base 1");
    function_.a = settings.scale();
    function_.b = settings.shift();
    function_.c = 1 / logarithm;
  }
};

const RegisterLayer<LogLayer> registered_log("Log", {"logarithm of shift + scale * x",
                                                     "log_param",
                                                     {"shift: 2", "base: 3 scale: 0.5 shift: 2"}});

}  // namespace
}  // namespace banyan
