// K1_EuclideanLoss and K2_EuclideanLoss (Lin et al. 2015, Caffe-DeepBinaryCode), of activations x for binary
// codes, N samples of k values: K1 is minus the sum of (x - 0.5)^2 over 2 k N^2 and draws values away from
// 0.5, K2 is (m - 0.5)^2 / (2 N), m being the mean of all values. N and m are those of all devices.
//
// Of a second input the values are not read; as in the branch, its gradient is minus that of the first.
#include <algorithm>

#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"

namespace banyan {
namespace {

class BinaryCodeLossLayer : public LossLayer {
 public:
  BinaryCodeLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LossLayer(parameter, options,
                  {.arity = {1, 2, 1, 1},
                   .backward_reads_inputs = false,
                   .backward_reads_outputs = false,
                   .meets = Meets::forward}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& x = inputs[0]->shape;
    for (const Blob* input : inputs)
      if (x.axes() < 1 || input->shape.axes() < 1 || input->shape[0] != x[0] ||
          input->shape.count(1) != x.count(1))
        refuse("the inputs must have the same batch and the same count per sample; ", quoted(inputs[0]->name),
               " is ", x.to_string(), ", ", quoted(input->name), " is ", input->shape.to_string());
    set_output(*outputs[0], Shape{});
  }

 protected:
  /// 1 over the values of a sample, with the sign of input i's gradient.
  static double share(const Blob& input, std::size_t i) {
    const double values = static_cast<double>(std::max<std::int64_t>(1, input.shape.count(1)));
    return (i == 0 ? 1 : -1) / values;
  }
  static constexpr double kMiddle = 0.5;
};

class AwayFromMiddleLayer : public BinaryCodeLossLayer {
 public:
  using BinaryCodeLossLayer::BinaryCodeLossLayer;

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor& x = inputs[0]->data;
    for (Tensor* tensor : {&middle_, &difference_}) ensure(context, *tensor, x.shape(), x.dtype());
    ensure(context, partial_, Shape{2}, DType::f64);
    ops::fill(context, middle_, kMiddle);
    ops::euclidean_forward(context, x, middle_, difference_, partial_);
    ops::axpby(context, -share(*inputs[0], 0), partial_, 0, partial_);
    find_divisor(pass, Normalization::batch_size, 1, inputs[0]->shape[0]);
    ops::multiply(context, divisor_, divisor_, divisor_);
    write_loss(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!propagate[i]) continue;
      Tensor grad = inputs[i]->grad.reshaped(difference_.shape());
      ops::euclidean_backward(*pass.context, difference_, -share(*inputs[i], i), outputs[0]->grad, divisor_,
                              grad);
    }
  }

 private:
  Tensor middle_, difference_;
};

class MeanAtMiddleLayer : public BinaryCodeLossLayer {
 public:
  using BinaryCodeLossLayer::BinaryCodeLossLayer;

  /// With S the sum of x - 0.5: S^2 / (2 k^2 N^3), of which every device shows the same share.
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Blob& x = *inputs[0];
    ensure(context, sums_, Shape{2}, DType::f64);
    ensure(context, partial_, Shape{2}, DType::f64);
    ensure(context, divisor_, Shape{1}, DType::f64);
    Tensor sum = sums_.slice(0, Shape{1}), samples = sums_.slice(1, Shape{1});
    Tensor loss = partial_.slice(0, Shape{1});
    ops::sum(context, x.data, sum);
    ops::fill(context, samples, static_cast<double>(x.shape[0]));
    sum_over_devices(pass, sums_, {name().c_str(), "sum and samples"});
    ops::axpby(context, -kMiddle * static_cast<double>(x.shape.count(1)), samples, 1, sum);
    ops::multiply(context, samples, samples, divisor_);
    ops::multiply(context, samples, divisor_, divisor_);
    ops::multiply(context, sum, sum, loss);
    const int devices = pass.exchange == nullptr ? 1 : pass.exchange->devices();
    const double of_values = share(x, 0);
    ops::axpby(context, of_values * of_values / (2 * devices), loss, 0, loss);
    write_loss(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    ensure(context, slope_, Shape{1}, DType::f64);
    ensure(context, scale_, Shape{1}, dtype());
    ops::copy(context, outputs[0]->grad.reshaped(Shape{1}), slope_);
    ops::multiply(context, slope_, sums_.slice(0, Shape{1}), slope_);
    ops::quotient(context, slope_, divisor_, {0, 0, 1}, scale_);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Tensor& dx = inputs[i]->grad;
      if (!propagate[i] || dx.count() == 0) continue;
      ops::fill(context, dx, share(*inputs[i], i) * share(*inputs[i], 0));
      ops::scale_bias(context, dx, scale_, none_, {1, 1, dx.count()}, {}, dx);
    }
  }

 private:
  Tensor sums_;  ///< of all devices: S, N
  Tensor slope_, scale_, none_;
};

const RegisterLayer<AwayFromMiddleLayer> registered_away_from_middle(
    "K1_EuclideanLoss", {"draws values away from 0.5, for binary codes (Lin et al. 2015)", ""});
const RegisterLayer<MeanAtMiddleLayer> registered_mean_at_middle(
    "K2_EuclideanLoss", {"draws the mean of all values to 0.5, for binary codes (Lin et al. 2015)", ""});

}  // namespace
}  // namespace banyan
