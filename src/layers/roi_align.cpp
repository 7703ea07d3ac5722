// ROIAlign: the mean of bilinear values in each of pooled_h x pooled_w bins of every region (Mask R-CNN), at
// sampling_ratio x sampling_ratio points per bin, or at about one per pixel if that is not positive. Corners
// are not rounded and not moved by half a pixel; a region is at least 1 x 1.
#include <algorithm>

#include "region_layer.hpp"

namespace banyan {
namespace {

class RoiAlignLayer : public RegionLayer {
 public:
  RoiAlignLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : RegionLayer(parameter, options) {
    const auto& settings = parameter_.roi_align_param();
    bins_ = {settings.pooled_h(), settings.pooled_w(), settings.spatial_scale(),
             std::max<std::int64_t>(settings.sampling_ratio(), 0)};
  }

  void setup(const Blobs&, const Blobs&) override { check_bins(); }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    ops::region_average(context, bins_, inputs[0]->data, regions(context, *inputs[1]), outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::region_average_backward(*pass.context, bins_, outputs[0]->grad, inputs[1]->data, inputs[0]->grad);
  }
};

const RegisterLayer<RoiAlignLayer> registered_roi_align(
    "ROIAlign", {"means of bilinear values in the bins of regions (Mask R-CNN)",
                 "roi_align_param",
                 {"pooled_h: 2 pooled_w: 3", "pooled_h: 1 pooled_w: 2 sampling_ratio: 2 spatial_scale: 0.5"},
                 nullptr,
                 {{4, 5, 5}, {5}}});

}  // namespace
}  // namespace banyan
