// ROIPooling: the maximum of each of pooled_h x pooled_w bins of every region (Fast R-CNN). With pooled_l
// (R-C3D) of each of pooled_l x pooled_h x pooled_w bins of parts of videos: maps are N x C x L x H x W,
// parts R x 3: the video's number, first and last time. Rows and columns are those of the whole map.
#include "banyan/ops/video_regions.hpp"
#include "region_layer.hpp"

namespace banyan {
namespace {

class RoiPoolingLayer : public RegionLayer {
 public:
  RoiPoolingLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : RegionLayer(parameter, options) {
    bins_ = {settings().pooled_h(), settings().pooled_w(), settings().spatial_scale(), 0,
             settings().pad_ratio()};
    of_video_ = {settings().pooled_l(), settings().pooled_h(), settings().pooled_w(),
                 settings().temporal_scale()};
    if (!in_time()) return;
    traits_.layout = LayoutRule::contiguous;
    words_ = {"part", "video"};
  }

  void read_settings() override {
    check_bins();
    if (!in_time()) {
      if (settings().has_temporal_scale()) refuse("temporal_scale needs pooled_l");
      return;
    }
    if (of_video_.pooled_l < 1) refuse("pooled_l must be positive");
    if (!(of_video_.scale > 0)) refuse("temporal_scale must be positive; found ", of_video_.scale);
    if (bins_.pad != 0) refuse("pad_ratio does not go with pooled_l");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    if (!in_time()) return RegionLayer::reshape(inputs, outputs);
    const Shape &maps = inputs[0]->shape, &parts = inputs[1]->shape;
    if (maps.axes() != 5)
      refuse("with pooled_l the input ", quoted(inputs[0]->name), " must be N x C x L x H x W; found ",
             maps.to_string());
    if (parts.axes() < 2 || parts.count(1) != 3)
      refuse("the parts ", quoted(inputs[1]->name), " have the shape ", parts.to_string(),
             "; expected R x 3: video, start, end");
    images_ = maps[0];
    set_output(*outputs[0],
               Shape{parts[0], maps[1], of_video_.pooled_l, of_video_.pooled_h, of_video_.pooled_w});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor& rois = regions(context, *inputs[1], in_time() ? 3 : 5);
    ensure(context, mask_, outputs[0]->shape, DType::i32, outputs[0]->layout);
    if (in_time())
      ops::video_maximum(context, of_video_, inputs[0]->data, rois, outputs[0]->data, mask_);
    else
      ops::region_maximum(context, bins_, inputs[0]->data, rois, outputs[0]->data, mask_);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    Context& context = *pass.context;
    const Tensor &dy = outputs[0]->grad, &rois = inputs[1]->data;
    if (in_time())
      ops::video_maximum_backward(context, of_video_, dy, rois, mask_, inputs[0]->grad);
    else
      ops::region_maximum_backward(context, bins_, dy, rois, mask_, inputs[0]->grad);
  }

 private:
  const caffe::ROIPoolingParameter& settings() const { return parameter_.roi_pooling_param(); }
  bool in_time() const { return settings().has_pooled_l(); }

  ops::VideoBins of_video_;
  Tensor mask_;
};

const RegisterLayer<RoiPoolingLayer> registered_roi_pooling("ROIPooling",
                                                            {"maxima of the bins of regions (Fast R-CNN)",
                                                             "roi_pooling_param",
                                                             {"pooled_h: 2 pooled_w: 3",
                                                              "pooled_h: 2 pooled_w: 2 pad_ratio: 0.25"},
                                                             nullptr,
                                                             {{4, 5, 5}, {5}}});

}  // namespace
}  // namespace banyan
