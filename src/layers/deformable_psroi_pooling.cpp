// DeformablePSROIPooling (Dai et al. 2017): PSROIPooling with pooled_size x pooled_size bins, each the mean
// of bilinear values at sample_per_part x sample_per_part points. A third input, R x 2 classes x part_size x
// part_size, moves the bins, to the right and down, in multiples of trans_std of the region's sides.
#include <algorithm>

#include "banyan/ops/basic.hpp"
#include "banyan/ops/moved_regions.hpp"
#include "region_layer.hpp"

namespace banyan {
namespace {

class DeformablePsRoiPoolingLayer : public RegionLayer {
 public:
  DeformablePsRoiPoolingLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : RegionLayer(parameter, options) {
    traits_.arity = {2, 3, 1, 1};
    traits_.differentiable_inputs = -1;
    traits_.constant_input = 1;
    const auto& s = settings();
    const std::int64_t size = s.has_pooled_size() ? s.pooled_size() : s.group_size();
    bins_ = {size, size, s.spatial_scale(), s.sample_per_part()};
    how_ = {bins_, s.group_size(), s.part_size() == 0 ? size : s.part_size(), 1, s.trans_std()};
  }

  void read_settings() override {
    if (how_.group < 1) refuse("group_size must be given and positive");
    if (std::max({how_.group, bins_.pooled_h, how_.part, bins_.points}) > kMost)
      refuse("group_size, pooled_size, part_size and sample_per_part must be at most ", kMost);
    if (settings().output_dim() < 1) refuse("output_dim must be given and positive");
    if (bins_.pooled_h < 1) refuse("pooled_size must be positive");
    if (how_.part < 1) refuse("part_size must not be negative");
    if (bins_.points < 1) refuse("sample_per_part must be positive");
    check_bins();
  }
  void setup(const Blobs& inputs, const Blobs&) override {
    moves_ = inputs.size() == 3 && !settings().no_trans();
    if (moves_ && !(how_.reach > 0))
      refuse("trans_std must be given and positive where a third input moves the bins (0.1 in the paper)");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    RegionLayer::reshape(inputs, outputs);
    if (!moves_) return;
    const Shape &offsets = inputs[2]->shape, &regions = inputs[1]->shape;
    how_.classes = offsets.axes() == 4 ? offsets[1] / 2 : 0;
    if (how_.classes < 1 || offsets != Shape{regions[0], 2 * how_.classes, how_.part, how_.part} ||
        settings().output_dim() % how_.classes != 0)
      refuse("the offsets ", quoted(inputs[2]->name), " have the shape ", offsets.to_string(), "; expected ",
             regions[0], " x 2 classes x ", how_.part, " x ", how_.part,
             ", and classes that divide output_dim ", settings().output_dim());
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    ops::moved_votes(context, how_, inputs[0]->data, regions(context, *inputs[1]), offsets(inputs),
                     outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    const Tensor &dy = outputs[0]->grad, &rois = inputs[1]->data;
    if (propagate[0]) ops::moved_votes_backward(context, how_, dy, rois, offsets(inputs), inputs[0]->grad);
    if (inputs.size() < 3 || !propagate[2]) return;
    if (moves_)
      ops::moved_votes_offsets_backward(context, how_, inputs[0]->data, dy, rois, inputs[2]->data,
                                        inputs[2]->grad);
    else
      ops::fill(context, inputs[2]->grad, 0);
  }

 private:
  static constexpr std::int64_t kMost = 1000;

  const caffe::DeformablePSROIPoolingParameter& settings() const {
    return parameter_.deformable_psroi_pooling_param();
  }
  const Tensor& offsets(const Blobs& inputs) const { return moves_ ? inputs[2]->data : none_; }

  std::int64_t output_channels(const Blob& input) const override {
    const std::int64_t channels = settings().output_dim() * how_.group * how_.group;
    if (input.shape[1] != channels)
      refuse("output_dim ", settings().output_dim(), " and group_size ", how_.group, " need ", channels,
             " channels; ", quoted(input.name), " has ", input.shape[1]);
    return settings().output_dim();
  }

  ops::MovedBins how_;
  bool moves_ = false;
  Tensor none_;
};

const RegisterLayer<DeformablePsRoiPoolingLayer> registered_deformable_psroi_pooling(
    "DeformablePSROIPooling",
    {.about = "PSROIPooling with bins that are moved (Dai et al. 2017)",
     .message = "deformable_psroi_pooling_param",
     .examples = {"output_dim: 1 group_size: 2 spatial_scale: 1 trans_std: 0.5",
                  "output_dim: 1 group_size: 2 spatial_scale: 0.5 sample_per_part: 2 trans_std: 0.1"},
     .inputs = {{4, 5, 5}, {5}, {2, 2, 2}}});

}  // namespace
}  // namespace banyan
