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
      : Layer(parameter, options, {.backward_reads_outputs = false}) {}

  void setup(const Blobs& inputs, const Blobs&) override {
    if (inputs[0]->shape.axes() < 2) refuse("the input needs an axis of channels, axis 1");
    if (!(parameter_.mvn_param().eps() >= 0)) refuse("eps must not be negative");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = inputs[0]->shape;
    const int from = parameter_.mvn_param().across_channels() ? 1 : 2;
    rows_ = input.count(0, from);
    length_ = input.count(from);
    set_output(*outputs[0], input);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    if (inputs[0]->shape.count() == 0) return;
    Context& context = *pass.context;
    ensure(context, moments_, Shape{1 + 2 * rows_}, DType::f64);
    ensure(context, mean_inv_std_, Shape{2 * rows_}, DType::f64);
    ensure(context, stretch_, Shape{rows_}, DType::f64);
    Tensor y = rows_of(outputs[0]->data);
    ops::batch_moments(context, rows_of(inputs[0]->data), moments_);
    ops::deviation_statistics(context, moments_, parameter_.mvn_param().eps(),
                              parameter_.mvn_param().normalize_variance(), mean_inv_std_, stretch_);
    ops::normalize_forward(context, rows_of(inputs[0]->data), mean_inv_std_, {}, y);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0] || inputs[0]->shape.count() == 0) return;
    Context& context = *pass.context;
    ensure(context, sums_, Shape{2 * rows_}, DType::f64);
    const Tensor x = rows_of(inputs[0]->data), dy = rows_of(outputs[0]->grad);
    Tensor dx = rows_of(inputs[0]->grad), products = sums_.slice(rows_, Shape{rows_});
    ops::normalize_backward_sums(context, x, dy, mean_inv_std_, {}, sums_);
    ops::multiply(context, products, stretch_, products);
    ops::normalize_backward(context, x, dy, mean_inv_std_, {}, sums_, moments_, dx);
  }

 private:
  /// The rows as the channels of one sample.
  Tensor rows_of(const Tensor& tensor) const { return tensor.reshaped(Shape{1, rows_, length_}); }

  std::int64_t rows_ = 0, length_ = 0;
  Tensor moments_, mean_inv_std_, stretch_, sums_;
};

const RegisterLayer<MvnLayer> registered("MVN", {"mean 0 and deviation 1 for each channel of each sample",
                                                 "mvn_param",
                                                 {"", "across_channels: true eps: 0.1",
                                                  "normalize_variance: false"}});

}  // namespace
}  // namespace banyan
