// GroupNorm: mean 0 and deviation 1 for the channels of each group of a sample (Wu, He 2018). As in the
// branch that has it, there is no slope and no bias: a Scale layer after it has them.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/normalization.hpp"

namespace banyan {
namespace {

class GroupNormLayer : public Layer {
 public:
  GroupNormLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options, {.backward_reads_outputs = false}) {}

  void read_settings() override {
    if (settings().group_num() < 1) refuse("group_num must be at least 1; found ", settings().group_num());
    if (!(settings().eps() > 0)) refuse("eps must be positive; found ", settings().eps());
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = inputs[0]->shape;
    const std::int64_t groups = settings().group_num();
    if (input.axes() < 2) refuse("the input needs an axis of channels, axis 1");
    if (input[1] % groups != 0)
      refuse("group_num ", groups, " does not divide the ", input[1], " channels of ",
             quoted(inputs[0]->name));
    rows_ = Shape{1, input[0] * groups, input[1] / groups * input.count(2)};
    set_output(*outputs[0], input);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    if (rows_.count() == 0) return;
    Context& context = *pass.context;
    ensure(context, moments_, Shape{1 + 2 * rows_[1]}, DType::f64);
    ensure(context, mean_inv_std_, Shape{2 * rows_[1]}, DType::f64);
    const Tensor x = inputs[0]->data.reshaped(rows_);
    Tensor y = outputs[0]->data.reshaped(rows_);
    ops::batch_moments(context, x, moments_);
    ops::finish_moments(context, moments_, settings().eps(), false, mean_inv_std_);
    ops::normalize_forward(context, x, mean_inv_std_, {}, y);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0] || rows_.count() == 0) return;
    Context& context = *pass.context;
    ensure(context, sums_, Shape{2 * rows_[1]}, DType::f64);
    const Tensor x = inputs[0]->data.reshaped(rows_), dy = outputs[0]->grad.reshaped(rows_);
    Tensor dx = inputs[0]->grad.reshaped(rows_);
    ops::normalize_backward_sums(context, x, dy, mean_inv_std_, {}, sums_);
    ops::normalize_backward(context, x, dy, mean_inv_std_, {}, sums_, moments_, dx);
  }

 private:
  const caffe::GroupNormParameter& settings() const { return parameter_.group_norm_param(); }

  Shape rows_;  ///< 1 x groups of all samples x their values
  Tensor moments_, mean_inv_std_, sums_;
};

const RegisterLayer<GroupNormLayer> registered_group_norm(
    "GroupNorm", {"mean 0 and deviation 1 for each group of channels of each sample",
                  "group_norm_param",
                  {"group_num: 2"}});

}  // namespace
}  // namespace banyan
