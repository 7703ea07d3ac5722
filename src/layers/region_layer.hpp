// What the layers that pool over regions of interest have in common. Inputs: a feature map (N, C, H, W), and
// R regions of five numbers each: the image's number in this device's batch, then x1, y1, x2, y2 in pixels of
// the net's input.
#pragma once

#include "banyan/layers/index_note.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/ops/regions.hpp"
#include "banyan/ops/rows.hpp"

namespace banyan {

class RegionLayer : public Layer {
 public:
  RegionLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 1, 1},
               .layout = LayoutRule::follows,
               .backward_reads_outputs = false,
               .differentiable_inputs = 1}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &image = image_shape(*inputs[0]), &rois = inputs[1]->shape;
    if (rois.axes() < 2 || rois.count(1) != 5)
      refuse("the regions ", quoted(inputs[1]->name), " have the shape ", rois.to_string(),
             "; expected R x 5: image, x1, y1, x2, y2");
    images_ = image[0];
    set_output(*outputs[0], Shape{rois[0], output_channels(*inputs[0]), bins_.pooled_h, bins_.pooled_w},
               inputs[0]->layout);
  }

  void check_results(Context& context) override {
    note_.check(context, [&](const IndexNote::Found& found) {
      refuse(words_.region, " ", found.number, " belongs to ", words_.image, " ", found.value,
             "; the batch has the ", words_.image, "s 0 to ", images_ - 1);
    });
  }

 protected:
  virtual std::int64_t output_channels(const Blob& input) const { return input.shape[1]; }
  /// The regions' numbers, each `length` long; notes which belong to no image.
  const Tensor& regions(Context& context, const Blob& input, std::int64_t length = 5) {
    ops::note_outside(context, input.data, length, images_, note_.on(context));
    return input.data;
  }
  void check_bins() const {
    if (bins_.pooled_h < 1 || bins_.pooled_w < 1) refuse("pooled_h and pooled_w must be given and positive");
    if (!(bins_.scale > 0)) refuse("spatial_scale must be positive; found ", bins_.scale);
    if (!(bins_.pad >= 0)) refuse("pad_ratio must not be negative; found ", bins_.pad);
  }

  ops::RegionBins bins_;
  std::int64_t images_ = 0;
  /// What messages call a region and what it belongs to.
  struct {
    const char *region = "region", *image = "image";
  } words_;

 private:
  IndexNote note_;
};

}  // namespace banyan
