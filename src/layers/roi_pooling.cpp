// ROIPooling: the maximum of each of pooled_h x pooled_w bins of every region (Fast R-CNN).
#include "region_layer.hpp"

namespace banyan {
namespace {

class RoiPoolingLayer : public RegionLayer {
 public:
  RoiPoolingLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : RegionLayer(parameter, options) {
    const auto& settings = parameter_.roi_pooling_param();
    bins_ = {settings.pooled_h(), settings.pooled_w(), settings.spatial_scale(), 0, settings.pad_ratio()};
  }

  void setup(const Blobs&, const Blobs&) override { check_bins(); }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    ensure(context, mask_, outputs[0]->shape, DType::i32, outputs[0]->layout);
    ops::region_maximum(context, bins_, inputs[0]->data, regions(context, *inputs[1]), outputs[0]->data,
                        mask_);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::region_maximum_backward(*pass.context, bins_, outputs[0]->grad, inputs[1]->data, mask_,
                                   inputs[0]->grad);
  }

 private:
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
