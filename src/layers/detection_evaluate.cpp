// DetectionEvaluate (SSD): which detections are right. Inputs: detections ... x 7 as DetectionOutput gives
// them, ground truth ... x 8 (see MultiBoxLoss).
//
// The output is 1 x 1 x (C + D) x 5 for C classes without the background and D detections. First a row for
// each class: -1, label, number of its boxes in the ground truth, -1, -1. Then each detection by item, label
// and falling confidence: item, label, confidence, whether it is a true, whether it is a false positive. One
// that overlaps no ground truth of its label by overlap_threshold is false, as is the second for the same
// box; one that found a difficult box is neither unless evaluate_difficult_gt. Rows of -1 fill up for
// detections that hold no label (SSD has fewer rows).
//
// With name_size_file boxes are compared in whole pixels of the images that it lists, in the order of a pass
// over the data.
//
// With a third input, the height and width of each image as the net sees it (N x 2), detections are D x 7 as
// FrcnnOutput gives them, and the ground truth is ... x 8 as EvalData does: image, x1, y1, x2, y2, label,
// whether it is ignored (which is not looked at), whether it is difficult. Boxes are compared in pixels, of
// the images that name_size_file lists or, without it, of those that the net sees (Cascade R-CNN).
//
// The host decides: such a pass cannot be captured into a graph.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "banyan/layers/layer.hpp"
#include "banyan/tensor/values.hpp"
#include "layers/detection_boxes.hpp"

namespace banyan {
namespace {

constexpr std::size_t kFound = 7;  // numbers of a detection

struct Found {
  double score;
  Box box;
};

class DetectionEvaluateLayer : public Layer {
 public:
  DetectionEvaluateLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 3, 1, 1},
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .repeatable = false,
               .differentiable_inputs = 0}),
        settings_(parameter_.detection_evaluate_param()) {}

  void read_settings() override {
    const auto& s = settings_;
    has_sizes_ = parameter_.bottom_size() > 2;
    if (s.num_classes() < 1) refuse("num_classes must be given");
    if (!(s.overlap_threshold() > 0))
      refuse("overlap_threshold must be positive; found ", s.overlap_threshold());
    if (s.name_size_file().empty()) {
      if (s.has_resize_param()) refuse("resize_param needs name_size_file, the sizes of the images");
      return;
    }
    if (has_sizes_ && s.has_resize_param())
      refuse("resize_param does not go with a third input, which says how large the images are");
    check_resize(s.resize_param(), start_of_messages(*this));
    images_ = read_name_sizes(s.name_size_file(), start_of_messages(*this));
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    for (const auto& [i, length, what] : {std::tuple{0, 7, "detections"}, std::tuple{1, 8, "ground truth"}})
      if (const Shape& shape = inputs[i]->shape;
          (shape.axes() < 1 || shape[-1] != length) && (shape.axes() < 2 || shape.count(1) != length))
        refuse("expected ", what, " in rows of ", length, "; ", quoted(inputs[i]->name), " is ",
               shape.to_string());
    if (has_sizes_ && (inputs[2]->shape.axes() < 2 || inputs[2]->shape.count(1) != 2))
      refuse(quoted(inputs[2]->name), " is ", inputs[2]->shape.to_string(),
             "; expected N x 2: height and width of each image");
    const std::int64_t classes = settings_.num_classes();
    const bool has_background = settings_.background_label_id() < classes;
    set_output(*outputs[0],
               Shape{1, 1, classes - (has_background ? 1 : 0) + inputs[0]->shape.count() / 7, 5});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override;
  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  /// By item and label.
  using Detections = std::vector<std::map<int, std::vector<Found>>>;

  Detections read_detections(const std::vector<double>& rows) const;
  void to_pixels(std::int64_t number, std::map<int, std::vector<Found>>& found,
                 std::vector<GroundTruth>& truth) const;

  void to_pixels_of_images(std::int64_t number, const double* size, std::map<int, std::vector<Found>>& found,
                           std::vector<GroundTruth>& truth) const;

  const caffe::DetectionEvaluateParameter& settings_;
  std::vector<NamedSize> images_;
  bool has_sizes_ = false;  ///< a third input
};

DetectionEvaluateLayer::Detections DetectionEvaluateLayer::read_detections(
    const std::vector<double>& rows) const {
  Detections items;
  for (std::size_t r = 0; r < rows.size() / kFound; ++r) {
    const double* row = rows.data() + kFound * r;
    if (row[0] == -1) continue;
    if (row[0] != std::floor(row[0]) || row[0] < 0 || row[0] > kMostItem)
      refuse("row ", r, " of the detections has the item ", row[0], "; items are numbered from 0, up to ",
             kMostItem);
    const auto item = static_cast<std::size_t>(row[0]);
    if (item >= items.size()) items.resize(item + 1);
    if (row[1] == -1) continue;
    if (row[1] != std::floor(row[1]) || row[1] < 0 || row[1] >= settings_.num_classes() ||
        row[1] == settings_.background_label_id())
      refuse("row ", r, " of the detections has the label ", row[1], "; expected a class below ",
             settings_.num_classes(), " other than the background, ", settings_.background_label_id());
    items[item][static_cast<int>(row[1])].push_back({row[2], {row[3], row[4], row[5], row[6]}});
  }
  for (auto& item : items)
    for (auto& [label, found] : item)
      std::stable_sort(found.begin(), found.end(),
                       [](const Found& a, const Found& b) { return a.score > b.score; });
  return items;
}

