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
// over the data. The host decides: such a pass cannot be captured into a graph.
#include <algorithm>
#include <cmath>
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
enum class Verdict : std::uint8_t { neither, right, wrong };

class DetectionEvaluateLayer : public Layer {
 public:
  DetectionEvaluateLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 1, 1},
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .repeatable = false,
               .differentiable_inputs = 0}),
        settings_(parameter_.detection_evaluate_param()) {}

  void setup(const Blobs&, const Blobs&) override {
    const auto& s = settings_;
    if (s.num_classes() < 1) refuse("num_classes must be given");
    if (!(s.overlap_threshold() > 0))
      refuse("overlap_threshold must be positive; found ", s.overlap_threshold());
    if (s.name_size_file().empty()) {
      if (s.has_resize_param()) refuse("resize_param needs name_size_file, the sizes of the images");
      return;
    }
    check_resize(s.resize_param(), start_of_messages(*this));
    images_ = read_name_sizes(s.name_size_file(), start_of_messages(*this));
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    for (const auto& [i, length, what] : {std::tuple{0, 7, "detections"}, std::tuple{1, 8, "ground truth"}})
      if (const Shape& shape = inputs[i]->shape; shape.axes() < 1 || shape[-1] != length)
        refuse("expected ", what, " in rows of ", length, "; ", quoted(inputs[i]->name), " is ",
               shape.to_string());
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
  std::vector<Verdict> judge(const std::vector<Found>& found, const std::vector<GroundTruth>& truth) const;
  void to_pixels(std::int64_t number, std::map<int, std::vector<Found>>& found,
                 std::vector<GroundTruth>& truth) const;

  const caffe::DetectionEvaluateParameter& settings_;
  std::vector<NamedSize> images_;
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

/// Of one item and label, by falling score.
std::vector<Verdict> DetectionEvaluateLayer::judge(const std::vector<Found>& found,
                                                   const std::vector<GroundTruth>& truth) const {
  const Corners corners = images_.empty() ? Corners::points : Corners::pixels;
  std::vector<Verdict> verdicts;
  std::vector<bool> seen(truth.size(), false);
  for (const Found& detection : found) {
    double most = -1;
    std::size_t best = 0;
    for (std::size_t t = 0; t < truth.size(); ++t)
      if (const double shared = overlap(detection.box, truth[t].box, corners); shared > most) {
        most = shared;
        best = t;
      }
    Verdict verdict = Verdict::wrong;
    if (most >= settings_.overlap_threshold()) {
      if (truth[best].difficult && !settings_.evaluate_difficult_gt())
        verdict = Verdict::neither;
      else if (!seen[best])
        verdict = Verdict::right;
      seen[best] = true;
    }
    verdicts.push_back(verdict);
  }
  return verdicts;
}

void DetectionEvaluateLayer::to_pixels(std::int64_t number, std::map<int, std::vector<Found>>& found,
                                       std::vector<GroundTruth>& truth) const {
  const NamedSize& image = images_[number % static_cast<std::int64_t>(images_.size())];
  const auto convert = [&](Box& box) { box = on_image(box, image, settings_.resize_param()); };
  for (auto& [label, boxes] : found)
    for (Found& one : boxes) convert(one.box);
  for (GroundTruth& one : truth) convert(one.box);
}

void DetectionEvaluateLayer::forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) {
  const auto values = [&](std::size_t i) { return values_of(*pass.context, inputs[i]->data).values; };
  const int classes = static_cast<int>(settings_.num_classes()),
            background = static_cast<int>(std::min(settings_.background_label_id(), settings_.num_classes()));
  Detections detections = read_detections(values(0));
  auto truth = read_ground_truth(values(1), {start_of_messages(*this), -1, classes, background, true});
  const std::size_t items = std::max(detections.size(), truth.size());
  detections.resize(items);
  truth.resize(items);

  std::vector<double> rows, boxes(static_cast<std::size_t>(classes), 0);
  for (const auto& item : truth)
    for (const GroundTruth& object : item)
      boxes[object.label] += settings_.evaluate_difficult_gt() || !object.difficult ? 1 : 0;
  for (int label = 0; label < classes; ++label)
    if (label != background) rows.insert(rows.end(), {-1, static_cast<double>(label), boxes[label], -1, -1});
  for (std::size_t item = 0; item < items; ++item) {
    if (!images_.empty())
      to_pixels(pass.draw * static_cast<std::int64_t>(items) + static_cast<std::int64_t>(item),
                detections[item], truth[item]);
    for (const auto& [label, found] : detections[item]) {
      std::vector<GroundTruth> own;
      std::copy_if(truth[item].begin(), truth[item].end(), std::back_inserter(own),
                   [wanted = label](const GroundTruth& object) { return object.label == wanted; });
      const std::vector<Verdict> verdicts = judge(found, own);
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
    "DetectionEvaluate", {.about = "detections compared with the ground truth (SSD)",
                          .message = "detection_evaluate_param",
                          .examples = {}});

}  // namespace
}  // namespace banyan
