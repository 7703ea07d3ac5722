// ROIWarping (MNC): regions warped to pooled_h x pooled_w, each value the largest of bilinear ones at points
// of a bin. The gradient goes to the map, and to the regions' corners where propagate_down asks for it.
#include "banyan/ops/warped_regions.hpp"
#include "region_layer.hpp"

namespace banyan {
namespace {

class RoiWarpingLayer : public RegionLayer {
 public:
  RoiWarpingLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : RegionLayer(parameter, options) {
    if (parameter_.propagate_down_size() > 1 && parameter_.propagate_down(1))
      traits_.differentiable_inputs = 2;
    const auto& settings = parameter_.roi_warping_param();
    bins_ = {settings.pooled_h(), settings.pooled_w(), settings.spatial_scale(), 0, 0};
  }

  void read_settings() override { check_bins(); }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    ensure(context, mask_, outputs[0]->shape, DType::i32, outputs[0]->layout);
    ops::warped_maximum(context, bins_, inputs[0]->data, regions(context, *inputs[1]), outputs[0]->data,
                        mask_);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    const Tensor &dy = outputs[0]->grad, &rois = inputs[1]->data;
    if (propagate[0]) ops::warped_maximum_backward(*pass.context, bins_, dy, rois, mask_, inputs[0]->grad);
    if (propagate[1])
      ops::warped_corners_backward(*pass.context, bins_, inputs[0]->data, dy, rois, mask_, inputs[1]->grad);
  }

 private:
  Tensor mask_;
};

const RegisterLayer<RoiWarpingLayer> registered_roi_warping(
    "ROIWarping", {.about = "regions warped to one size (MNC)",
                   .message = "roi_warping_param",
                   .examples = {"pooled_h: 2 pooled_w: 3", "pooled_h: 3 pooled_w: 2 spatial_scale: 0.5"},
                   .inputs = {{4, 5, 5}, {5}}});

}  // namespace
}  // namespace banyan