/// Cascade R-CNN's rows of detections and of ground truth as those of SSD.
std::vector<double> moved(const std::vector<double>& rows, const std::vector<std::size_t>& from) {
  std::vector<double> to;
  for (std::size_t at = 0; at + from.size() <= rows.size(); at += from.size())
    for (const std::size_t k : from) to.push_back(rows[at + k]);
  return to;
}

void change_boxes(std::map<int, std::vector<Found>>& found, std::vector<GroundTruth>& truth,
                  const std::function<Box(const Box&)>& change) {
  for (auto& [label, boxes] : found)
    for (Found& one : boxes) one.box = change(one.box);
  for (GroundTruth& one : truth) one.box = change(one.box);
}

void DetectionEvaluateLayer::to_pixels(std::int64_t number, std::map<int, std::vector<Found>>& found,
                                       std::vector<GroundTruth>& truth) const {
  const NamedSize& image = images_[number % static_cast<std::int64_t>(images_.size())];
  change_boxes(found, truth, [&](const Box& box) { return on_image(box, image, settings_.resize_param()); });
}

/// From pixels of an image of this size: height, width.
void DetectionEvaluateLayer::to_pixels_of_images(std::int64_t number, const double* size,
                                                 std::map<int, std::vector<Found>>& found,
                                                 std::vector<GroundTruth>& truth) const {
  const NamedSize& image = images_[number % static_cast<std::int64_t>(images_.size())];
  const double x = image.width / size[1], y = image.height / size[0];
  change_boxes(found, truth, [&](const Box& box) {
    return Box{box.x1 * x, box.y1 * y, box.x2 * x, box.y2 * y};
  });
}

void DetectionEvaluateLayer::forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) {
  const auto values = [&](std::size_t i) { return values_of(*pass.context, inputs[i]->data).values; };
  const int classes = static_cast<int>(settings_.num_classes()),
            background = static_cast<int>(std::min(settings_.background_label_id(), settings_.num_classes()));
  const std::vector<double> sizes = has_sizes_ ? values(2) : std::vector<double>();
  Detections detections = read_detections(has_sizes_ ? moved(values(0), {0, 5, 6, 1, 2, 3, 4}) : values(0));
  auto truth = read_ground_truth(has_sizes_ ? moved(values(1), {0, 5, 6, 1, 2, 3, 4, 7}) : values(1),
                                 {start_of_messages(*this), -1, classes, background, true});
  const VerdictRules rules{settings_.overlap_threshold(), settings_.evaluate_difficult_gt(),
                           images_.empty() && !has_sizes_ ? Corners::points : Corners::pixels};
  std::size_t items = std::max(detections.size(), truth.size());
  if (has_sizes_) {
    if (items > sizes.size() / 2)
      refuse("a detection or a true box is of image ", items - 1, "; there are ", sizes.size() / 2);
    items = sizes.size() / 2;
  }
  detections.resize(items);
  truth.resize(items);

  std::vector<double> rows, boxes(static_cast<std::size_t>(classes), 0);
  for (const auto& item : truth)
    for (const GroundTruth& object : item)
      boxes[object.label] += settings_.evaluate_difficult_gt() || !object.difficult ? 1 : 0;
  for (int label = 0; label < classes; ++label)
    if (label != background) rows.insert(rows.end(), {-1, static_cast<double>(label), boxes[label], -1, -1});
  for (std::size_t item = 0; item < items; ++item) {
    const std::int64_t number =
        pass.draw * static_cast<std::int64_t>(items) + static_cast<std::int64_t>(item);
    if (!images_.empty() && has_sizes_)
      to_pixels_of_images(number, sizes.data() + 2 * item, detections[item], truth[item]);
    else if (!images_.empty())
      to_pixels(number, detections[item], truth[item]);
    for (const auto& [label, found] : detections[item]) {
      std::vector<GroundTruth> own;
      std::copy_if(truth[item].begin(), truth[item].end(), std::back_inserter(own),
                   [wanted = label](const GroundTruth& object) { return object.label == wanted; });
      std::vector<Box> places;
      std::transform(found.begin(), found.end(), std::back_inserter(places),
                     [](const Found& one) { return one.box; });
      const std::vector<Verdict> verdicts = judge(places, own, rules);
      for (std::size_t i = 0; i < found.size(); ++i)
        rows.insert(rows.end(),
                    {static_cast<double>(item), static_cast<double>(label), found[i].score,
                     verdicts[i] == Verdict::right ? 1.0 : 0.0, verdicts[i] == Verdict::wrong ? 1.0 : 0.0});
    }
  }
  rows.resize(static_cast<std::size_t>(outputs[0]->shape.count()), -1);
  set_values(*pass.context, rows, outputs[0]->data);
}

const RegisterLayer<DetectionEvaluateLayer> registered_detection_evaluate(
    "DetectionEvaluate", {.about = "detections compared with the ground truth (SSD, Cascade R-CNN)",
                          .message = "detection_evaluate_param",
                          .examples = {}});

}  // namespace
}  // namespace banyan
