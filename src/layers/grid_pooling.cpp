// GRIDPooling: the maximum of each of pooled_h x pooled_w bins of the whole map, which share pixels where its
// sides are no multiples. They are those of ROIPooling with one region for each image.
#include <algorithm>

#include "banyan/layers/layer.hpp"
#include "banyan/ops/regions.hpp"

namespace banyan {
namespace {

class GridPoolingLayer : public Layer {
 public:
  GridPoolingLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.layout = LayoutRule::follows,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false}) {
    bins_.pooled_h = parameter.grid_pooling_param().pooled_h();
    bins_.pooled_w = parameter.grid_pooling_param().pooled_w();
  }

  void read_settings() override {
    if (bins_.pooled_h < 1 || bins_.pooled_w < 1) refuse("pooled_h and pooled_w must be given and positive");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& image = image_shape(*inputs[0]);
    constexpr std::int64_t kMost = 1 << 20;  // as numbers of regions are exact
    if (std::max(image[2], image[3]) > kMost || image[0] > kMost)
      refuse(quoted(inputs[0]->name), " is ", image.to_string(), "; batches, heights and widths of at most ",
             kMost, " are supported");
    if (image[2] < 1 || image[3] < 1) refuse(quoted(inputs[0]->name), " is ", image.to_string());
    set_output(*outputs[0], Shape{image[0], image[1], bins_.pooled_h, bins_.pooled_w}, inputs[0]->layout);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    make_regions(context, inputs[0]->shape);
    ensure(context, mask_, outputs[0]->shape, DType::i32, outputs[0]->layout);
    ops::region_maximum(context, bins_, inputs[0]->data, regions_, outputs[0]->data, mask_);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::region_maximum_backward(*pass.context, bins_, outputs[0]->grad, regions_, mask_, inputs[0]->grad);
  }

 private:
  void make_regions(Context& context, const Shape& image) {
    const Shape wanted{image[0], image[2], image[3]};
    if (regions_.defined() && regions_of_ == wanted) return;
    regions_of_ = wanted;
    ensure(context, regions_, Shape{image[0], 5}, dtype());
    if (image[0] == 0) return;
    dispatch_float(dtype(), "regions", [&]<class T>() {
      std::vector<T> numbers;
      for (std::int64_t i = 0; i < image[0]; ++i)
        for (const std::int64_t number : {i, std::int64_t{0}, std::int64_t{0}, image[3] - 1, image[2] - 1})
          numbers.push_back(static_cast<T>(number));
      copy_from_host(context, numbers.data(), regions_);
    });
  }

  ops::RegionBins bins_;
  Tensor regions_, mask_;
  Shape regions_of_;  ///< images, height and width
};

const RegisterLayer<GridPoolingLayer> registered_grid_pooling("GRIDPooling",
                                                              {.about = "maxima of the bins of whole maps",
                                                               .message = "grid_pooling_param",
                                                               .examples = {"pooled_h: 2 pooled_w: 3"},
                                                               .inputs = {{4, 5, 5}}});

}  // namespace
}  // namespace banyan
