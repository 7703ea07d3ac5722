// ProposalTarget: a sample of regions with the targets of a detector's head (Faster R-CNN, R-FCN). Inputs:
// regions (R x 5: image, x1, y1, x2, y2) and the true boxes (G x 5 for one image, N x G x 5: x1, y1, x2, y2,
// class; a class below 1: not used), which are added to the regions. Outputs, with batch_size rows per image,
// or for -1 as many as the image has regions and true boxes: regions (5 numbers), labels (1), shifts to the
// true box (4 per class), their inside and outside weights.
//
// Regions that overlap a true box by at least fg_thresh are objects of its class, those from bg_thresh_lo to
// below bg_thresh_hi background. Of the objects fg_fraction * batch_size are drawn, the rest from the
// background; draws as in AnchorTarget. Equal regions count once (Proposal fills its rows with them).
//
// A sample with fewer regions than rows: with ignore_label, the other rows have this label and no weight, and
// the outside weights of the sample are multiplied by rows / regions, so losses that ignore the label and
// divide by all rows are those of the sample alone. Without it, its background regions (objects, if it has
// none) are repeated in turn.
#include <set>

#include "box_layer.hpp"

namespace banyan {
namespace {

class ProposalTargetLayer : public BoxLayer {
 public:
  ProposalTargetLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : BoxLayer(parameter, options, {2, 2, 5, 5}) {}

  void read_settings() override {
    const auto& s = settings();
    if (s.num_classes() < 2)
      refuse("num_classes must be at least 2: background and objects; found ", s.num_classes());
    if (s.batch_size() < 1 && s.batch_size() != -1)
      refuse("batch_size must be positive, or -1: all; found ", s.batch_size());
    scale_ = read_scale(s, {0.1, 0.1, 0.2, 0.2});
    inside_ = four("bbox_inside_weight", s.bbox_inside_weight(), {1, 1, 1, 1});
    for (const double weight : inside_)
      if (!(weight >= 0)) refuse("bbox_inside_weight must not be negative; found ", weight);
    check_fraction("fg_fraction", s.fg_fraction());
    check_fraction("fg_thresh", s.fg_thresh());
    check_fraction("bg_thresh_lo", s.bg_thresh_lo());
    if (!(s.bg_thresh_hi() > s.bg_thresh_lo()))
      refuse("bg_thresh_hi ", s.bg_thresh_hi(), " must be above bg_thresh_lo ", s.bg_thresh_lo());
    agnostic_ = s.has_agnostic() ? s.agnostic() : s.num_classes() == 2;
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& rois = inputs[0]->shape;
    if (rois.axes() < 2 || rois.count(1) != 5)
      refuse(quoted(inputs[0]->name), " is ", rois.to_string(), "; expected R x 5: image, x1, y1, x2, y2");
    images_ = images_of_boxes(*inputs[1]);
    rows_ = settings().batch_size();
    if (rows_ < 0)
      rows_ = images_ == 0 ? 0 : (rois[0] + images_ - 1) / images_ + inputs[1]->shape.count() / 5 / images_;
    const std::int64_t numbers[] = {5, 1, 4 * settings().num_classes()};
    // Four axes, as in R-FCN: its pooled predictions have them too.
    for (std::size_t i = 0; i < 5; ++i)
      set_output(*outputs[i], Shape{images_ * rows_, numbers[std::min<std::size_t>(i, 2)], 1, 1});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    const Values rois = values_of(*pass.context, inputs[0]->data);
    const Values boxes = values_of(*pass.context, inputs[1]->data);
    std::vector<std::vector<Box>> regions = regions_of_images(rois);
    Targets targets;
    for (std::size_t i = 0; i < 5; ++i)
      targets[i].assign(static_cast<std::size_t>(outputs[i]->shape.count()), 0);
    for (std::int64_t image = 0; image < images_; ++image) {
      const TrueBoxes truth = true_boxes(boxes, images_, image);
      std::vector<Box>& candidates = regions[image];
      candidates.insert(candidates.end(), truth.boxes.begin(), truth.boxes.end());
      const std::vector<Match> matches = best_matches(candidates, truth.boxes);
      const Sample sample = draw(matches, drawing_key(pass), global_sample(pass, image));
      write(image, candidates, matches, truth, sample, targets);
    }
    for (std::size_t i = 0; i < 5; ++i) set_values(*pass.context, targets[i], outputs[i]->data);
  }

 private:
  const caffe::ProposalTargetParameter& settings() const { return parameter_.proposal_target_param(); }
  using Targets = std::array<std::vector<double>, 5>;  ///< of the outputs
  struct Sample {
    std::vector<int> regions;  ///< objects first
    std::int64_t objects = 0;
  };

