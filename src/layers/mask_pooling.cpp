// MaskPooling (MNC), SpatialProduct (PSPNet): the first input times the second, N x 1 x H x W, which counts
// for every channel.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/masks.hpp"

namespace banyan {
namespace {

class MaskPoolingLayer : public Layer {
 public:
  MaskPoolingLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 1, 1},
               .layout = LayoutRule::follows,
               .by_sample = true,
               .backward_reads_outputs = false}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &maps = image_shape(*inputs[0]), &mask = inputs[1]->shape;
    const Shape wanted{maps[0], 1, maps[2], maps[3]};
    if (mask != wanted)
      refuse("the mask ", quoted(inputs[1]->name), " has the shape ", mask.to_string(), "; expected ",
             wanted.to_string(), ", as ", quoted(inputs[0]->name), " is ", maps.to_string());
    set_output(*outputs[0], maps, inputs[0]->layout);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::multiply_by_mask(*pass.context, inputs[0]->data, inputs[1]->data, over(inputs), outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    const Tensor& dy = outputs[0]->grad;
    if (propagate[0]) ops::multiply_by_mask(context, dy, inputs[1]->data, over(inputs), inputs[0]->grad);
    if (propagate[1]) ops::mask_gradient(context, inputs[0]->data, dy, over(inputs), inputs[1]->grad);
  }

 private:
  /// Of the samples of this pass, which may be a part of the batch.
  static ops::Channels over(const Blobs& inputs) {
    const Tensor& maps = inputs[0]->data;
    const Shape& shape = maps.shape();
    const std::int64_t pixels = shape[2] * shape[3];
    return maps.layout() == Layout::channels_last ? ops::Channels{shape[0] * pixels, shape[1], 1}
                                                  : ops::Channels{shape[0], shape[1], pixels};
  }
};

const RegisterLayer<MaskPoolingLayer> registered_mask_pooling(
    "MaskPooling", {.about = "maps times a mask, the same for all channels (MNC)",
                    .message = "",
                    .inputs = {{4, 5, 6}, {1, 5, 6}}});
const RegisterLayer<MaskPoolingLayer> registered_spatial_product(
    "SpatialProduct", {.about = "maps times a map, the same for all channels (PSPNet)",
                       .message = "",
                       .inputs = {{4, 5, 6}, {1, 5, 6}}});

}  // namespace
}  // namespace banyan
