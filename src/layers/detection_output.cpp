// DetectionOutput (SSD): what a net's boxes come to. Inputs: locations N x (P L 4), confidences N x (P C),
// priors 1 x 2 x 4P, and an image that is not read. L is 1 with share_location, else the number of classes C.
// RefineDet's, which are given objectness_score or a fifth input, have in place of the image what their first
// step predicts: confidences N x 2P (no object, an object), below objectness_score of which a prior has no
// confidence in any class but 0, and locations N x 4P, which move each image's priors.
//
// Of each class but the background, the boxes whose confidence is above confidence_threshold go through
// non-maximum suppression; keep_top_k of an image remain, in the order of their classes, then confidences.
// The output is 1 x 1 x (N K) x 7, K rows for each image: item, label, confidence, xmin, ymin, xmax, ymax as
// fractions of the image, not cut off at its border unless clip (OpenCV) says so before suppression. K is the
// most that can remain, because memory is planned before the data is known; rows left over hold the item and
// then -1 (SSD has them only if nothing remains).
//
// With use_polygon (TextBoxes++) locations have 12 numbers in place of 4, of a box and of a quadrilateral,
// whose corners are 8 further columns: x1, y1 ... x4, y4. The boxes decide what remains.
//
// save_output_param writes what was found to files. The host decides, waiting for the device: such a pass
// cannot be captured into a graph.
#include <algorithm>

#include "banyan/base/log.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/tensor/values.hpp"
#include "layers/detection_boxes.hpp"
#include "layers/detection_files.hpp"

namespace banyan {
namespace {

class DetectionOutputLayer : public Layer {
 public:
  DetectionOutputLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {3, 5, 1, 1},
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .repeatable = false,
               .differentiable_inputs = 0}),
        settings_(parameter_.detection_output_param()) {}

