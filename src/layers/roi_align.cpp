// ROIAlign: the mean of bilinear values in each of pooled_h x pooled_w bins of every region (Mask R-CNN), at
// sampling_ratio x sampling_ratio points per bin, or at about one per pixel if that is not positive. Corners
// are not rounded and not moved by half a pixel; a region is at least 1 x 1.
//
// With roi_pooling_param in place of roi_align_param it is that of Cascade R-CNN: the bilinear values at the
// corners of the bins, (pooled_h + 1) x (pooled_w + 1), which its nets go on to average.
#include <algorithm>

#include "region_layer.hpp"

namespace banyan {
namespace {

class RoiAlignLayer : public RegionLayer {
 public:
  RoiAlignLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : RegionLayer(parameter, options) {
    if (is_grid()) {
      const auto& settings = parameter_.roi_pooling_param();
      bins_ = {settings.pooled_h(), settings.pooled_w(), settings.spatial_scale(), 0, settings.pad_ratio()};
      return;
    }
    const auto& settings = parameter_.roi_align_param();
    bins_ = {settings.pooled_h(), settings.pooled_w(), settings.spatial_scale(),
             std::max<std::int64_t>(settings.sampling_ratio(), 0)};
  }

  void read_settings() override {
    if (is_grid() && parameter_.has_roi_align_param())
      refuse("give either roi_align_param or roi_pooling_param (Cascade R-CNN), not both");
    check_bins();
    if (!is_grid()) return;
    ++bins_.pooled_h;
    ++bins_.pooled_w;
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const auto& pool = is_grid() ? ops::region_grid : ops::region_average;
    pool(context, bins_, inputs[0]->data, regions(context, *inputs[1]), outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    const auto& pool = is_grid() ? ops::region_grid_backward : ops::region_average_backward;
    pool(*pass.context, bins_, outputs[0]->grad, inputs[1]->data, inputs[0]->grad);
  }

 private:
  bool is_grid() const { return parameter_.has_roi_pooling_param(); }
};

const RegisterLayer<RoiAlignLayer> registered_roi_align(
    "ROIAlign", {"means of bilinear values in the bins of regions (Mask R-CNN)",
                 "roi_align_param",
                 {"pooled_h: 2 pooled_w: 3", "pooled_h: 1 pooled_w: 2 sampling_ratio: 2 spatial_scale: 0.5"},
                 nullptr,
                 {{4, 5, 5}, {5}},
                 {"roi_pooling_param"}});

}  // namespace
}  // namespace banyan
