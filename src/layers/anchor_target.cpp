// AnchorTarget: what a region proposal network shall say of its anchors (Faster R-CNN). Inputs: its scores (N
// x 2A x H x W, of which only the shape counts), the true boxes (G x 5 for one image, N x G x 5: x1, y1, x2,
// y2, class; a class below 1: not used), im_info (N x 3: height, width, scale), and perhaps the images, which
// are not read, and the probabilities of background and object (N x 2A x H x W). Outputs: labels (N x 1 x AH
// x W: 1 object, 0 background, -1 neither), shifts to the true boxes and their inside and outside weights (N
// x 4A x H x W each).
//
// Only anchors count that lie in the image, but for allowed_border pixels. Those with an overlap of at least
// positive_overlap, and those that overlap a true box most of all, are objects; those below negative_overlap
// are background. Of the objects fg_fraction * batch_size are drawn, the rest of batch_size from the
// background. The draws depend on the seed, the layer's name, the iteration and the image's number in the
// global batch only. With probabilities those are taken instead whose probabilities are furthest from the
// labels. As SSH's layer (in Python) the best anchor of a true box is no object for that reason alone, and
// all anchors count if none lies in the image.
#include <numeric>

#include "box_layer.hpp"

namespace banyan {
namespace {

class AnchorTargetLayer : public BoxLayer {
 public:
  AnchorTargetLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : BoxLayer(parameter, options, {3, 5, 4, 4}) {}

  void read_settings() override {
    const auto& s = settings();
    anchors_ = read_anchors(s);
    scale_ = read_scale(s, {1, 1, 1, 1});
    inside_ = four("bbox_inside_weight", s.bbox_inside_weight(), {1, 1, 1, 1});
    check_fraction("fg_fraction", s.fg_fraction());
    check_fraction("positive_overlap", s.positive_overlap());
    check_fraction("negative_overlap", s.negative_overlap());
    if (!(s.positive_weight() < 1) || s.positive_weight() == 0)
      refuse("positive_weight must be between 0 and 1, or negative; found ", s.positive_weight());
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    fit(anchors_, *inputs[0], 2);
    images_ = inputs[0]->shape[0];
    if (const std::int64_t of_boxes = images_of_boxes(*inputs[1]); of_boxes != images_)
      refuse(quoted(inputs[1]->name), " has boxes of ", of_boxes, " images, ", quoted(inputs[0]->name),
             " scores of ", images_);
    check_infos(*inputs[2], images_);
    if (inputs.size() > 4 && inputs[4]->shape != inputs[0]->shape)
      refuse(quoted(inputs[4]->name), " is ", inputs[4]->shape.to_string(), " and ", quoted(inputs[0]->name),
             " ", inputs[0]->shape.to_string(), "; expected the same shape");
    const std::int64_t rows = anchors_.rows, columns = anchors_.columns, each = anchors_.each();
    set_output(*outputs[0], Shape{images_, 1, each * rows, columns});
    for (std::size_t i = 1; i < 4; ++i) set_output(*outputs[i], Shape{images_, 4 * each, rows, columns});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    const Values boxes = values_of(*pass.context, inputs[1]->data);
    const Values infos = values_of(*pass.context, inputs[2]->data);
    const std::vector<Box> anchors = anchors_.all();
    Values scores;
    if (inputs.size() > 4) scores = values_of(*pass.context, inputs[4]->data);
    Targets targets(outputs);
    for (std::int64_t image = 0; image < images_; ++image) {
      const TrueBoxes truth = true_boxes(boxes, images_, image);
      std::vector<Match> matches;
      const std::vector<int> inside = anchors_inside(anchors, info_of(infos, image));
      std::vector<int> labels = label(anchors, inside, truth.boxes, matches);
      sample(labels, objectness(scores, image), pass, image);
      write(image, anchors, inside, labels, matches, truth.boxes, targets);
    }
    for (std::size_t i = 0; i < 4; ++i) set_values(*pass.context, targets.values[i], outputs[i]->data);
  }

 private:
  const caffe::AnchorTargetParameter& settings() const { return parameter_.anchor_target_param(); }

  bool of_ssh() const { return parameter_.has_python_param(); }

  struct Targets {
    std::array<std::vector<double>, 4> values;  ///< of the outputs
    explicit Targets(const Blobs& outputs) {
      for (std::size_t i = 0; i < 4; ++i)
        values[i].assign(static_cast<std::size_t>(outputs[i]->shape.count()), i == 0 ? -1 : 0);
    }
  };

  std::vector<int> anchors_inside(const std::vector<Box>& anchors, const ImageInfo& info) const {
    const double border = settings().allowed_border();
    std::vector<int> inside;
    for (std::size_t i = 0; i < anchors.size(); ++i)
      if (anchors[i].x1 >= -border && anchors[i].y1 >= -border && anchors[i].x2 < info.width + border &&
          anchors[i].y2 < info.height + border)
        inside.push_back(static_cast<int>(i));
    if (inside.empty() && of_ssh()) {
      inside.resize(anchors.size());
      std::iota(inside.begin(), inside.end(), 0);
    }
    return inside;
  }

