// BilinearInterpolation: bilinear resizing of images with aligned corners, to interpolation_factor times
// their size, or with a second input to that one's height and width (DeepLab's attention, branches of Caffe).
#include "banyan/layers/layer.hpp"
#include "banyan/ops/resize.hpp"

namespace banyan {
namespace {

class BilinearInterpolationLayer : public Layer {
 public:
  BilinearInterpolationLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {1, 2, 1, 1},
               .layout = LayoutRule::follows,
               .storage = StorageRule::sixteen_bits,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .differentiable_inputs = 1}) {}

  void setup(const Blobs& inputs, const Blobs&) override {
    if (inputs.size() == 1 && factor() < 1) refuse("interpolation_factor must be positive; found ", factor());
    if (inputs.size() == 2 && parameter_.bilinear_interpolation_param().has_interpolation_factor())
      refuse("give either interpolation_factor or a second input, whose size is taken; found both");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = image_shape(*inputs[0]);
    part_ = {0, 0, input[2], input[3]};
    std::int64_t height = input[2] * factor(), width = input[3] * factor();
    if (inputs.size() == 2) {
      const Shape& like = image_shape(*inputs[1]);
      height = like[2];
      width = like[3];
    }
    if (input.count(2) < 1) refuse("input ", quoted(inputs[0]->name), " has no pixels");
    set_output(*outputs[0], Shape{input[0], input[1], height, width}, inputs[0]->layout);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::resize_forward(*pass.context, part_, inputs[0]->data, outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0]) ops::resize_backward(*pass.context, part_, outputs[0]->grad, inputs[0]->grad);
  }

  double forward_flops(const Blobs&, const Blobs& outputs) const override {
    return 4 * static_cast<double>(outputs[0]->shape.count());
  }

 private:
  std::int64_t factor() const { return parameter_.bilinear_interpolation_param().interpolation_factor(); }

  ops::ImagePart part_;
};

const RegisterLayer<BilinearInterpolationLayer> registered_bilinear_interpolation(
    "BilinearInterpolation", {"bilinear resizing by a factor or to another blob's size",
                              "bilinear_interpolation_param",
                              {"interpolation_factor: 2", "interpolation_factor: 3"}});

}  // namespace
}  // namespace banyan
