// PrecisionRecall (NVIDIA's DetectNet, there mAP in Python): how good detections are. Input: the rows of
// ScoreDetections, N x R x 5. Outputs, of one value each: precision * recall / 100, which the layer in Python
// calls mAP; precision, the right ones among the detections; recall, the right ones among the true boxes. In
// percent, of the batch; 0 where there is nothing to divide by. Tests show their means over batches.
//
// The host does the work, waiting for the device.
#include "layers/box_layer.hpp"

namespace banyan {
namespace {

class PrecisionRecallLayer : public BoxLayer {
 public:
  PrecisionRecallLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : BoxLayer(parameter, options, {1, 1, 3, 3}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    if (inputs[0]->shape.axes() != 3 || inputs[0]->shape[2] != 5)
      refuse(quoted(inputs[0]->name), " is ", inputs[0]->shape.to_string(),
             "; expected ScoreDetections' rows, samples x rows x 5");
    for (Blob* output : outputs) set_output(*output, Shape{1});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    const Values rows = values_of(*pass.context, inputs[0]->data);
    double counts[4] = {};  // by verdict
    for (std::size_t i = 4; i < rows.values.size(); i += 5)
      for (const int verdict : {1, 2, 3})
        if (rows.values[i] == verdict) ++counts[verdict];
    const auto percent = [](double part, double all) { return all > 0 ? 100 * part / all : 0; };
    const double precision = percent(counts[1], counts[1] + counts[2]),
                 recall = percent(counts[1], counts[1] + counts[3]);
    set_values(*pass.context, {precision * recall / 100}, outputs[0]->data);
    set_values(*pass.context, {precision}, outputs[1]->data);
    set_values(*pass.context, {recall}, outputs[2]->data);
  }
};

const RegisterLayer<PrecisionRecallLayer> registered_precision_recall(
    "PrecisionRecall",
    {.about = "precision and recall of detections (DetectNet)", .message = "", .inputs = {{6, 5}}});

}  // namespace
}  // namespace banyan
