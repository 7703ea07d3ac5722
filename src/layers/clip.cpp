// Clip: y = x within [min, max]. The gradient passes where x is within, both ends included.
#include "function_layer.hpp"

namespace banyan {
namespace {

class ClipLayer : public FunctionLayer {
 public:
  ClipLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : FunctionLayer(
            parameter, options,
            {ops::Function::Kind::clip, parameter.clip_param().min(), parameter.clip_param().max()}) {
    traits_.activation = ops::clip_activation(function_.a, function_.b);
  }

  void read_settings() override {
    const auto& settings = parameter_.clip_param();
    if (!settings.has_min() || !settings.has_max()) refuse("give both min and max");
    if (!(settings.min() <= settings.max())) refuse("min ", settings.min(), " exceeds max ", settings.max());
  }
};

const RegisterLayer<ClipLayer> registered_clip("Clip",
                                               {"x within bounds", "clip_param", {"min: -0.3 max: 0.4"}});

}  // namespace
}  // namespace banyan