  /// Makes the anchors that overlap a true box most of all objects.
  static void mark_best(const std::vector<Box>& candidates, const std::vector<int>& inside,
                        const std::vector<Box>& truth, std::vector<int>& labels) {
    for (const Box& box : truth) {
      double most = 0;
      for (const Box& candidate : candidates) most = std::max(most, overlap(candidate, box, Corners::pixels));
      for (std::size_t k = 0; most > 0 && k < inside.size(); ++k)
        if (overlap(candidates[k], box, Corners::pixels) == most) labels[inside[k]] = 1;
    }
  }

  /// A label for every anchor; `matches` are those of the anchors inside.
  std::vector<int> label(const std::vector<Box>& anchors, const std::vector<int>& inside,
                         const std::vector<Box>& truth, std::vector<Match>& matches) const {
    std::vector<Box> candidates;
    for (const int i : inside) candidates.push_back(anchors[i]);
    matches = best_matches(candidates, truth);
    std::vector<int> labels(anchors.size(), -1);
    const auto mark_background = [&] {
      for (std::size_t k = 0; k < inside.size(); ++k)
        if (matches[k].overlap < settings().negative_overlap()) labels[inside[k]] = 0;
    };
    if (!settings().clobber_positives()) mark_background();
    if (!of_ssh()) mark_best(candidates, inside, truth, labels);
    for (std::size_t k = 0; k < inside.size(); ++k)
      if (!truth.empty() && matches[k].overlap >= settings().positive_overlap()) labels[inside[k]] = 1;
    if (settings().clobber_positives()) mark_background();
    return labels;
  }

  /// For every anchor the probability of an object; empty if they are not given.
  std::vector<double> objectness(const Values& scores, std::int64_t image) const {
    std::vector<double> found;
    if (scores.values.empty()) return found;
    anchors_.visit([&](int, std::int64_t anchor, std::int64_t position) {
      const std::int64_t channel = (2 * image + 1) * anchors_.each() + anchor;
      found.push_back(scores.values[channel * anchors_.positions() + position]);
    });
    return found;
  }

  /// Leaves a sample of the objects and of the background.
  void sample(std::vector<int>& labels, std::vector<double> scores, const Pass& pass,
              std::int64_t image) const {
    const auto some = [&](std::vector<int> from, std::int64_t count) {
      if (scores.empty()) return drawn(std::move(from), count, drawing_key(pass), global_sample(pass, image));
      return best_by_score(std::move(from), scores,
                           static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
    };
    std::array<std::vector<int>, 2> of_label;
    for (std::size_t i = 0; i < labels.size(); ++i)
      if (labels[i] >= 0) of_label[labels[i]].push_back(static_cast<int>(i));
    const auto batch = static_cast<std::int64_t>(settings().batch_size());
    const auto most_objects = static_cast<std::int64_t>(part_of(batch, settings().fg_fraction()));
    std::fill(labels.begin(), labels.end(), -1);
    for (double& score : scores) score = -score;
    const std::vector<int> objects = some(of_label[1], most_objects);
    for (const int i : objects) labels[i] = 1;
    for (double& score : scores) score = -score;
    for (const int i : some(of_label[0], batch - static_cast<std::int64_t>(objects.size()))) labels[i] = 0;
  }

  void write(std::int64_t image, const std::vector<Box>& anchors, const std::vector<int>& inside,
             const std::vector<int>& labels, const std::vector<Match>& matches, const std::vector<Box>& truth,
             Targets& targets) const {
    const auto objects = static_cast<double>(std::count(labels.begin(), labels.end(), 1));
    const auto background = static_cast<double>(std::count(labels.begin(), labels.end(), 0));
    const double part = settings().positive_weight();
    const double weights[] = {part < 0 ? 1 / (objects + background) : (1 - part) / background,
                              part < 0 ? 1 / (objects + background) : part / objects};
    const std::int64_t positions = anchors_.positions(), each = anchors_.each();
    for (std::size_t k = 0; k < inside.size(); ++k) {
      const std::int64_t anchor = inside[k] % each, position = inside[k] / each;
      const int label = labels[inside[k]];
      targets.values[0][(image * each + anchor) * positions + position] = label;
      const BoxShift shift =
          truth.empty() ? BoxShift{} : encoded(anchors[inside[k]], truth[matches[k].index], scale_);
      for (std::int64_t i = 0; i < 4; ++i) {
        const std::int64_t at = ((image * each + anchor) * 4 + i) * positions + position;
        targets.values[1][at] = shift[i];
        targets.values[2][at] = label == 1 ? inside_[i] : 0;
        targets.values[3][at] = label >= 0 ? weights[label] : 0;
      }
    }
  }

  AnchorGrid anchors_;
  ShiftScale scale_;
  BoxShift inside_{};
  std::int64_t images_ = 0;
};

const RegisterLayer<AnchorTargetLayer> registered_anchor_target(
    "AnchorTarget", {.about = "targets of a region proposal network (Faster R-CNN)",
                     .message = "anchor_target_param",
                     .examples = {"base_size: 2 ratio: 1 scale: 1 scale: 2 feat_stride: 1 allowed_border: 1 "
                                  "batch_size: 6"},
                     .inputs = {{4, 3, 3}, {2, 5}, {3}}});

}  // namespace
}  // namespace banyan
