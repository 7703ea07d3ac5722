// ScoreDetections (NVIDIA's DetectNet, there in Python): which detections are right. Inputs: true boxes N x G
// x 5 and detections N x D x 5, rows of left, top, right, bottom and a number that is not read; rows whose
// corners are all 0 do not count. Output N x (G + D) x 5: corners and a verdict; 1: a detection that overlaps
// a true box by at least overlap_threshold, 2: one that does not, 3: a true box that no detection overlaps
// so; in this order, and rows of zeros fill it up. True boxes take the first such detection that no other one
// has taken. (The layer in Python has 50 rows and fails if there are more.)
//
// The host does the work, waiting for the device.
#include "banyan/base/box.hpp"
#include "layers/box_layer.hpp"

namespace banyan {
namespace {

class ScoreDetectionsLayer : public BoxLayer {
 public:
  ScoreDetectionsLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : BoxLayer(parameter, options, {2, 2, 1, 1}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &truth = inputs[0]->shape, &detections = inputs[1]->shape;
    for (const Blob* input : inputs)
      if (input->shape.axes() != 3 || input->shape[2] != 5 || input->shape[0] != truth[0])
        refuse(quoted(input->name), " is ", input->shape.to_string(),
               "; expected lists of boxes, samples x boxes x 5");
    set_output(*outputs[0], Shape{truth[0], truth[1] + detections[1], 5});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    const Values truth = values_of(*pass.context, inputs[0]->data);
    const Values detections = values_of(*pass.context, inputs[1]->data);
    std::vector<double> rows(static_cast<std::size_t>(outputs[0]->shape.count()), 0.0);
    for (std::int64_t sample = 0; sample < truth.shape[0]; ++sample)
      score(boxes_of(truth, sample), boxes_of(detections, sample),
            rows.data() + sample * outputs[0]->shape.count(1));
    set_values(*pass.context, rows, outputs[0]->data);
  }

 private:
  static std::vector<Box> boxes_of(const Values& lists, std::int64_t sample) {
    std::vector<Box> boxes;
    for (std::int64_t i = 0; i < lists.shape[1]; ++i) {
      const double* row = lists.values.data() + (sample * lists.shape[1] + i) * 5;
      const Box box{row[0], row[1], row[2], row[3]};
      if (!(box == Box{})) boxes.push_back(box);
    }
    return boxes;
  }

  void score(const std::vector<Box>& truth, const std::vector<Box>& detections, double* row) const {
    const float least = parameter_.score_detections_param().overlap_threshold();  // compared in f32
    std::vector<char> taken(detections.size(), 0);
    std::vector<Box> missed;
    for (const Box& box : truth) {
      std::size_t i = 0;
      while (i < detections.size() &&
             (taken[i] != 0 || !(static_cast<float>(overlap(detections[i], box)) >= least)))
        ++i;
      if (i < detections.size())
        taken[i] = 1;
      else
        missed.push_back(box);
    }
    const auto write = [&row](const Box& box, double verdict) {
      for (const double value : {box.x1, box.y1, box.x2, box.y2, verdict}) *row++ = value;
    };
    for (const char right : {1, 0})
      for (std::size_t i = 0; i < detections.size(); ++i)
        if (taken[i] == right) write(detections[i], right != 0 ? 1 : 2);
    for (const Box& box : missed) write(box, 3);
  }
};

const RegisterLayer<ScoreDetectionsLayer> registered_score_detections(
    "ScoreDetections", {.about = "which detections are right (DetectNet)",
                        .message = "score_detections_param",
                        .examples = {"", "overlap_threshold: 0.2"},
                        .inputs = {{6, 5}, {4, 5}}});

}  // namespace
}  // namespace banyan
