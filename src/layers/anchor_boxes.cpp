// TextProposal (CTPN) and AnchorBoxes (RON), both there in Python: the boxes that a net makes of all anchors,
// with its scores. Nothing is sorted or left out. R = HWA rows follow the positions, at each the A anchors.
//
// TextProposal. Inputs: the probabilities of background and text (N x 2A x H x W), shifts along the vertical
// (N x 2A x H x W: dy, dh) and im_info (N x 3: height, width, scale). Outputs: boxes (NR x 4) and their
// probabilities of text (NR x 1). An anchor from y1 to y2 of h = y2 - y1 + 1 becomes a box of height h
// exp(dh) around (y1 + y2) / 2 + h dy; x1 and x2 stay. Boxes are cut off at the image's borders.
//
// AnchorBoxes. Inputs: the probabilities of background and object (N x 2A x H x W), those of C classes (N x C
// x AH x W, class 0 is background) and shifts (N x 4A x H x W). Outputs: boxes (N x R x 4), and N x R x C
// probabilities: of an object, then of the classes 1 to C - 1.
#include "box_layer.hpp"

namespace banyan {
namespace {

class AnchorBoxesLayer : public BoxLayer {
 public:
  AnchorBoxesLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : BoxLayer(parameter, options, {3, 3, 2, 2}), text_(parameter.type() == "TextProposal") {}

  void read_settings() override {
    const caffe::ProposalParameter& s = parameter_.proposal_param();
    if (s.has_min_size() || s.has_pre_nms_topn() || s.has_post_nms_topn() || s.has_nms_thresh())
      refuse("keeps all boxes: min_size, pre_nms_topn, post_nms_topn and nms_thresh have no effect");
    if (text_ && s.bbox_mean_size() + s.bbox_std_size() > 0)
      refuse("bbox_mean and bbox_std are for shifts of four numbers");
    anchors_ = read_anchors(s);
    scale_ = read_scale(s, {1, 1, 1, 1});
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Blob& shifts = *inputs[text_ ? 1 : 2];
    fit(anchors_, *inputs[0], 2);
    fit(anchors_, shifts, text_ ? 2 : 4);
    const Shape& scores = inputs[0]->shape;
    if (scores[0] != shifts.shape[0] || scores[2] != shifts.shape[2] || scores[3] != shifts.shape[3])
      refuse(quoted(inputs[0]->name), " is ", scores.to_string(), " and ", quoted(shifts.name), " ",
             shifts.shape.to_string(), "; expected the same batch, height and width");
    images_ = scores[0];
    rows_ = anchors_.positions() * anchors_.each();
    if (text_) {
      check_infos(*inputs[2], images_);
      set_output(*outputs[0], Shape{images_ * rows_, 4});
      set_output(*outputs[1], Shape{images_ * rows_, 1});
      return;
    }
    const Shape& classes = inputs[1]->shape;
    if (classes.axes() != 4 || classes[0] != images_ || classes[1] < 1 ||
        classes[2] != anchors_.each() * scores[2] || classes[3] != scores[3])
      refuse(quoted(inputs[1]->name), " is ", classes.to_string(), "; expected ", images_, " x classes x ",
             anchors_.each() * scores[2], " x ", scores[3]);
    numbers_ = classes[1];
    set_output(*outputs[0], Shape{images_, rows_, 4});
    set_output(*outputs[1], Shape{images_, rows_, numbers_});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    std::array<Values, 3> values;
    for (std::size_t i = 0; i < 3; ++i) values[i] = values_of(*pass.context, inputs[i]->data);
    const std::vector<Box> anchors = anchors_.all();
    const std::int64_t positions = anchors_.positions(), each = anchors_.each();
    std::vector<double> boxes, scores;
    for (std::int64_t image = 0; image < images_; ++image)
      anchors_.visit([&](int index, std::int64_t anchor, std::int64_t position) {
        const auto number = [&](const Values& of, std::int64_t channel) {
          return of.values[(image * of.shape[1] + channel) * positions + position];
        };
        scores.push_back(number(values[0], each + anchor));
        const Box box = text_
                            ? text_box(anchors[index], number(values[1], 2 * anchor),
                                       number(values[1], 2 * anchor + 1), info_of(values[2], image))
                            : decoded(anchors[index],
                                      {number(values[2], 4 * anchor), number(values[2], 4 * anchor + 1),
                                       number(values[2], 4 * anchor + 2), number(values[2], 4 * anchor + 3)},
                                      scale_);
        boxes.insert(boxes.end(), {box.x1, box.y1, box.x2, box.y2});
        for (std::int64_t i = 1; !text_ && i < numbers_; ++i)
          scores.push_back(values[1].values[((image * numbers_ + i) * each + anchor) * positions + position]);
      });
    set_values(*pass.context, boxes, outputs[0]->data);
    set_values(*pass.context, scores, outputs[1]->data);
  }

 private:
  static Box text_box(const Box& anchor, double shift, double growth, const ImageInfo& info) {
    const double height = anchor.y2 - anchor.y1 + 1, grown = height * std::exp(growth);
    const double top = (anchor.y1 + anchor.y2) / 2 + height * shift - grown / 2;
    return clipped({anchor.x1, top, anchor.x2, top + grown}, std::max(info.width - 1, 0.0),
                   std::max(info.height - 1, 0.0));
  }

  bool text_;
  AnchorGrid anchors_;
  ShiftScale scale_;
  std::int64_t images_ = 0, rows_ = 0, numbers_ = 1;
};

const RegisterLayer<AnchorBoxesLayer> registered_text_proposal(
    "TextProposal", {.about = "boxes of text from all anchors, moved along the vertical (CTPN)",
                     .message = "proposal_param",
                     .examples = {"base_size: 2 ratio: 1 scale: 1 scale: 2 feat_stride: 1"},
                     .inputs = {{4, 3, 3}, {4, 3, 3}, {3}}});
const RegisterLayer<AnchorBoxesLayer> registered_anchor_boxes(
    "AnchorBoxes", {.about = "boxes from all anchors, with the probabilities of classes (RON)",
                    .message = "proposal_param",
                    .examples = {"base_size: 2 ratio: 1 scale: 1 scale: 2 feat_stride: 1"},
                    .inputs = {{4, 3, 3}, {5, 6, 3}, {8, 3, 3}}});

}  // namespace
}  // namespace banyan
