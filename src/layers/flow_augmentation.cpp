// FlowAugmentation (FlowNet2): the flow between two images, after DataAugmentation has changed both by the
// coefficients of the second and third input. A pixel takes the flow of the nearest one.
#include "layers/augmentation_layer.hpp"

namespace banyan {
namespace {

class FlowAugmentationLayer : public AugmentationLayer {
 public:
  FlowAugmentationLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : AugmentationLayer(parameter, options, {3, 3, 1, 1}) {
    traits_.repeatable = true;
    traits_.by_sample = true;
  }

  void read_settings() override {
    AugmentationLayer::read_settings();
    check_cut();
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& flow = image_shape(*inputs[0]);
    if (flow[1] != 2 || flow[2] < 1 || flow[3] < 1)
      refuse("the flow ", quoted(inputs[0]->name), " is ", flow.to_string(), "; expected N x 2 x H x W");
    check_rows(*inputs[1], flow[0]);
    check_rows(*inputs[2], flow[0]);
    set_output(*outputs[0], {flow[0], 2, settings().crop_height(), settings().crop_width()});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor& flow = inputs[0]->data;
    Tensor& y = outputs[0]->data;
    const ops::AugmentationTable sizes{flow.shape()[2], flow.shape()[3], y.shape()[2], y.shape()[3]};
    for (std::size_t i = 0; i < 2; ++i) {
      ensure(context, tables_[i], Shape{flow.shape()[0], ops::augmentation::kRow}, DType::f64);
      ops::augmentation_table(context, sizes, inputs[i + 1]->data, tables_[i]);
    }
    ops::augment_flow(context, flow, tables_[0], tables_[1], y);
  }

 private:
  Tensor tables_[2];
};

const RegisterLayer<FlowAugmentationLayer> registered_flow_augmentation(
    "FlowAugmentation", {.about = "the flow between images that DataAugmentation has changed (FlowNet2)",
                         .message = "augmentation_param",
                         .examples = {"crop_height: 5 crop_width: 6"},
                         .inputs = {{2, 8, 9}, {42, 1, 1}, {42, 1, 1}}});

}  // namespace
}  // namespace banyan
