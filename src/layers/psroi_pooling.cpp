// PSROIPooling: the mean of each of group_size x group_size bins of every region, each bin with score maps of
// its own (R-FCN). The input has output_dim * group_size^2 channels.
#include "region_layer.hpp"

namespace banyan {
namespace {

class PsRoiPoolingLayer : public RegionLayer {
 public:
  PsRoiPoolingLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : RegionLayer(parameter, options) {
    bins_ = {settings().group_size(), settings().group_size(), settings().spatial_scale(), 0};
  }

  void read_settings() override {
    if (bins_.pooled_h < 1) refuse("group_size must be given and positive");
    if (settings().output_dim() < 1) refuse("output_dim must be given and positive");
    check_bins();
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    ops::region_votes(context, bins_, inputs[0]->data, regions(context, *inputs[1]), outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::region_votes_backward(*pass.context, bins_, outputs[0]->grad, inputs[1]->data, inputs[0]->grad);
  }

 private:
  const caffe::PSROIPoolingParameter& settings() const { return parameter_.psroi_pooling_param(); }

  std::int64_t output_channels(const Blob& input) const override {
    const std::int64_t channels = settings().output_dim() * bins_.pooled_h * bins_.pooled_w;
    if (input.shape[1] != channels)
      refuse("output_dim ", settings().output_dim(), " and group_size ", bins_.pooled_h, " need ", channels,
             " channels; ", quoted(input.name), " has ", input.shape[1]);
    return settings().output_dim();
  }
};

const RegisterLayer<PsRoiPoolingLayer> registered_psroi_pooling(
    "PSROIPooling", {"means of the bins of regions, each from maps of its own (R-FCN)",
                     "psroi_pooling_param",
                     {"output_dim: 1 group_size: 2 spatial_scale: 1"},
                     nullptr,
                     {{4, 5, 5}, {5}}});

}  // namespace
}  // namespace banyan