  void read_settings() override {
    const auto& s = settings_;
    if (s.num_classes() < 1) refuse("num_classes must be given");
    if (s.keep_top_k() == 0) refuse("keep_top_k must be positive, or -1 for all");
    suppression_ = read_suppression(s.nms_param(), start_of_messages(*this));
    code_ = {s.code_type(), !s.variance_encoded_in_target()};
    if (!s.normalized_bbox() || s.loc_pred_transposed() || !s.group_by_classes())
      refuse(
          "normalized_bbox: false, loc_pred_transposed: true and group_by_classes: false (OpenCV) are not "
          "supported");
    if (s.visualize() && options().rank == 0)
      log_warning(cat(start_of_messages(*this),
                      "visualize is ignored: the boxes are in the output and nothing is drawn"));
    const auto& save = s.save_output_param();
    if (s.use_polygon() && (s.code_type() != caffe::PriorBoxParameter::CENTER_SIZE || !code_.has_variances))
      refuse("use_polygon needs code_type: CENTER_SIZE without variance_encoded_in_target");
    if (s.use_polygon() && !save.output_directory().empty())
      refuse("save_output_param writes boxes only; remove it, or use_polygon");
    files_ = open_detection_files(*this, save, static_cast<int>(s.num_classes()), s.background_label_id(),
                                  options().rank, options().devices);
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override;
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override;
  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  bool is_background(std::int64_t label) const { return label == settings_.background_label_id(); }
  /// The first input of RefineDet's first step.
  std::size_t first_step(const Blobs& inputs) const {
    return settings_.has_objectness_score() || inputs.size() > 4 ? 3 : inputs.size();
  }
  /// Of an item; `refined`: its priors.
  std::vector<Detection> detect(std::int64_t item, const std::vector<Prior>& refined,
                                const std::vector<double>& locations, const std::vector<double>& confidences,
                                const FirstStep& first_step) const;

  const caffe::DetectionOutputParameter& settings_;
  Suppression suppression_;
  BoxCode code_;
  std::int64_t numbers_ = 4, columns_ = 7;  ///< of a location, of a row
  Predictions predictions_;
  std::int64_t classes_ = 0, boxes_ = 1;  ///< boxes_: per prior
  std::int64_t most_ = 0;                 ///< rows per item
  std::optional<DetectionFiles> files_;
};

void DetectionOutputLayer::reshape(const Blobs& inputs, const Blobs& outputs) {
  classes_ = settings_.num_classes();
  boxes_ = settings_.share_location() ? 1 : classes_;
  if (settings_.use_polygon()) numbers_ = 12, columns_ = 15;
  predictions_ = check_predictions(inputs, boxes_, classes_, start_of_messages(*this), numbers_);
  if (settings_.use_polygon() && first_step(inputs) < inputs.size())
    refuse("use_polygon does not go with the inputs of a first step (RefineDet)");
  check_first_step(inputs, first_step(inputs), predictions_, start_of_messages(*this));
  const bool has_background =
      settings_.background_label_id() >= 0 && settings_.background_label_id() < classes_;
  most_ = suppression_.top_k >= 0 ? std::min<std::int64_t>(suppression_.top_k, predictions_.priors)
                                  : predictions_.priors;
  most_ *= classes_ - (has_background ? 1 : 0);
  if (settings_.keep_top_k() > 0) most_ = std::min<std::int64_t>(most_, settings_.keep_top_k());
  set_output(*outputs[0], Shape{1, 1, predictions_.items * most_, columns_});
}

std::vector<Detection> DetectionOutputLayer::detect(std::int64_t item, const std::vector<Prior>& refined,
                                                    const std::vector<double>& locations,
                                                    const std::vector<double>& confidences,
                                                    const FirstStep& first_step) const {
  const std::int64_t first = item * predictions_.priors;
  std::vector<std::vector<Box>> boxes(boxes_);
  for (std::int64_t b = 0; b < boxes_; ++b) {
    if (boxes_ > 1 && is_background(b)) continue;
    for (std::int64_t p = 0; p < predictions_.priors; ++p) {
      const Box box = code_.decode(refined[p], &locations[numbers_ * ((first + p) * boxes_ + b)]);
      boxes[b].push_back(settings_.clip() ? clipped(box) : box);
    }
  }
  std::vector<Detection> found;
  std::vector<double> scores(predictions_.priors);
  for (std::int64_t label = 0; label < classes_; ++label) {
    if (is_background(label)) continue;
    std::vector<int> candidates;
    for (std::int64_t p = 0; p < predictions_.priors; ++p) {
      const bool chosen = first_step.chooses(first + p, settings_.objectness_score());
      scores[p] = chosen ? confidences[(first + p) * classes_ + label] : (label == 0 ? 1 : 0);
      if (!settings_.has_confidence_threshold() || scores[p] > settings_.confidence_threshold())
        candidates.push_back(static_cast<int>(p));
    }
    const std::vector<Box>& own = boxes[boxes_ > 1 ? label : 0];
    for (const int p : suppress(own, by_score(std::move(candidates), scores), suppression_))
      found.push_back({static_cast<int>(label), scores[p], own[p], static_cast<std::size_t>(p)});
  }
  keep_best(found, most_);
  return found;
}

void DetectionOutputLayer::forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) {
  const auto values = [&](std::size_t i) { return values_of(*pass.context, inputs[i]->data).values; };
  const std::vector<double> locations = values(0), confidences = values(1);
  const std::vector<Prior> priors = read_priors(values(2), settings_.code_type(), start_of_messages(*this));
  const FirstStep first = FirstStep::read(*pass.context, inputs, first_step(inputs));
  std::vector<double> rows;
  for (std::int64_t item = 0; item < predictions_.items; ++item) {
    const std::vector<Detection> found =
        detect(item, first.refine(priors, code_, item), locations, confidences, first);
    const auto number = static_cast<double>(item);
    for (const auto& [label, score, box, prior] : found) {
      rows.insert(rows.end(), {number, static_cast<double>(label), score, box.x1, box.y1, box.x2, box.y2});
      if (!settings_.use_polygon()) continue;
      const std::int64_t place =
          (item * predictions_.priors + static_cast<std::int64_t>(prior)) * boxes_ + (boxes_ > 1 ? label : 0);
      const auto polygon = decode_polygon(priors[prior], &locations[numbers_ * place + 4]);
      rows.insert(rows.end(), polygon.begin(), polygon.end());
    }
    for (auto left = static_cast<std::int64_t>(found.size()); left < most_; ++left) {
      rows.push_back(number);
      rows.insert(rows.end(), static_cast<std::size_t>(columns_ - 1), -1);
    }
    if (files_) files_->add(pass.draw * predictions_.items + item, found);
  }
  set_values(*pass.context, rows, outputs[0]->data);
}

const RegisterLayer<DetectionOutputLayer> registered_detection_output(
    "DetectionOutput", {.about = "the boxes of a detector after non-maximum suppression (SSD)",
                        .message = "detection_output_param",
                        .examples = {}});

}  // namespace
}  // namespace banyan
