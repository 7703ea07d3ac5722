// GeneralTripletLoss (caffe-windows, NormFace, Wang et al. 2017): distances d (N x classes, further axes
// count as classes) of samples to the centers of all classes, labels y (N). A class j other than y costs
// negative_weight * max(0, d[y] + margin - d[j]); with hardest_only only that counts which costs most, the
// first of equal ones. The sum is divided by N over all devices. A second output holds the mean distance of
// the label and of the others, N x (classes - 1) of them.
//
// The gradient is that of the branch, not that of the loss: -negative_weight at each j that counts, and
// positive_weight at y, however many count, if one does or add_center_loss is true; of each sample times a
// third input (N), which does not change the loss.
#include "class_distances_loss.hpp"

namespace banyan {
namespace {

class GeneralTripletLossLayer : public ClassDistancesLossLayer {
 public:
  GeneralTripletLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : ClassDistancesLossLayer(parameter, options, 3) {}

  void read_settings() override {
    const caffe::GeneralTripletParameter& s = parameter_.general_triplet_loss_param();
    if (s.positive_first() || s.positive_upper_bound() != 1)
      refuse("positive_first and positive_upper_bound are not supported");
    triplets_ = {s.margin(), s.positive_weight(), s.negative_weight(), s.hardest_only(), s.add_center_loss()};
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    ClassDistancesLossLayer::reshape(inputs, outputs);
    if (inputs.size() > 2 && inputs[2]->shape.count() != over_.outer)
      refuse("expected one factor for each of ", over_.outer, " samples; ", quoted(inputs[2]->name), " is ",
             inputs[2]->shape.to_string());
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    ops::distance_triplets_backward(*pass.context, inputs[0]->data,
                                    inputs.size() > 2 ? inputs[2]->data : Tensor(), over_, triplets_, rows_,
                                    outputs[0]->grad, divisor_, inputs[0]->grad);
  }

 private:
  void add_up(Context& context, const Tensor& distances, const Tensor& labels) override {
    ensure(context, rows_, Shape{over_.outer, ops::kTripletNumbers}, DType::f64);
    ops::distance_triplets_forward(context, distances, labels, over_, triplets_, rows_, partial_, means_,
                                   note_.on(context));
  }

  ops::DistanceTriplets triplets_{};
  Tensor rows_;  ///< what the backward pass needs to know of each sample
};

const RegisterLayer<GeneralTripletLossLayer> registered_general_triplet_loss(
    "GeneralTripletLoss",
    {.about = "keeps samples nearer to the centers of their classes than to others (NormFace)",
     .message = "general_triplet_loss_param",
     .examples = {"margin: 0.5", "margin: 2 hardest_only: true add_center_loss: false positive_weight: 0.5",
                  ""}});

}  // namespace
}  // namespace banyan
