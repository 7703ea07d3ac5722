// FocalLoss, SoftmaxFocalLoss and SoftmaxWithFocalLoss (branches of SSD and Faster R-CNN): -alpha (1 -
// p)^gamma log(p) with p the softmax's probability of the label (Lin et al. 2017); inputs, divisor and second
// output: softmaxed_loss_layer.hpp. Branches write the settings of any of the three as focal_loss_param or
// softmax_focal_loss_param. Branches whose FocalLoss takes a target for each score (with a sigmoid)
// are refused by the number of labels.
#include <cmath>

#include "banyan/ops/class_loss.hpp"
#include "softmaxed_loss_layer.hpp"

namespace banyan {
namespace {

class FocalLossLayer : public SoftmaxedLossLayer {
 public:
  FocalLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SoftmaxedLossLayer(parameter, options, 2) {}

  void read_settings() override {
    SoftmaxedLossLayer::read_settings();
    refuse_label_smoothing();
    refuse_thresh_ratio();
    if (parameter_.has_focal_loss_param() && parameter_.has_softmax_focal_loss_param())
      refuse("give either focal_loss_param or softmax_focal_loss_param, not both");
    const auto& settings = parameter_.has_focal_loss_param() ? parameter_.focal_loss_param()
                                                             : parameter_.softmax_focal_loss_param();
    focal_ = {settings.alpha(), settings.gamma()};
    if (!(focal_.alpha >= 0 && std::isfinite(focal_.alpha)) ||
        !(focal_.gamma >= 0 && std::isfinite(focal_.gamma)))
      refuse("alpha and gamma must be finite and not negative; found ", focal_.alpha, " and ", focal_.gamma);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    ops::focal_loss_backward(*pass.context, probabilities_of(outputs), inputs[1]->data, over_, ignore_,
                             focal_, outputs[0]->grad, divisor_, inputs[0]->grad);
  }

 private:
  int axis() const override { return parameter_.softmax_param().axis(); }

  void add_up(Context& context, const Tensor& probabilities, const Blobs& inputs) override {
    ops::focal_loss_forward(context, probabilities, inputs[1]->data, over_, ignore_, focal_, partial_,
                            note_.on(context));
  }

  ops::FocalLoss focal_{};
};

constexpr const char* kAboutFocalLoss = "softmax loss in which likely labels count less (Lin et al. 2017)";
const RegisterLayer<FocalLossLayer> registered_focal_loss("FocalLoss",
                                                          {.about = kAboutFocalLoss,
                                                           .message = "focal_loss_param",
                                                           .examples = {"", "gamma: 0.5 alpha: 1"},
                                                           .further = {"softmax_focal_loss_param",
                                                                       "softmax_param"}});
const RegisterLayer<FocalLossLayer> registered_softmax_focal_loss("SoftmaxFocalLoss",
                                                                  {.about = kAboutFocalLoss,
                                                                   .message = "softmax_focal_loss_param",
                                                                   .further = {"focal_loss_param",
                                                                               "softmax_param"}});
const RegisterLayer<FocalLossLayer> registered_softmax_with_focal_loss("SoftmaxWithFocalLoss",
                                                                       {.about = kAboutFocalLoss,
                                                                        .message = "softmax_focal_loss_param",
                                                                        .further = {"focal_loss_param",
                                                                                    "softmax_param"}});

}  // namespace
}  // namespace banyan
