// WeightedSoftmaxWithLoss: SoftmaxWithLoss with weights: of each sample or each position, a third input, or
// of the labels, pos_mult for the classes pos_cid. Valid positions count as one each in the divisor, whatever
// their weights. Inputs, divisor and second output: softmaxed_loss_layer.hpp.
#include <cmath>
#include <set>
#include <vector>

#include "banyan/ops/class_loss.hpp"
#include "banyan/tensor/values.hpp"
#include "softmaxed_loss_layer.hpp"

namespace banyan {
namespace {

class WeightedSoftmaxLossLayer : public SoftmaxedLossLayer {
 public:
  WeightedSoftmaxLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SoftmaxedLossLayer(parameter, options, 3) {}

  void read_settings() override {
    SoftmaxedLossLayer::read_settings();
    refuse_label_smoothing();
    refuse_thresh_ratio();
    const auto& s = parameter_.softmax_param();
    // One of the two may be left out: then it is 1.
    factors_.assign(s.pos_mult().begin(), s.pos_mult().end());
    classes_.assign(s.pos_cid().begin(), s.pos_cid().end());
    if (factors_.empty() && classes_.size() == 1) factors_ = {1};
    if (classes_.empty() && factors_.size() == 1) classes_ = {1};
    if (factors_.size() != classes_.size())
      refuse("pos_mult and pos_cid must be as many; found ", factors_.size(), " and ", classes_.size());
    if (std::set<std::int64_t>(classes_.begin(), classes_.end()).size() != classes_.size())
      refuse("pos_cid names a class twice");
    for (const double factor : factors_)
      if (!(factor >= 0 && std::isfinite(factor)))
        refuse("pos_mult must be finite and not negative; found ", factor);
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    SoftmaxedLossLayer::reshape(inputs, outputs);
    for (const std::int64_t c : classes_)
      if (c < 0 || c >= over_.channels)
        refuse("pos_cid must be a class from 0 to ", over_.channels - 1, "; found ", c,
               parameter_.softmax_param().pos_cid_size() == 0 ? ", which it is where it is absent" : "");
    if (inputs.size() < 3) return;
    const std::int64_t given = inputs[2]->shape.count();
    if (given != over_.outer && given != over_.outer * over_.inner)
      refuse("expected one weight for each of ", over_.outer, " samples or of ", over_.outer * over_.inner,
             " positions; ", quoted(inputs[2]->name), " is ", inputs[2]->shape.to_string());
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    ops::smoothed_loss_backward(*pass.context, probabilities_of(outputs), inputs[1]->data, weights(inputs),
                                over_, ignore_, 0, outputs[0]->grad, divisor_, inputs[0]->grad);
  }

 private:
  int axis() const override { return parameter_.softmax_param().axis(); }

  void add_up(Context& context, const Tensor& probabilities, const Blobs& inputs) override {
    if (!classes_.empty() && (!by_class_.defined() || by_class_.count() != over_.channels)) {
      std::vector<double> factors(static_cast<std::size_t>(over_.channels), 1);
      for (std::size_t i = 0; i < classes_.size(); ++i)
        factors[static_cast<std::size_t>(classes_[i])] = factors_[i];
      by_class_ = Tensor(context.device(), Shape{over_.channels}, dtype());
      set_values(context, factors, by_class_);
    }
    ops::smoothed_loss_forward(context, probabilities, inputs[1]->data, weights(inputs), over_, ignore_, 0,
                               partial_, note_.on(context));
  }

  ops::LossWeights weights(const Blobs& inputs) const {
    return {inputs.size() > 2 ? inputs[2]->data : none_, by_class_};
  }

  std::vector<double> factors_;
  std::vector<std::int64_t> classes_;  ///< that these are for
  Tensor by_class_, none_;
};

const RegisterLayer<WeightedSoftmaxLossLayer> registered_weighted_softmax_loss(
    "WeightedSoftmaxWithLoss",
    {"softmax loss with weights of samples or classes", "softmax_param", {"", "pos_mult: 2 pos_cid: 3"}});

}  // namespace
}  // namespace banyan
