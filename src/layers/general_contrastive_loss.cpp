// GeneralContrastiveLoss (caffe-windows, NormFace, Wang et al. 2017): distances (N x classes, further axes
// count as classes) of samples to the centers of all classes, labels (N). The label's distance d costs
// positive_weight * min(positive_outlier_thresh, max(0, d - positive_margin)), others below negative_margin
// negative_weight * (negative_margin - d), or with exp_negative_weight negative_weight * e^-d; the sum is
// divided by N over all devices. The label's gradient is that of the branch: 0 where d is not between
// positive_margin and positive_outlier_thresh. A second output holds the mean cost of the label's distance
// and of the others, N x (classes - 1) of them, without factors and exponential.
#include "class_distances_loss.hpp"

namespace banyan {
namespace {

class GeneralContrastiveLossLayer : public ClassDistancesLossLayer {
 public:
  GeneralContrastiveLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : ClassDistancesLossLayer(parameter, options, 2) {
    if (parameter.bottom_size() == 3) refuse("a third input, in place of the distances, is not supported");
  }

  void read_settings() override {
    const caffe::GeneralContrastiveParameter& s = settings();
    if (s.has_normalize_negative() || s.square() || s.max_negative_only() || s.max_positive_only() ||
        s.positive_first() || s.positive_upper_bound() != 1 || s.add_intra_mae() ||
        s.max_negative_margin() != caffe::GeneralContrastiveParameter().max_negative_margin())
      refuse(
          "normalize_negative, square, max_negative_only, max_positive_only, positive_first, "
          "positive_upper_bound, add_intra_mae and max_negative_margin are not supported");
    margins_ = {s.positive_margin(), s.positive_outlier_thresh(), s.positive_weight(),
                s.negative_margin(), s.negative_weight(),         s.exp_negative_weight()};
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::distance_margins_backward(*pass.context, inputs[0]->data, inputs[1]->data, over_, margins_,
                                     outputs[0]->grad, divisor_, inputs[0]->grad);
  }

 private:
  void add_up(Context& context, const Tensor& distances, const Tensor& labels) override {
    ops::distance_margins_forward(context, distances, labels, over_, margins_, partial_, means_,
                                  note_.on(context));
  }

  const caffe::GeneralContrastiveParameter& settings() const {
    return parameter_.general_contrastive_loss_param();
  }

  ops::DistanceMargins margins_{};
};

const RegisterLayer<GeneralContrastiveLossLayer> registered_general_contrastive_loss(
    "GeneralContrastiveLoss",
    {.about = "pulls samples to the centers of their classes and away from others (NormFace)",
     .message = "general_contrastive_loss_param",
     .examples = {"", "negative_margin: 100 exp_negative_weight: true positive_weight: 0.5"}});

}  // namespace
}  // namespace banyan
