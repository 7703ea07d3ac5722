// BoxAnnotatorOHEM: of each image's regions keeps the labels and the box weights of those with the largest
// losses (R-FCN, online hard example mining). Inputs: regions (R x 5: image, x1, y1, x2, y2), their losses
// (R), labels (R) and weights (R x any number); with further axes, R positions each. Outputs: labels, which
// are ignore_label but for roi_per_img regions of each image, and weights, 0 likewise. Equal regions count
// once (ProposalTarget fills its rows with them).
#include <map>
#include <set>

#include "box_layer.hpp"

namespace banyan {
namespace {

class BoxAnnotatorLayer : public BoxLayer {
 public:
  BoxAnnotatorLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : BoxLayer(parameter, options, {4, 4, 2, 2}) {}

  void read_settings() override {
    if (settings().roi_per_img() == 0) refuse("roi_per_img must be given and positive");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &rois = inputs[0]->shape, &weights = inputs[3]->shape;
    if (rois.axes() < 2 || rois[1] != 5)
      refuse(quoted(inputs[0]->name), " is ", rois.to_string(), "; expected R x 5: image, x1, y1, x2, y2");
    inner_ = rois.count(2);
    for (std::size_t i = 1; i < 3; ++i)
      if (inputs[i]->shape.count() != rois[0] * inner_)
        refuse(quoted(inputs[i]->name), " is ", inputs[i]->shape.to_string(),
               "; expected one number for each of ", rois[0] * inner_, " regions");
    if (weights.axes() < 2 || weights[0] != rois[0] || weights.count(2) != inner_)
      refuse(quoted(inputs[3]->name), " is ", weights.to_string(), "; expected the weights of ",
             rois[0] * inner_, " regions");
    set_output(*outputs[0], inputs[2]->shape);
    set_output(*outputs[1], weights);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Values rois = values_of(context, inputs[0]->data), labels = values_of(context, inputs[2]->data),
                 weights = values_of(context, inputs[3]->data);
    std::vector<double> losses = values_of(context, inputs[1]->data).values;
    std::vector<int> all;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      if (std::isnan(losses[i])) losses[i] = HUGE_VAL;  // shall not go unseen
      all.push_back(static_cast<int>(i));
    }
    std::vector<double> kept_labels(labels.values.size(), settings().ignore_label()),
        kept_weights(weights.values.size(), 0);
    std::map<double, std::uint32_t> taken;  // of each image
    std::set<std::array<double, 5>> known;
    const std::int64_t numbers = weights.shape[1];
    for (const int region : by_score(all, losses)) {
      const std::int64_t outer = region / inner_, inner = region % inner_;
      std::array<double, 5> row;
      for (std::int64_t i = 0; i < 5; ++i) row[i] = rois.values[(outer * 5 + i) * inner_ + inner];
      if (!std::all_of(row.begin(), row.end(), [](double x) { return std::isfinite(x); })) {
        note("the numbers of region ", region, " are not finite");
        continue;
      }
      if (taken[row[0]] == settings().roi_per_img() || !known.insert(row).second) continue;
      ++taken[row[0]];
      kept_labels[region] = labels.values[region];
      for (std::int64_t i = 0; i < numbers; ++i) {
        const std::int64_t at = (outer * numbers + i) * inner_ + inner;
        kept_weights[at] = weights.values[at];
      }
    }
    set_values(context, kept_labels, outputs[0]->data);
    set_values(context, kept_weights, outputs[1]->data);
  }

 private:
  const caffe::BoxAnnotatorOHEMParameter& settings() const { return parameter_.box_annotator_ohem_param(); }

  std::int64_t inner_ = 1;
};

const RegisterLayer<BoxAnnotatorLayer> registered_box_annotator(
    "BoxAnnotatorOHEM", {.about = "keeps the regions with the largest losses (R-FCN)",
                         .message = "box_annotator_ohem_param",
                         .examples = {"roi_per_img: 2"},
                         .inputs = {{5}, {}, {}, {8}}});

}  // namespace
}  // namespace banyan
