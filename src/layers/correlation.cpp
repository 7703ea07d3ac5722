// Correlation (FlowNet, Dosovitskiy et al. 2015): each patch of the first map times those of the second
// around the same place, a channel for each displacement (ops/correlation.hpp).
#include "banyan/ops/correlation.hpp"

#include "banyan/layers/layer.hpp"

namespace banyan {
namespace {

class CorrelationLayer : public Layer {
 public:
  CorrelationLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 1, 1},
               .layout = LayoutRule::follows,
               .by_sample = true,
               .backward_reads_outputs = false}) {}

  void read_settings() override {
    const auto& s = parameter_.correlation_param();
    if (!s.has_kernel_size() || !s.has_max_displacement())
      refuse("kernel_size and max_displacement must be given");
    if (s.kernel_size() % 2 == 0) refuse("kernel_size must be odd; found ", s.kernel_size());
    if (s.stride_1() < 1 || s.stride_2() < 1)
      refuse("stride_1 and stride_2 must be positive; found ", s.stride_1(), " and ", s.stride_2());
    for (const std::uint32_t length :
         {s.kernel_size(), s.max_displacement(), s.pad(), s.stride_1(), s.stride_2()})
      if (length > kMost) refuse("no length can be above ", kMost, "; found ", length);
    if (s.single_direction() != 0)
      refuse("single_direction ", s.single_direction(), " is not supported: displacements go to all sides");
    if (s.do_abs() && s.correlation_type() == caffe::CorrelationParameter::MULTIPLY)
      refuse("do_abs is not supported with products; AbsVal after this layer makes them positive");
    how_ = {s.pad(),      s.kernel_size(), s.max_displacement(),
            s.stride_1(), s.stride_2(),    s.correlation_type() == caffe::CorrelationParameter::SUBTRACT};
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& maps = image_shape(*inputs[0]);
    if (inputs[1]->shape != maps)
      refuse("the inputs must have the same shape; ", quoted(inputs[0]->name), " is ", maps.to_string(), ", ",
             quoted(inputs[1]->name), " is ", inputs[1]->shape.to_string());
    const std::int64_t height = how_.output_length(maps[2]), width = how_.output_length(maps[3]);
    if (height < 1 || width < 1)
      refuse("maps of ", maps[2], " x ", maps[3], " with pad: ", how_.pad,
             " are too small for displacements of ", how_.displacement, " and patches of ", how_.kernel,
             " x ", how_.kernel);
    set_output(*outputs[0], Shape{maps[0], how_.displacements(), height, width}, inputs[0]->layout);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::correlation_forward(*pass.context, how_, inputs[0]->data, inputs[1]->data, outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    for (std::size_t i = 0; i < 2; ++i)
      if (propagate[i])
        ops::correlation_backward(*pass.context, how_, i == 1, inputs[0]->data, inputs[1]->data,
                                  outputs[0]->grad, inputs[i]->grad);
  }

  double forward_flops(const Blobs& inputs, const Blobs& outputs) const override {
    return static_cast<double>(outputs[0]->shape.count()) *
           static_cast<double>(inputs[0]->shape[1] * how_.kernel * how_.kernel);
  }

 private:
  static constexpr std::uint32_t kMost = 10000;
  ops::Correlation how_;
};

const RegisterLayer<CorrelationLayer> registered_correlation(
    "Correlation", {.about = "each place of a map times those of another around it (FlowNet)",
                    .message = "correlation_param",
                    .examples = {"kernel_size: 1 max_displacement: 2 pad: 2",
                                 "kernel_size: 3 max_displacement: 2 pad: 3 stride_1: 2 stride_2: 2",
                                 "kernel_size: 1 max_displacement: 1 correlation_type: SUBTRACT"},
                    .inputs = {{4, 5, 6}, {4, 5, 6}}});

}  // namespace
}  // namespace banyan
