// Parameter: a learnable tensor of parameter_param.shape as a blob, for other layers to use. Starts at 0, or
// as blob_filler (caffe-windows) says.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan {
namespace {

class ParameterLayer : public Layer {
 public:
  ParameterLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options, {.arity = {0, 0, 1, 1}, .backward_reads_outputs = false}) {}

  void read_settings() override {
    const auto& dims = parameter_.parameter_param().shape().dim();
    for (const std::int64_t dim : dims)
      if (dim < 1) refuse("parameter_param.shape holds ", dim, "; lengths must be positive");
    declare(Shape(std::vector<std::int64_t>(dims.begin(), dims.end())),
            parameter_.parameter_param().blob_filler());
  }
  void reshape(const Blobs&, const Blobs& outputs) override { set_output(*outputs[0], parameters_[0].shape); }
  void forward(Pass& pass, const Blobs&, const Blobs& outputs) override {
    ops::copy(*pass.context, parameters_[0].value, outputs[0]->data);
  }
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>&, const Blobs&) override {
    if (parameters_[0].grad.defined() && outputs[0]->grad.defined())
      ops::axpby(*pass.context, 1, outputs[0]->grad, 1, parameters_[0].grad);
  }
};

const RegisterLayer<ParameterLayer> registered_parameter("Parameter",
                                                         {"a blob that is learned", "parameter_param", {}});

}  // namespace
}  // namespace banyan
