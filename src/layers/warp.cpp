// Warp (PWC-Net), FlowWarp (FlowNet2): the first input sampled along the second, a flow N x 2 x H x W, to the
// right and down in pixels; 0 where the flow leads out of the map. FlowTransformer (Hidden Two-Stream):
// beyond the border values fade to 0 within a pixel, and there is a gradient of the flow alone, unless
// propagate_down asks for that of the first input. With `coordinates` (LiteFlowNet), and for Remap
// (appearance flow), the second input says places, and values fade there, too; the output has the size of
// these places.
#include "banyan/ops/warp.hpp"

#include "banyan/layers/layer.hpp"

namespace banyan {
namespace {

class WarpLayer : public Layer {
 public:
  WarpLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 1, 1},
               .layout = LayoutRule::follows,
               .by_sample = true,
               .backward_reads_outputs = false}) {
    if (type() != "FlowTransformer") return;
    rules_.border = ops::WarpBorder::fades;
    if (parameter_.propagate_down_size() == 0 || !parameter_.propagate_down(0)) traits_.constant_input = 0;
  }

  void read_settings() override {
    if (parameter_.flow_warp_param().fill_value() != caffe::FlowWarpParameter::ZERO)
      refuse("fill_value NOT_A_NUMBER is not supported: pixels from outside are 0");
    rules_.coordinates = type() == "Remap" || parameter_.flow_warp_param().coordinates();
    if (rules_.coordinates) rules_.border = ops::WarpBorder::fades;
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& maps = image_shape(*inputs[0]);
    if (rules_.coordinates) {
      const Shape& places = image_shape(*inputs[1]);
      if (places[0] != maps[0] || places[1] != 2)
        refuse("the places ", quoted(inputs[1]->name), " have the shape ", places.to_string(), "; expected ",
               maps[0], " samples of 2 channels, column and row, as ", quoted(inputs[0]->name), " is ",
               maps.to_string());
      if (maps.count(2) == 0 && places.count(2) > 0)
        refuse("input ", quoted(inputs[0]->name), " has no pixels");
      return set_output(*outputs[0], Shape{maps[0], maps[1], places[2], places[3]}, inputs[0]->layout);
    }
    const Shape wanted{maps[0], 2, maps[2], maps[3]};
    if (inputs[1]->shape != wanted)
      refuse("the flow ", quoted(inputs[1]->name), " has the shape ", inputs[1]->shape.to_string(),
             "; expected ", wanted.to_string(), ", as ", quoted(inputs[0]->name), " is ", maps.to_string());
    set_output(*outputs[0], maps, inputs[0]->layout);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::warp_forward(*pass.context, inputs[0]->data, inputs[1]->data, rules_, outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    const Tensor &dy = outputs[0]->grad, &flow = inputs[1]->data;
    if (propagate[0]) {
      ensure(context, rows_, Shape{dy.shape()[0], dy.shape()[2], 2}, DType::i32);
      ops::warp_backward(context, dy, flow, rules_, rows_, inputs[0]->grad);
    }
    if (propagate[1]) ops::warp_flow_backward(context, inputs[0]->data, flow, rules_, dy, inputs[1]->grad);
  }

  double forward_flops(const Blobs&, const Blobs& outputs) const override {
    return 4 * static_cast<double>(outputs[0]->shape.count());
  }

 private:
  ops::WarpRules rules_{ops::WarpBorder::none};
  Tensor rows_;
};

const RegisterLayer<WarpLayer> registered_warp(
    "Warp", {.about = "maps sampled along a flow (PWC-Net) or at places (LiteFlowNet)",
             .message = "flow_warp_param",
             .examples = {"", "coordinates: true"},
             .inputs = {{4, 5, 6}, {2, 5, 6}}});
const RegisterLayer<WarpLayer> registered_flow_warp("FlowWarp",
                                                    {.about = "maps sampled along a flow (FlowNet2)",
                                                     .message = "flow_warp_param",
                                                     .examples = {"", "fill_value: ZERO",
                                                                  "coordinates: true"},
                                                     .inputs = {{4, 5, 6}, {2, 5, 6}}});
const RegisterLayer<WarpLayer> registered_remap("Remap", {.about = "maps sampled at places (appearance flow)",
                                                          .message = "",
                                                          .inputs = {{4, 5, 6}, {2, 3, 7}}});
const RegisterLayer<WarpLayer> registered_flow_transformer(
    "FlowTransformer", {.about = "maps sampled along a flow, which alone has a gradient (Hidden Two-Stream)",
                        .message = "flow_transformer_param",
                        .inputs = {{4, 5, 6}, {2, 5, 6}}});

}  // namespace
}  // namespace banyan
