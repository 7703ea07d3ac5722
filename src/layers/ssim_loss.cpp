// SSIMLoss (Hidden Two-Stream): 1 less the structural similarity (Wang et al. 2004) of two images N x C x H x
// W, summed over the windows of all channels and divided by N, the number of samples over all devices. Pixels
// of a window weigh as a Gaussian around the pixel kernel_size / 2; windows at the lower and right border are
// cut off, and their weights then add up to less than 1. The first input has a gradient.
#include <cmath>
#include <vector>

#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/photometric_loss.hpp"

namespace banyan {
namespace {

class SsimLossLayer : public LossLayer {
 public:
  SsimLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LossLayer(parameter, options,
                  {.arity = {2, 2, 1, 1},
                   .backward_reads_outputs = false,
                   .differentiable_inputs = 1,
                   .meets = Meets::forward}),
        how_{settings().kernel_size(), settings().stride(), settings().c1(), settings().c2()} {}

  void read_settings() override {
    if (how_.size < 1 || how_.size > kMost || how_.stride < 1)
      refuse("kernel_size must be from 1 to ", kMost, " and stride positive; found ", how_.size, " and ",
             how_.stride);
    if (!(how_.c1 > 0) || !(how_.c2 > 0))
      refuse("c1 and c2 must be positive; found ", how_.c1, " and ", how_.c2);
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &x = image_shape(*inputs[0]), &y = inputs[1]->shape;
    if (x != y)
      refuse("both inputs must have the same shape; ", quoted(inputs[0]->name), " is ", x.to_string(), ", ",
             quoted(inputs[1]->name), " is ", y.to_string());
    windows_ = x[0] * x[1] * how_.along(x[2]) * how_.along(x[3]);
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    if (!weights_.defined()) bring_weights(context);
    ensure(context, found_, Shape{4, windows_}, DType::f64);
    ensure(context, partial_, Shape{1}, DType::f64);
    ops::similarity_forward(context, images(inputs), how_, weights_, found_);
    ops::sum(context, found_.slice(3 * windows_, Shape{windows_}), partial_);
    const std::int64_t samples = inputs[0]->shape[0];
    find_divisor(pass, Normalization::batch_size, samples, samples);
    write_exact_loss(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::similarity_backward(*pass.context, images(inputs), how_, weights_, found_,
                               exact_scale(pass, *outputs[0]), inputs[0]->grad);
  }

 private:
  static constexpr std::int64_t kMost = 1000;

  const caffe::SSIMLossParameter& settings() const { return parameter_.ssim_loss_param(); }
  static ops::ComparedImages images(const Blobs& inputs) { return {inputs[0]->data, inputs[1]->data}; }

  void bring_weights(Context& context) {
    const double deviation = static_cast<double>(how_.size) / 6;
    std::vector<double> weights(static_cast<std::size_t>(how_.size));
    double sum = 0;
    for (std::int64_t i = 0; i < how_.size; ++i) {
      const double away = static_cast<double>(i - how_.size / 2) / deviation;
      sum += weights[static_cast<std::size_t>(i)] = std::exp(-away * away / 2);
    }
    for (double& weight : weights) weight /= sum;
    weights_ = Tensor(context.device(), Shape{how_.size}, DType::f64);
    copy_from_host(context, weights.data(), weights_);
  }

  ops::SimilarityWindows how_;
  std::int64_t windows_ = 0;
  Tensor weights_, found_;  ///< see ops/photometric_loss.hpp
};

const RegisterLayer<SsimLossLayer> registered_ssim_loss(
    "SSIMLoss", {.about = "1 less the structural similarity of two images' windows (Hidden Two-Stream)",
                 .message = "ssim_loss_param",
                 .examples = {"", "kernel_size: 3 stride: 2 c1: 0.01 c2: 0.03"},
                 .inputs = {{2, 5, 6}, {2, 5, 6}}});

}  // namespace
}  // namespace banyan
