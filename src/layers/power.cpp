// Power: y = (shift + scale * x)^power. With power 1 it is scale and shift alone; with power or scale 0 a
// constant, whatever x holds.
#include <cmath>

#include "function_layer.hpp"

namespace banyan {
namespace {

ops::Function function_of(const caffe::PowerParameter& settings) {
  using Kind = ops::Function::Kind;
  const double power = settings.power(), scale = settings.scale(), shift = settings.shift();
  if (power == 0) return {Kind::constant, 1};
  if (scale == 0) return {Kind::constant, std::pow(shift, power)};
  if (power == 1) return {Kind::affine, scale, shift};
  return {Kind::power, scale, shift, power};
}

class PowerLayer : public FunctionLayer {
 public:
  PowerLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : FunctionLayer(parameter, options, function_of(parameter.power_param())) {}
};

const RegisterLayer<PowerLayer> registered_power("Power",
                                                 {"(shift + scale * x)^power",
                                                  "power_param",
                                                  {"", "power: 2 scale: 0.5 shift: 1.5", "power: 0"}});

}  // namespace
}  // namespace banyan
