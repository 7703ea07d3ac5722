// MVN: subtracts the mean of each channel of each sample (across_channels: of each sample), and with
// normalize_variance divides by its standard deviation + eps.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/normalization.hpp"
#include "banyan/ops/norms.hpp"

namespace banyan {
namespace {

class MvnLayer : public Layer {
 public:
  MvnLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options, {.layout = LayoutRule::follows, .backward_reads_outputs = false}) {}

  void read_settings() override {
    if (!(parameter_.mvn_param().eps() >= 0)) refuse("eps must not be negative");
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    if (inputs[0]->shape.axes() < 2) refuse("the input needs an axis of channels, axis 1");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = inputs[0]->shape;
    const bool across = parameter_.mvn_param().across_channels();
    // Rows of neighbours in memory; but in channels-last images the channels of a sample lie side by side.
    side_by_side_ =
        !across && inputs[0]->layout == Layout::channels_last && input[1] > 1 && input.count(2) > 1;
    groups_ = side_by_side_ ? input[0] : 1;
    rows_ = side_by_side_ ? input[1] : input.count(0, across ? 1 : 2);
    length_ = input.count(across ? 1 : 2);
    set_output(*outputs[0], input, inputs[0]->layout);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    if (inputs[0]->shape.count() == 0) return;
    Context& context = *pass.context;
    ensure(context, moments_, Shape{groups_ * (1 + 2 * rows_)}, DType::f64);
    ensure(context, mean_inv_std_, Shape{groups_ * 2 * rows_}, DType::f64);
    ensure(context, stretch_, Shape{groups_ * rows_}, DType::f64);
    for (std::int64_t group = 0; group < groups_; ++group) {
      const Tensor x = images_of(inputs[0]->data, group);
      Tensor y = images_of(outputs[0]->data, group), moments = part(moments_, group),
             mean_inv_std = part(mean_inv_std_, group), stretch = part(stretch_, group);
      ops::batch_moments(context, x, moments);
      ops::deviation_statistics(context, moments, parameter_.mvn_param().eps(),
                                parameter_.mvn_param().normalize_variance(), mean_inv_std, stretch);
      ops::normalize_forward(context, x, mean_inv_std, {}, y);
    }
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0] || inputs[0]->shape.count() == 0) return;
    Context& context = *pass.context;
    ensure(context, sums_, Shape{2 * rows_}, DType::f64);
    Tensor products = sums_.slice(rows_, Shape{rows_});
    for (std::int64_t group = 0; group < groups_; ++group) {
      const Tensor x = images_of(inputs[0]->data, group), dy = images_of(outputs[0]->grad, group);
      const Tensor moments = part(moments_, group), mean_inv_std = part(mean_inv_std_, group);
      Tensor dx = images_of(inputs[0]->grad, group);
      ops::normalize_backward_sums(context, x, dy, mean_inv_std, {}, sums_);
      ops::multiply(context, products, part(stretch_, group), products);
      ops::normalize_backward(context, x, dy, mean_inv_std, {}, sums_, moments, dx);
    }
  }

 private:
  /// The rows of a group as the channels of one sample.
  Tensor images_of(const Tensor& tensor, std::int64_t group) const {
    return tensor.slice(group * rows_ * length_, Shape{1, rows_, length_},
                        side_by_side_ ? Layout::channels_last : Layout::contiguous);
  }
  Tensor part(const Tensor& of_groups, std::int64_t group) const {
    const std::int64_t length = of_groups.count() / groups_;
    return of_groups.slice(group * length, Shape{length});
  }

  bool side_by_side_ = false;
  /// Each with statistics of its own rows, `length_` long: samples, or all of them together.
  std::int64_t groups_ = 1, rows_ = 0, length_ = 0;
  Tensor moments_, mean_inv_std_, stretch_, sums_;
};

const RegisterLayer<MvnLayer> registered_mvn("MVN", {"mean 0 and deviation 1 for each channel of each sample",
                                                     "mvn_param",
                                                     {"", "across_channels: true eps: 0.1",
                                                      "normalize_variance: false"}});

}  // namespace
}  // namespace banyan
