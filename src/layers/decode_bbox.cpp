// DecodeBBox: regions as a head moves them, for the next one (Cascade R-CNN, MS-CNN). Inputs: what the head
// predicts (R x 8 or more; numbers 4 to 7 are the shift of the box), the regions (R x 5: image, x1, y1, x2,
// y2) and, if there are any, the true boxes that they belong to (R x 4, or R x 6 as BatchProposalTarget makes
// them: class, x1, y1, x2, y2, overlap of the region). Output: R x 5.
//
// In training, boxes that end before they begin are dropped, and those that overlap their true box by
// gt_iou_thr or more (of R x 6: whose regions did), so how many there are is known only in the pass
// (LayerTraits::chooses_samples).
#include "box_layer.hpp"

namespace banyan {
namespace {

class DecodeBBoxLayer : public BoxLayer {
 public:
  DecodeBBoxLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : BoxLayer(parameter, options, {2, 3, 1, 1}) {
    traits_.chooses_samples = drops();
  }

  void read_settings() override {
    scale_ = read_bbox_reg();
    check_fraction("gt_iou_thr", parameter_.decode_bbox_param().gt_iou_thr());
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &shifts = inputs[0]->shape, &rois = inputs[1]->shape;
    if (rois.axes() < 2 || rois.count(1) != 5)
      refuse(quoted(inputs[1]->name), " is ", rois.to_string(), "; expected R x 5: image, x1, y1, x2, y2");
    if (shifts.axes() < 2 || shifts[0] != rois[0] || shifts.count(1) < 8)
      refuse(quoted(inputs[0]->name), " is ", shifts.to_string(), "; expected ", rois[0],
             " x 8 or more, four numbers for each class, the background first");
    if (inputs.size() > 2 && (inputs[2]->shape.axes() < 2 || inputs[2]->shape[0] != rois[0] ||
                              (inputs[2]->shape.count(1) != 4 && inputs[2]->shape.count(1) != 6)))
      refuse(quoted(inputs[2]->name), " is ", inputs[2]->shape.to_string(), "; expected ", rois[0],
             " x 4, the true box of each region: x1, y1, x2, y2; or x 6: class, box, overlap");
    set_output(*outputs[0], Shape{rois[0], 5});
  }

  std::int64_t choose_samples(Pass& pass, const Blobs& inputs) override {
    decode_regions(pass, inputs);
    return std::ssize(rows_) / 5;
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    if (!drops()) decode_regions(pass, inputs);
    set_values(*pass.context, rows_, outputs[0]->data);
  }

 private:
  bool drops() const { return options().phase == Phase::train; }

  void decode_regions(Pass& pass, const Blobs& inputs) {
    const Values shifts = values_of(*pass.context, inputs[0]->data);
    const Values rois = values_of(*pass.context, inputs[1]->data);
    Values truth;
    if (drops() && inputs.size() > 2) truth = values_of(*pass.context, inputs[2]->data);
    const std::int64_t columns = truth.values.empty() ? 0 : truth.shape.count(1);
    const double most = parameter_.decode_bbox_param().gt_iou_thr();
    rows_.clear();
    for (std::int64_t i = 0; i < rois.shape[0]; ++i) {
      const double* const roi = rois.values.data() + 5 * i;
      const double* const code = shifts.values.data() + shifts.shape.count(1) * i + 4;
      Box box = decoded({roi[1], roi[2], roi[3], roi[4]}, {code[0], code[1], code[2], code[3]}, scale_);
      box.x2 -= 1;  // decoded() gives the pixel after the last
      box.y2 -= 1;
      if (drops() && !(box.x2 >= box.x1 && box.y2 >= box.y1)) continue;
      if (columns > 0) {
        const double* const own = truth.values.data() + columns * i;
        const double shared =
            columns == 6 ? own[5] : overlap(box, {own[0], own[1], own[2], own[3]}, Corners::pixels);
        if (shared >= most) continue;
      }
      rows_.insert(rows_.end(), {roi[0], box.x1, box.y1, box.x2, box.y2});
    }
  }

  ShiftScale scale_;
  std::vector<double> rows_;  ///< of the pass
};

const RegisterLayer<DecodeBBoxLayer> registered_decode_bbox(
    "DecodeBBox", {.about = "regions moved by a detector's head (Cascade R-CNN)",
                   .message = "decode_bbox_param",
                   .examples = {"", "gt_iou_thr: 0.5"},
                   .inputs = {{8}, {5}},
                   .further = {"bbox_reg_param"}});

}  // namespace
}  // namespace banyan