  /// Each once, in order.
  std::vector<std::vector<Box>> regions_of_images(const Values& rois) {
    std::vector<std::vector<Box>> regions(static_cast<std::size_t>(images_));
    std::set<std::array<double, 5>> known;
    for (std::int64_t i = 0; i < rois.shape.count() / 5; ++i) {
      std::array<double, 5> row;
      std::copy_n(rois.values.begin() + 5 * i, 5, row.begin());
      const bool in_batch =
          row[0] >= 0 && row[0] < static_cast<double>(images_) && row[0] == std::floor(row[0]);
      if (!in_batch || !std::all_of(row.begin(), row.end(), [](double x) { return std::isfinite(x); }))
        note("region ", i, " is image ", row[0], ", ", row[1], ", ", row[2], ", ", row[3], ", ", row[4],
             "; the batch has the images 0 to ", images_ - 1);
      else if (known.insert(row).second)
        regions[static_cast<std::size_t>(row[0])].push_back({row[1], row[2], row[3], row[4]});
    }
    return regions;
  }

  Sample draw(const std::vector<Match>& matches, const ops::RandomKey& key, std::int64_t image) {
    std::vector<int> objects, background;
    for (std::size_t i = 0; i < matches.size(); ++i) {
      const double most = matches[i].overlap;
      if (matches[i].index >= 0 && most >= settings().fg_thresh())
        objects.push_back(static_cast<int>(i));
      else if (most >= settings().bg_thresh_lo() && most < settings().bg_thresh_hi())
        background.push_back(static_cast<int>(i));
    }
    const bool all = settings().batch_size() < 0;
    const auto most_objects =
        static_cast<std::int64_t>(std::nearbyint(part_of(rows_, settings().fg_fraction())));
    Sample sample{drawn(objects, all ? rows_ : most_objects, key, image), 0};
    sample.objects = static_cast<std::int64_t>(sample.regions.size());
    const std::int64_t rest = rows_ - sample.objects;
    if (all && static_cast<std::int64_t>(objects.size() + background.size()) > rows_)
      note("an image has ", objects.size() + background.size(), " regions; batch_size: -1 leaves ", rows_,
           " rows for each");
    const std::vector<int> others = drawn(background, rest, key, image);
    sample.regions.insert(sample.regions.end(), others.begin(), others.end());
    return sample;
  }

  void write(std::int64_t image, const std::vector<Box>& candidates, const std::vector<Match>& matches,
             const TrueBoxes& truth, const Sample& sample, Targets& targets) {
    const auto found = static_cast<std::int64_t>(sample.regions.size());
    const bool ignores = settings().has_ignore_label();
    const std::int64_t repeated = sample.objects < found ? sample.objects : 0;  // the first of those repeated
    for (std::int64_t row = 0; row < rows_; ++row) {
      const std::int64_t at = image * rows_ + row;
      double* roi = targets[0].data() + 5 * at;
      roi[0] = static_cast<double>(image);
      const bool fills = row >= found;
      if (fills && ignores) targets[1][at] = settings().ignore_label();
      if (found == 0) continue;
      const std::int64_t taken = !fills ? row : ignores ? 0 : repeated + (row - found) % (found - repeated);
      const int region = sample.regions[taken];
      const Box& box = candidates[region];
      roi[1] = box.x1, roi[2] = box.y1, roi[3] = box.x2, roi[4] = box.y2;
      if (taken >= sample.objects || (fills && ignores)) continue;
      const Match& match = matches[region];
      const double label = truth.classes[match.index];
      if (!(label == std::floor(label)) || (!agnostic_ && label >= settings().num_classes())) {
        note("a true box has the class ", label, "; there are ", settings().num_classes(),
             " classes, 0 (background) to ", settings().num_classes() - 1);
        continue;
      }
      targets[1][at] = label;
      const BoxShift shift = encoded(box, truth.boxes[match.index], scale_);
      const double outside = ignores ? static_cast<double>(rows_) / static_cast<double>(found) : 1;
      const std::int64_t slot = agnostic_ ? 1 : static_cast<std::int64_t>(label);
      for (std::int64_t i = 0; i < 4; ++i) {
        const std::int64_t number = (at * settings().num_classes() + slot) * 4 + i;
        targets[2][number] = shift[i];
        targets[3][number] = inside_[i];
        targets[4][number] = inside_[i] > 0 ? outside : 0;
      }
    }
  }

  ShiftScale scale_;
  BoxShift inside_{};
  bool agnostic_ = false;
  std::int64_t images_ = 0, rows_ = 0;
};

const RegisterLayer<ProposalTargetLayer> registered_proposal_target(
    "ProposalTarget", {.about = "a sample of regions and its targets (Faster R-CNN)",
                       .message = "proposal_target_param",
                       .examples = {"num_classes: 4 batch_size: 6", "num_classes: 2 batch_size: -1"},
                       .inputs = {{5}, {2, 5}}});

}  // namespace
}  // namespace banyan
