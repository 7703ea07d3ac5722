// Grid (LiteFlowNet): N x 2 x H x W, the column and the row of each pixel of an N x C x H x W input, whose
// values do not matter.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/warp.hpp"

namespace banyan {
namespace {

class GridLayer : public Layer {
 public:
  GridLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.layout = LayoutRule::follows,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .differentiable_inputs = 0}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& maps = image_shape(*inputs[0]);
    set_output(*outputs[0], Shape{maps[0], 2, maps[2], maps[3]}, inputs[0]->layout);
  }

  void forward(Pass& pass, const Blobs&, const Blobs& outputs) override {
    ops::warp_grid(*pass.context, outputs[0]->data);
  }

  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}
};

const RegisterLayer<GridLayer> registered_grid("Grid",
                                               {.about = "the column and the row of each pixel (LiteFlowNet)",
                                                .message = "",
                                                .inputs = {{3, 4, 5}}});

}  // namespace
}  // namespace banyan
