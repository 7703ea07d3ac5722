// Proposal: the regions that a region proposal network finds (Faster R-CNN, PVANet). Inputs: the
// probabilities of background and object of each anchor (N x 2A x H x W), the shifts of the anchors (N x 4A x
// H x W), and im_info (N x 3: height, width, scale). Outputs: for each image min(post_nms_topn, anchors) rows
// of image, x1, y1, x2, y2, and their probabilities.
//
// The shifted anchors are cut off at the image's borders; those with a side below min_size times the scale
// are dropped; of the pre_nms_topn most probable ones those are kept, in this order, that overlap no kept one
// by more than nms_thresh. If fewer are left than there are rows, the others repeat the first one with
// probability 0, so pooling them costs time but no error; without any the box 0, 0, base_size, base_size
// takes its place. 0 for pre_nms_topn or post_nms_topn means all. An nms_thresh of 1, in tests only, drops
// none.
#include "box_layer.hpp"

namespace banyan {
namespace {

class ProposalLayer : public BoxLayer {
 public:
  ProposalLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : BoxLayer(parameter, options, {3, 3, 1, 2}) {}

  void read_settings() override {
    anchors_ = read_anchors(settings());
    scale_ = read_scale(settings(), {1, 1, 1, 1});
    // Below 1 no two regions are equal, by which ProposalTarget tells rows that repeat one.
    const bool all = settings().nms_thresh() == 1 && options().phase == Phase::test;
    if (!all && !(settings().nms_thresh() >= 0 && settings().nms_thresh() < 1))
      refuse("nms_thresh must be at least 0 and below 1, or 1 in tests: none is dropped; found ",
             settings().nms_thresh());
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    fit(anchors_, *inputs[0], 2);
    fit(anchors_, *inputs[1], 4);
    const Shape &scores = inputs[0]->shape, &shifts = inputs[1]->shape;
    if (scores[0] != shifts[0] || scores[2] != shifts[2] || scores[3] != shifts[3])
      refuse(quoted(inputs[0]->name), " is ", scores.to_string(), " and ", quoted(inputs[1]->name), " ",
             shifts.to_string(), "; expected the same batch, height and width");
    images_ = scores[0];
    check_infos(*inputs[2], images_);
    rows_ = anchors_.positions() * anchors_.each();
    for (const std::int64_t most : {settings().pre_nms_topn(), settings().post_nms_topn()})
      if (most > 0) rows_ = std::min(rows_, most);
    set_output(*outputs[0], Shape{images_ * rows_, 5});
    if (outputs.size() > 1) set_output(*outputs[1], Shape{images_ * rows_, 1});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    const Values scores = values_of(*pass.context, inputs[0]->data);
    const Values shifts = values_of(*pass.context, inputs[1]->data);
    const Values infos = values_of(*pass.context, inputs[2]->data);
    const std::vector<Box> anchors = anchors_.all();
    std::vector<double> rois, probabilities;
    for (std::int64_t image = 0; image < images_; ++image) {
      const Found found = propose(image, scores, shifts, info_of(infos, image), anchors);
      for (std::int64_t i = 0; i < rows_; ++i) {
        const bool fills = i >= static_cast<std::int64_t>(found.boxes.size());
        const Box& box = found.boxes[fills ? 0 : i];
        rois.insert(rois.end(), {static_cast<double>(image), box.x1, box.y1, box.x2, box.y2});
        probabilities.push_back(fills ? 0 : found.scores[i]);
      }
    }
    set_values(*pass.context, rois, outputs[0]->data);
    if (outputs.size() > 1) set_values(*pass.context, probabilities, outputs[1]->data);
  }

 private:
  const caffe::ProposalParameter& settings() const { return parameter_.proposal_param(); }

  struct Found {
    std::vector<Box> boxes;
    std::vector<double> scores;
  };
  /// At least one region of an image.
  Found propose(std::int64_t image, const Values& scores, const Values& shifts, const ImageInfo& info,
                const std::vector<Box>& anchors) const {
    const std::int64_t positions = anchors_.positions(), each = anchors_.each();
    const double last_x = std::max(info.width - 1, 0.0), last_y = std::max(info.height - 1, 0.0);
    const double least_w = settings().min_size() * info.scale_w,
                 least_h = settings().min_size() * info.scale_h;
    Found all;
    std::vector<int> candidates;
    anchors_.visit([&](int index, std::int64_t anchor, std::int64_t position) {
      const double* shift = shifts.values.data() + (image * each + anchor) * 4 * positions + position;
      const Box box =
          clipped(decoded(anchors[index],
                          {shift[0], shift[positions], shift[2 * positions], shift[3 * positions]}, scale_),
                  last_x, last_y);
      const double score = scores.values[((2 * image + 1) * each + anchor) * positions + position];
      all.boxes.push_back(box);
      all.scores.push_back(score);
      if (box.x2 - box.x1 + 1 >= least_w && box.y2 - box.y1 + 1 >= least_h && !std::isnan(score))
        candidates.push_back(index);
    });
    Suppression how{.threshold = settings().nms_thresh(), .corners = Corners::pixels, .most = rows_};
    if (settings().pre_nms_topn() > 0) how.top_k = static_cast<int>(settings().pre_nms_topn());
    Found kept;
    for (const int index : suppress(all.boxes, by_score(candidates, all.scores), how)) {
      kept.boxes.push_back(all.boxes[index]);
      kept.scores.push_back(all.scores[index]);
    }
    if (kept.boxes.empty()) {
      const double side = settings().base_size();
      kept = {{clipped({0, 0, side, side}, last_x, last_y)}, {0}};
    }
    return kept;
  }

  AnchorGrid anchors_;
  ShiftScale scale_;
  std::int64_t images_ = 0, rows_ = 0;
};

const RegisterLayer<ProposalLayer> registered_proposal(
    "Proposal", {.about = "regions from a region proposal network (Faster R-CNN)",
                 .message = "proposal_param",
                 .examples = {"base_size: 2 ratio: 1 scale: 1 scale: 2 min_size: 1 feat_stride: 1 "
                              "post_nms_topn: 4"},
                 .inputs = {{4, 3, 3}, {8, 3, 3}, {3}}});

}  // namespace
}  // namespace banyan
