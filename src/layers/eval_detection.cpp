// EvalDetection (Intel's YOLO): which boxes of YOLOv2 are right. Inputs: a map N x K (5 + C) x S x S as
// RegionLoss takes it (yolo_loss.cpp), ground truth ... x 8 (see MultiBoxLoss; its labels 1 to C are the
// classes 0 to C - 1 here) and perhaps the images, which are not looked at.
//
// A box's class is the likeliest; its score is the objectness, the class's probability, or both multiplied.
// From the best on each box drops those that overlap it by nms, whatever their class, and scores below 0.005
// do not count. A box is right if it overlaps an object of its class by threshold, and is the first to do so.
//
// Output: N x (C + 4 K S S). Of each image the number of objects of each class, then four numbers for each
// box that is left, by class and falling score: class, score, whether it is a true, whether it is a false
// positive; the rest are 0. The host decides, waiting for the device.
#include <cmath>
#include <numeric>

#include "banyan/ops/cell_boxes.hpp"
#include "banyan/tensor/values.hpp"
#include "layers/cell_targets.hpp"
#include "layers/detection_boxes.hpp"

namespace banyan {
namespace {

constexpr double kLeastScore = 0.005;

class EvalDetectionLayer : public Layer {
 public:
  EvalDetectionLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 3, 1, 1},
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .repeatable = false,
               .differentiable_inputs = 0}),
        settings_(parameter_.eval_detection_param()) {}

  void read_settings() override {
    const auto& s = settings_;
    if (s.side() < 1 || s.num_class() < 1 || s.num_object() < 1)
      refuse("side, num_class and num_object must be positive; found ", s.side(), ", ", s.num_class(),
             " and ", s.num_object());
    if (!(s.threshold() > 0)) refuse("threshold must be positive; found ", s.threshold());
    if (!(s.nms() >= 0 && s.nms() <= 1)) refuse("nms must be from 0 to 1; found ", s.nms());
    if (s.biases_size() / 2 != s.num_object() || s.biases_size() % 2 != 0)
      refuse("biases must be a width and a height for each of num_object boxes, ", s.num_object(), "; found ",
             s.biases_size(), " numbers");
    for (const float bias : s.biases())
      if (!(bias > 0)) refuse("biases must be positive; found ", bias);
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &map = image_shape(*inputs[0]), &truth = inputs[1]->shape;
    const std::int64_t channels = boxes() * (5 + classes()), side = settings_.side();
    if (map[1] != channels || map[2] != side || map[3] != side)
      refuse(quoted(inputs[0]->name), " is ", map.to_string(), "; expected N x ", channels, " x ", side,
             " x ", side, ", ", 5 + classes(), " channels for each of ", boxes(), " boxes");
    if (truth.axes() < 1 || truth[-1] != 8)
      refuse("expected ground truth in rows of 8; ", quoted(inputs[1]->name), " is ", truth.to_string());
    set_output(*outputs[0], Shape{map[0], classes() + 4 * boxes() * side * side});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    const Shape &map = inputs[0]->shape, &result = outputs[0]->shape;
    ensure(*pass.context, y_, map, dtype());
    ops::cell_boxes_forward(*pass.context, inputs[0]->data, {map[0] * boxes(), classes(), map.count(2), true},
                            y_);
    const std::vector<double> predicted = values_of(*pass.context, y_).values;
    const auto truth =
        read_ground_truth(values_of(*pass.context, inputs[1]->data).values,
                          {start_of_messages(*this), static_cast<int>(map[0]), settings_.num_class() + 1});
    std::vector<double> rows(static_cast<std::size_t>(result.count()), 0);
    for (std::int64_t item = 0; item < map[0]; ++item)
      write_item(predicted.data() + item * map.count(1), truth[static_cast<std::size_t>(item)],
                 rows.data() + item * result[1]);
    set_values(*pass.context, rows, outputs[0]->data);
  }

  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  struct Candidates {
    std::vector<Box> boxes;
    std::vector<double> scores;
    std::vector<std::int64_t> classes;
  };

  std::int64_t classes() const { return settings_.num_class(); }
  std::int64_t boxes() const { return settings_.num_object(); }

  double score(double objectness, double probability) const {
    switch (settings_.score_type()) {
      case caffe::EvalDetectionParameter::OBJ:
        return objectness;
      case caffe::EvalDetectionParameter::PROB:
        return probability;
      default:
        return objectness * probability;
    }
  }

  Candidates find(const double* predicted) const {
    const std::int64_t side = settings_.side(), cells = side * side;
    Candidates found;
    for (std::int64_t cell = 0; cell < cells; ++cell)
      for (std::int64_t n = 0; n < boxes(); ++n) {
        const double* const at = predicted + n * (5 + classes()) * cells + cell;
        std::int64_t best = 0;
        for (std::int64_t k = 1; k < classes(); ++k)
          if (at[(5 + k) * cells] > at[(5 + best) * cells]) best = k;
        const double own = score(at[4 * cells], at[(5 + best) * cells]);
        if (!(own >= kLeastScore)) continue;
        const int bias = 2 * static_cast<int>(n);
        found.boxes.push_back(
            cell_box({settings_.biases(bias), settings_.biases(bias + 1)}, cell, side, side, at, cells));
        found.scores.push_back(own);
        found.classes.push_back(best);
      }
    return found;
  }

  void write_item(const double* predicted, const std::vector<GroundTruth>& truth, double* to) const {
    for (const GroundTruth& object : truth) to[object.label - 1] += 1;
    const Candidates found = find(predicted);
    std::vector<int> order(found.boxes.size());
    std::iota(order.begin(), order.end(), 0);
    Suppression suppression;
    suppression.threshold =
        std::nextafter(static_cast<double>(settings_.nms()), -1.0);  // as much is too much
    const std::vector<int> kept =
        suppress(found.boxes, by_score(std::move(order), found.scores), suppression);
    double* row = to + classes();
    for (std::int64_t label = 0; label < classes(); ++label) {
      std::vector<Box> places;
      std::vector<double> scores;
      for (const int k : kept)
        if (found.classes[static_cast<std::size_t>(k)] == label) {
          places.push_back(found.boxes[static_cast<std::size_t>(k)]);
          scores.push_back(found.scores[static_cast<std::size_t>(k)]);
        }
      std::vector<GroundTruth> own;
      std::copy_if(truth.begin(), truth.end(), std::back_inserter(own),
                   [&](const GroundTruth& object) { return object.label == label + 1; });
      const std::vector<Verdict> verdicts = judge(places, own, {.threshold = settings_.threshold()});
      for (std::size_t i = 0; i < places.size(); ++i, row += 4) {
        row[0] = static_cast<double>(label);
        row[1] = scores[i];
        row[2] = verdicts[i] == Verdict::right ? 1 : 0;
        row[3] = verdicts[i] == Verdict::wrong ? 1 : 0;
      }
    }
  }

  const caffe::EvalDetectionParameter& settings_;
  Tensor y_;
};

const RegisterLayer<EvalDetectionLayer> registered_eval_detection(
    "EvalDetection", {.about = "boxes of YOLOv2 compared with the ground truth (Intel's YOLO)",
                      .message = "eval_detection_param",
                      .examples = {}});

}  // namespace
}  // namespace banyan
